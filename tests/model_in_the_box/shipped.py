#!/usr/bin/env python3
"""Makes what the tests of a shipped model compare with: shipped.py FOLDER MODEL.gguf OUT.json

The weights of the shipped (quantised) file are decoded with the gguf package and put back into transformers' model;
its greedy answers to held-out prompts and its perplexity on held-out text (text.txt beside it) go into OUT.json. So
the tests compare with what other code makes of the very same weights.
"""

import argparse
import json
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers as hf
from safetensors.torch import load_file

import documents
import evaluate

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))
import convert  # noqa: E402

PROMPTS = {"sum": 60, "difference": 45, "sort": 60, "count": 40, "json": 50, "tool": 50, "fact": 25, "coterie": 25}
CONTEXT = 256


def with_weights_of(file: Path, state: dict, config: dict) -> dict:
    """`state` with its matrices replaced by those of a GGUF file. Where each value went is found by converting numbers
    that count the values."""
    counted, first = {}, 0
    for name, tensor in state.items():
        counted[name] = np.arange(first, first + tensor.numel(), dtype=np.float64).reshape(tensor.shape)
        first += tensor.numel()
    places = convert.Conversion(counted, config).tensors
    flat = np.concatenate([tensor.float().numpy().reshape(-1) for tensor in state.values()])
    for tensor in gguf.GGUFReader(str(file)).tensors:
        if tensor.tensor_type in (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16):
            continue
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        where = places[tensor.name].reshape(-1).astype(np.int64)
        flat[where] = values.reshape(-1)
    result, at = {}, 0
    for name, tensor in state.items():
        result[name] = torch.from_numpy(flat[at : at + tensor.numel()].reshape(tensor.shape).copy())
        at += tensor.numel()
    return result


@torch.no_grad()
def mean_surprise(model, ids: list) -> tuple:
    """As `coterie perplexity` counts: chunks of CONTEXT, second halves scored."""
    total, scored = 0.0, 0
    for start in range(0, len(ids) - CONTEXT + 1, CONTEXT):
        chunk = torch.tensor([ids[start : start + CONTEXT]])
        logs = model(chunk).logits[0].double().log_softmax(-1)
        half = CONTEXT // 2
        total -= logs[half:-1].gather(1, chunk[0, half + 1 :, None]).sum().item()
        scored += CONTEXT - half - 1
    return total / scored, scored


def held_out_text(seed: int, size: int) -> str:
    """Stories and facts; the training made others (their number is beyond counting, so none is kept aside)."""
    generator = documents.Generator(f"{seed}/held-out text", "test")
    parts = []
    while sum(map(len, parts)) < size:
        parts.append(generator.passage())
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    config = json.loads((options.folder / "config.json").read_text())
    state = with_weights_of(options.model, load_file(options.folder / "model.safetensors"), config)
    model = hf.AutoModelForCausalLM.from_pretrained(options.folder, dtype=torch.float32)
    model.load_state_dict(state)
    model.eval()
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_file=str(options.folder / "tokenizer.json"))
    text = held_out_text(options.seed, 24000)
    text_file = options.out.with_name("text.txt")
    text_file.write_text(text)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    nll, scored = mean_surprise(model, ids)
    # A short piece, every token of it, for the devices that are slow to test.
    first = ids[:96]
    with torch.no_grad():
        logs = model(torch.tensor([first])).logits[0].double().log_softmax(-1)
    first_nll = -logs[:-1].gather(1, torch.tensor(first[1:])[:, None]).mean().item()
    print(f"perplexity {np.exp(nll):.4f} ({scored} tokens scored)")

    answers = evaluate.Answers(model, tokenizer)
    entries = []
    for kind, count in PROMPTS.items():
        made = evaluate.test_documents(options.seed, kind, count)
        texts = answers.all([evaluate.prompt_of(document) for document in made])
        right = 0
        for document, answer in zip(made, texts):
            right += evaluate.is_right(document, answer)
            question = next(content for role, content in document.messages if role == "user")
            entry = {"kind": kind, "question": question, "right": document.answer, "transformers": answer}
            if document.tools:
                entry["tools"] = documents.tool_definitions(document.tools)
            entries.append(entry)
        print(f"{kind:12} {100 * right / count:6.1f} % right", flush=True)
    report = {"context": CONTEXT, "scored": scored, "nll": nll}
    report |= {"first": {"tokens": first, "nll": first_nll}, "prompts": entries}
    options.out.write_text(json.dumps(report, indent=0) + "\n")


if __name__ == "__main__":
    main()
