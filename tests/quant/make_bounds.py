#!/usr/bin/env python3
"""Writes what encoding is measured with: tests/data/quant/encode.f32 and encode.json (errors of the reference).

The floats are sets of equal length, each nasty in its own way. The figures are the mean squared errors of a
round trip through the reference quantiser (`libgguf`, the C code that published files were made with), decoded
by `gguf`.
usage: make_bounds.py   (needs: pip install gguf libgguf numpy)
"""
import json
import pathlib

import libgguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

OUT = pathlib.Path(__file__).parent.parent / "data" / "quant"
N = 8192
TYPES = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL MXFP4".split()


def main():
    rng = np.random.default_rng(7)
    gaussian = rng.standard_normal(N) * 0.02
    heavy = rng.standard_t(3, N) * 0.02
    values = [0.7, -0.7, 0.02, -0.02, 1, -3.3e-3, 0.123, -0.0456, 12.5, -7.77, 1e-4, 0, 0.31, -0.5, 0.09, 2.2]
    constant = np.repeat(values * (N // 256 // len(values)), 256)
    outliers = gaussian.reshape(-1, 32).copy()
    outliers[:, 5] = rng.standard_normal(len(outliers))
    sparse = np.where(rng.random(N) < 0.8, 0, gaussian)
    positive = np.abs(gaussian) + 0.01
    sets = {"gaussian": gaussian, "heavy-tailed": heavy, "constant": constant, "outliers": outliers.ravel(),
            "sparse": sparse, "positive": positive}
    floats = np.stack(list(sets.values())).astype("<f4")
    floats.tofile(OUT / "encode.f32")
    errors = {}
    for name in TYPES:
        blocks = libgguf.quantize_rows(floats, T[name].value)
        decoded = quants.dequantize(blocks, T[name])
        mse = ((floats.astype(float) - decoded) ** 2).mean(axis=1)
        errors[name] = [float(f"{v:.6g}") for v in mse]
    figures = {"sets": list(sets), "length": N, "errors": errors}
    (OUT / "encode.json").write_text(json.dumps(figures, indent=1) + "\n")


main()
