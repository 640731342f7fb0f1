#!/usr/bin/env python3
"""Brings tiny models with logits computed by llama.cpp into tests/data/golden/llamacpp.

Not a test and not a generator: the models and the logits come from a folder that somebody made by running
llama.cpp (see ../data/golden/README.md for the version and the settings). This script only picks files and
turns NumPy arrays and three JSON files a model into the layout of make_golden.py: one JSON and raw
little-endian arrays.

usage: import_llamacpp.py SOURCE_FOLDER [DESTINATION]
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np

MODELS = [
    f"nano-{arch}-{kind}"
    for arch in ("llama", "qwen3", "qwen3moe", "qwen35moe")
    for kind in ("f32", "f16", "q8_0")
]
MODELS += [f"tiny-{arch}-q4_k_m" for arch in ("llama", "qwen3", "qwen3moe", "qwen35moe")]
# int8 noise flips an expert choice in this one, so its logits say little about a kernel.
MODELS.remove("nano-qwen35moe-q8_0")


def run(source: Path, name: str, kind: str):
    """The JSON and the logits of one run ("exact", "truth" or "long"), or None if the model has no such
    run."""
    path = source / f"{name}.{kind}.json"
    if not path.exists():
        return None
    return json.loads(path.read_text()), np.load(source / f"{name}.{kind}.logits.npy").astype("<f4")


def bring(source: Path, destination: Path, name: str) -> None:
    exact, logits = run(source, name, "exact")
    long, long_logits = run(source, name, "long")
    truth = run(source, name, "truth")
    facts = {
        "name": name,
        "source": "llama.cpp v0.5.0 de3ff81, CPU, F32 key/value cache, no flash attention, no repacked weights",
        "dtype": "float32",
        "n_vocab": int(logits.shape[1]),
        "prompt": exact["prompt"],
        "positions": exact["logit_positions"],
        "shape": list(logits.shape),
        "greedy": exact["greedy"],
        "greedy_margin": exact["greedy_margin_top1_top2"],
        "long_prompt": long["prompt"],
        "long_positions": long["logit_positions"],
        "long_shape": list(long_logits.shape),
        "long_greedy": long["greedy"],
        "long_greedy_margin": long["greedy_margin_top1_top2"],
    }
    logits.tofile(destination / f"{name}.logits.bin")
    long_logits.tofile(destination / f"{name}.long.logits.bin")
    if truth:
        truth_facts, truth_logits = truth
        assert truth_facts["prompt"] == exact["prompt"] and truth_logits.shape == logits.shape
        facts["truth_greedy"] = truth_facts["greedy"]
        facts["truth_greedy_margin"] = truth_facts["greedy_margin_top1_top2"]
        truth_logits.tofile(destination / f"{name}.truth.logits.bin")
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in facts.items())
    (destination / f"{name}.json").write_text("{\n" + lines + "\n}\n")
    shutil.copyfile(source / f"{name}.gguf", destination / f"{name}.gguf")


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    default = Path(__file__).resolve().parent.parent / "data" / "golden" / "llamacpp"
    destination = Path(sys.argv[2]) if len(sys.argv) == 3 else default
    destination.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        bring(Path(sys.argv[1]), destination, name)
        print(name)


if __name__ == "__main__":
    main()
