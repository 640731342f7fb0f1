#!/usr/bin/env python3
"""Makes NAME.hidden.bin in tests/data/golden: what transformers gives as last_hidden_state (after the final
norm) for the prompts of models that make_golden.py made, in float64.

The networks are built anew from the same seeds; the logits that they give must be those in NAME.logits.bin.

usage: make_hidden.py
"""

import json
import zlib

import numpy as np
import torch

import make_golden
import models

NAMES = ("llama-tied", "qwen3", "qwen3moe", "gemma3", "qwen35moe-a")


def main() -> None:
    torch.set_num_threads(1)
    for model in models.all_models():
        if model.name not in NAMES:
            continue
        folder = make_golden.DESTINATION
        facts = json.loads((folder / f"{model.name}.json").read_text())
        with make_golden.double_precision():
            network = make_golden.build(model, np.random.default_rng(zlib.crc32(model.name.encode())))
            tokens = torch.tensor([facts["prompt"]])
            logits = make_golden.logits_of(network, tokens)[0].numpy()
            hidden = network.model(input_ids=tokens, use_cache=False).last_hidden_state[0].numpy()
        golden = np.fromfile(folder / f"{model.name}.logits.bin", "<f8").reshape(facts["shape"])
        assert np.allclose(logits, golden, rtol=0, atol=1e-9), model.name
        hidden.astype("<f8").tofile(folder / f"{model.name}.hidden.bin")
        print(model.name, hidden.shape)


if __name__ == "__main__":
    main()
