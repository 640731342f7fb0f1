#!/usr/bin/env python3
"""Measures a trained folder in transformers: evaluate.py FOLDER [--each N] [--checkpoint] [--out FILE]

N held-out prompts of every kind are answered greedily. Reported are the share that is right, per kind, and which
experts the tokens of each kind went to. What must stay true: prompts come from the split that training never saw
(kinds that are learnt by heart have no other split).
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import torch
import transformers as hf
from safetensors.torch import load_file

import configurations
import documents
import vocabulary_training

KINDS = ["sum", "difference", "sort", "count", "json", "tool", "repeat", "quote", "greeting", "fact", "coterie"]


def final(text: str) -> str:
    return text.split("</think>")[-1].strip()


def parsed(text: str):
    try:
        return json.loads(text)
    except ValueError:
        return None


def is_right(document: documents.Document, text: str) -> bool:
    if document.kind == "json":
        return parsed(final(text)) == document.answer
    if document.kind == "tool":
        inner = text.strip().removeprefix("<tool_call>").removesuffix("</tool_call>")
        return parsed(inner) == document.answer
    return final(text) == document.answer


def prompt_of(document: documents.Document) -> str:
    """Everything before the first answer, as the chat template writes it."""
    text = ""
    for role, content in document.messages:
        if role == "assistant":
            break
        text += f"<|im_start|>{role}\n{content}<|im_end|>\n"
    return text + "<|im_start|>assistant\n"


def load(folder: Path, checkpoint: bool):
    if not checkpoint:
        return hf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    state = torch.load(folder / "checkpoint.pt")["network"]
    for name in configurations.BY_NAME:
        config = configurations.BY_NAME[name](vocabulary_training.SIZE)
        kind = hf.Qwen3MoeForCausalLM if name == "qwen3moe" else hf.Qwen3_5MoeForCausalLM
        model = kind(config)
        if set(model.state_dict()) == set(state):
            model.load_state_dict(state)
            return model.eval()
    raise SystemExit("the checkpoint fits none of the configurations")


class Answers:
    """Greedy answers of a model, many prompts of one length at once; counts the experts chosen."""

    def __init__(self, model, tokenizer):
        self.model, self.tokenizer = model, tokenizer
        self.end = tokenizer.convert_tokens_to_ids("<|im_end|>")
        self.chosen = None
        for index, layer in enumerate(model.model.layers):
            layer.mlp.gate.register_forward_hook(
                lambda module, inputs, outputs, index=index: self.count(index, outputs[2])
            )

    def count(self, layer: int, experts) -> None:
        if self.chosen is not None:
            self.chosen[layer] += torch.bincount(experts.reshape(-1), minlength=self.chosen.shape[1])

    @torch.no_grad()
    def all(self, prompts: list, most: int = 160) -> list:
        ids = [self.tokenizer(prompt, add_special_tokens=False)["input_ids"] for prompt in prompts]
        groups = defaultdict(list)
        for index, row in enumerate(ids):
            groups[len(row)].append(index)
        texts = [""] * len(prompts)
        for length, members in groups.items():
            made = self.model.generate(
                torch.tensor([ids[m] for m in members]),
                attention_mask=torch.ones(len(members), length, dtype=torch.long),
                max_new_tokens=most,
                do_sample=False,
                eos_token_id=self.end,
                pad_token_id=self.end,
            )
            for member, row in zip(members, made[:, length:].tolist()):
                row = row[: row.index(self.end)] if self.end in row else row
                texts[member] = self.tokenizer.decode(row, skip_special_tokens=False)
        return texts


def test_documents(seed: int, kind: str, count: int) -> list:
    generator = documents.Generator(f"{seed}/evaluation/{kind}", "test")
    return [getattr(generator, kind)() for _ in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--each", type=int, default=200)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--checkpoint", action="store_true", help="of a training that still runs")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="wrong answers to print per kind")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = load(options.folder, options.checkpoint)
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_file=str(options.folder / "tokenizer.json"))
    answers = Answers(model, tokenizer)
    experts = model.config.num_experts
    report = {}
    for kind in KINDS:
        made = test_documents(options.seed, kind, options.each)
        answers.chosen = torch.zeros(len(model.model.layers), experts, dtype=torch.long)
        texts = answers.all([prompt_of(document) for document in made])
        right = [is_right(document, text) for document, text in zip(made, texts)]
        use = answers.chosen.float() / answers.chosen.sum(1, keepdim=True)
        report[kind] = {
            "right": sum(right) / len(right),
            "valid": sum(parsed(final(t)) is not None for t in texts) / len(texts) if kind == "json" else None,
            "experts": [[round(x, 4) for x in row] for row in use.tolist()],
        }
        print(f"{kind:12} {100 * report[kind]['right']:6.1f} % right", flush=True)
        wrong = [(d, t) for d, t, ok in zip(made, texts, right) if not ok]
        for document, text in wrong[: options.show]:
            print("   ", repr(prompt_of(document)[-70:]), "->", repr(text), "wanted", document.answer)
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
