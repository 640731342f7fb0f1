#!/usr/bin/env python3
"""Writes tests/data/quant/<type>.bin: blocks and the floats that the `gguf` package decodes them to.

Layout: int32 number of weights, int32 number of block bytes, the blocks, the floats. The bits are random, so
every field takes all its values; scales are drawn to be nasty (zero, subnormal, large, negative); there are
blocks enough that every codebook entry appears.
usage: make_vectors.py   (needs: pip install gguf numpy)
"""
import pathlib
import struct

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

OUT = pathlib.Path(__file__).parent.parent / "data" / "quant"
SCALES = [0, 0x8000, 0x0001, 0x83FF, 0x0400, 0x1C21, 0x9E37, 0x2A5B, 0x3C00, 0xBC01, 0x7BFF]
# Bytes at which an F16 scale lies in a block.
AT = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.IQ4_NL: [0], T.MXFP4: [],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
    T.IQ2_XXS: [0], T.IQ2_XS: [0], T.IQ2_S: [0], T.IQ3_XXS: [0], T.IQ3_S: [0], T.IQ1_S: [0], T.IQ1_M: [],
    T.IQ4_XS: [0], T.TQ1_0: [52], T.TQ2_0: [64],
}
N_BLOCKS = {T.IQ2_S: 40, T.IQ1_S: 72, T.IQ1_M: 72, T.IQ2_XS: 20, T.IQ2_XXS: 12, T.IQ3_S: 12}


def indices(kind, blocks):
    """The codebook indices of a type whose codebook must be covered, as (array, setter)."""
    if kind == T.IQ1_S:
        qs, qh = blocks[:, 2:34], blocks[:, 34:50].copy().view("<u2")
        return qs.astype(int) | ((np.repeat(qh, 4, 1) >> np.tile([0, 3, 6, 9], 8)) & 7).astype(int) << 8
    if kind == T.IQ1_M:
        high = np.repeat(blocks[:, 32:48], 2, 1) >> np.tile([0, 4], 16)
        return blocks[:, :32].astype(int) | (high & 7).astype(int) << 8
    if kind == T.IQ2_S:
        high = np.repeat(blocks[:, 66:74], 4, 1) >> np.tile([0, 2, 4, 6], 8)
        return blocks[:, 2:34].astype(int) | (high & 3).astype(int) << 8
    if kind == T.IQ3_S:
        high = np.repeat(blocks[:, 66:74], 8, 1) >> np.tile(np.arange(8), 8)
        return blocks[:, 2:66].astype(int) | (high & 1).astype(int) << 8
    if kind == T.IQ2_XS:
        return (blocks[:, 2:66].copy().view("<u2") & 511).astype(int)
    return None


def write(kind, raw, floats):
    raw, floats = np.ascontiguousarray(raw), np.ascontiguousarray(floats, dtype="<f4")
    data = struct.pack("<ii", floats.size, raw.nbytes) + raw.tobytes() + floats.tobytes()
    (OUT / f"{kind.name.lower()}.bin").write_bytes(data)


def cover(kind, blocks, size):
    """Overwrites the indices so that each of `size` entries appears."""
    flat = np.arange(blocks.shape[0] * 32 if kind != T.IQ3_S else blocks.shape[0] * 64) % size
    per = flat.reshape(blocks.shape[0], -1)
    if kind == T.IQ1_S:
        blocks[:, 2:34] = per & 255
        qh = blocks[:, 34:50].copy().view("<u2") & 0xF000
        qh |= ((per >> 8).reshape(-1, 8, 4) << np.array([0, 3, 6, 9])).sum(-1).astype("<u2")
        blocks[:, 34:50] = qh.view(np.uint8)
    elif kind == T.IQ1_M:
        blocks[:, :32] = per & 255
        blocks[:, 32:48] &= 0x88
        blocks[:, 32:48] |= ((per >> 8).reshape(-1, 16, 2) << np.array([0, 4])).sum(-1).astype(np.uint8)
    elif kind == T.IQ2_S:
        blocks[:, 2:34] = per & 255
        blocks[:, 66:74] = ((per >> 8).reshape(-1, 8, 4) << np.array([0, 2, 4, 6])).sum(-1)
    elif kind == T.IQ3_S:
        blocks[:, 2:66] = per & 255
        blocks[:, 66:74] = ((per >> 8).reshape(-1, 8, 8) << np.arange(8)).sum(-1)
    elif kind == T.IQ2_XS:
        qs = blocks[:, 2:66].copy().view("<u2") & 0xFE00 | per.astype("<u2")
        blocks[:, 2:66] = qs.view(np.uint8)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(20)
    for kind, places in AT.items():
        size, n_bytes = gguf.GGML_QUANT_SIZES[kind]
        n = N_BLOCKS.get(kind, 64 if size == 32 else 12)
        blocks = rng.integers(0, 256, (n, n_bytes), dtype=np.uint8)
        for i in range(n):
            for at in places:
                scale = SCALES[i % len(SCALES)] if at == places[0] else rng.choice(SCALES)
                blocks[i, at : at + 2] = np.frombuffer(np.uint16(scale).tobytes(), np.uint8)
        if kind == T.MXFP4:
            blocks[:6, 0] = [0, 1, 2, 3, 254, 127]
            blocks[6:, 0] = rng.integers(0, 255, n - 6)
        if kind == T.IQ1_M:  # the top nibble of the F16 scale: keep it finite
            blocks[:, 55] &= 0xBF
        entries = {T.IQ1_S: 2048, T.IQ1_M: 2048, T.IQ2_S: 1024, T.IQ3_S: 512, T.IQ2_XS: 512}.get(kind)
        if entries:
            cover(kind, blocks, entries)
            assert len(np.unique(indices(kind, blocks))) == entries
        with np.errstate(over="ignore"):
            write(kind, blocks, quants.dequantize(blocks, kind))
    halves = np.concatenate([np.arange(0, 0x7C01, 97), np.arange(0x8000, 0xFC01, 89)]).astype("<u2")
    write(T.F16, halves.view(np.uint8), quants.dequantize(halves.view(np.uint8), T.F16))
    bfloats = np.concatenate([np.arange(0, 0x7F81, 101), np.arange(0x8000, 0xFF81, 103)]).astype("<u2")
    write(T.BF16, bfloats.view(np.uint8), quants.dequantize(bfloats.view(np.uint8).reshape(-1, 2), T.BF16))
    floats = rng.standard_normal(64).astype("<f4")
    write(T.F32, floats.view(np.uint8), quants.dequantize(floats.view(np.uint8), T.F32))


main()
