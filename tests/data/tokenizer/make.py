#!/usr/bin/env python3
"""Makes the expectations of tests/tokenizer with independent tools: `tokenizers` (Hugging Face) and `sentencepiece`.

  pip install tokenizers sentencepiece protobuf
  make.py QWEN3/tokenizer.json LLAMA2_512.json

The first file is Qwen3's published tokenizer. The second holds a small SPM vocabulary
({"tokens", "types", "scores", "unknown"}) and is optional: without it, the vocabulary in spm.json is used again.
"""

import json
import pathlib
import sys

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from corpus import NASTY, random_texts

HERE = pathlib.Path(__file__).parent
SIZE = 4096  # tokens of the trimmed vocabulary

# The patterns as the models' own tokenizer.json files have them ("default": as llama.cpp documents its fallback).
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + BLANKS
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def cased(ending):
    start = r"[^\r\n\p{L}\p{N}]?"
    return start + UPPER + "*" + LOWER + "+" + ending + "|" + start + UPPER + "+" + LOWER + "*" + ending


PATTERNS = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "qwen2": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + BLANKS],
    "qwen35": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + BLANKS],
    "llama-bpe": [LLAMA3],
    "glm4": [LLAMA3],
    "gpt-4o": [cased(CONTRACTION + "?") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + BLANKS],
    "tekken": [cased("") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + BLANKS],
    "deepseek-v3": [
        r"\p{N}{1,3}",
        "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        r"| ?[\p{P}\p{S}]+[\r\n]*|" + BLANKS,
    ],
    "default": [
        r"[\p{P}\$\+<=>\^~\|]+",
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
        r"\p{N}+",
        r"[0-9][0-9][0-9]",
    ],
}


def splitter(name):
    return [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in PATTERNS[name]]


def write(name, data):
    lines = [json.dumps(key) + ":" + json.dumps(value, separators=(",", ":")) for key, value in data.items()]
    (HERE / name).write_text("{" + ",\n".join(lines) + "}\n")


def make_splits(texts):
    pieces = {}
    for name in PATTERNS:
        sequence = pre_tokenizers.Sequence(splitter(name))
        pieces[name] = [[len(piece.encode()) for piece, _ in sequence.pre_tokenize_str(text)] for text in texts]
    write("splits.json", {"texts": texts, "pieces": pieces})


def make_qwen(path, texts):
    full = json.loads(pathlib.Path(path).read_text())
    tokens = sorted(full["model"]["vocab"], key=full["model"]["vocab"].get)[:SIZE]
    vocabulary = {token: id for id, token in enumerate(tokens)}
    pairs = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in full["model"]["merges"]]
    pairs = [(a, b) for a, b in pairs if a in vocabulary and b in vocabulary and a + b in vocabulary]
    added = [a for a in full["added_tokens"] if a["content"] not in vocabulary]
    for number, token in enumerate(added):
        token["id"] = SIZE + number
    tokens += [a["content"] for a in added]
    types = [1] * SIZE + [3 if a["special"] else 4 for a in added]
    ids = {}
    for name, ignore_merges in [("qwen2", False), ("qwen35", False), ("gpt-4o", False), ("llama-bpe", True)]:
        tokenizer = Tokenizer.from_str(
            json.dumps(
                {
                    "version": "1.0",
                    "added_tokens": added,
                    "pre_tokenizer": None,
                    "model": {"type": "BPE", "vocab": vocabulary, "merges": pairs, "ignore_merges": ignore_merges},
                }
            )
        )
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splitter(name) + [byte_level])
        ids[name] = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
    write(
        "qwen3-trimmed.json",
        {"model": "gpt2", "tokens": tokens, "types": types, "merges": [" ".join(p) for p in pairs], "texts": texts, "ids": ids},
    )


def make_spm(path, texts):
    data = json.loads(pathlib.Path(path or HERE / "spm.json").read_text())
    model = sentencepiece_model_pb2.ModelProto()
    for token, type_, score in zip(data["tokens"], data["types"], data["scores"]):
        model.pieces.add(piece=token, type=type_, score=score)
    model.trainer_spec.model_type = model.trainer_spec.BPE
    model.trainer_spec.byte_fallback = True
    model.trainer_spec.unk_id = data["unknown"]
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.remove_extra_whitespaces = False
    model.normalizer_spec.escape_whitespaces = True
    ids = {}
    texts = [t for t in texts if "\x00" not in t]
    for prefix in (True, False):
        model.normalizer_spec.add_dummy_prefix = prefix
        processor = sentencepiece.SentencePieceProcessor()
        processor.LoadFromSerializedProto(model.SerializeToString())
        ids["with_prefix" if prefix else "without_prefix"] = [processor.encode(text) for text in texts]
    keep = {key: data[key] for key in ("tokens", "types", "scores", "unknown")}
    write("spm.json", {"model": "llama", **keep, "texts": texts, "ids": ids})


if __name__ == "__main__":
    corpus = NASTY + random_texts(230, 1)
    make_splits(corpus)
    make_qwen(sys.argv[1], corpus)
    make_spm(sys.argv[2] if len(sys.argv) > 2 else None, corpus)
