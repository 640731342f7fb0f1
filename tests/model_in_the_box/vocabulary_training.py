"""Trains the box model's vocabulary: byte-level BPE with the split of Qwen's pre-tokeniser (single digits).

Written is a folder's tokenizer.json and tokenizer_config.json, which transformers and our converter read.
"""

import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

import documents

SIZE = 2048
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
# The template writes exactly what documents.rendered and documents.system_of_tools write.
TEMPLATE = (Path(__file__).parent / "chat_template.jinja").read_text().rstrip("\n")


def texts(seed: int):
    generator = documents.Generator(f"{seed}/vocabulary")
    for _ in range(20000):
        yield documents.rendered(generator.document())
    for _ in range(4000):
        yield documents.rendered(generator.text(1))
    readme = Path(__file__).parents[2] / "README.md"
    for line in readme.read_text().splitlines():
        yield line


def train(folder: Path, seed: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE - len(SPECIALS) - len(TAGS),
        min_frequency=2,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    # Special tokens are cut out before the merges are counted.
    tokenizer.train_from_iterator((without_specials(text) for text in texts(seed)), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIALS])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in TAGS])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "bos_token": None,
        "add_bos_token": False,
        "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")
    return tokenizer


def without_specials(text: str) -> str:
    for token in SPECIALS + TAGS:
        text = text.replace(token, "\n")
    return text
