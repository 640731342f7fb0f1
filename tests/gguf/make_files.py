#!/usr/bin/env python3
"""Makes tests/data/gguf: small GGUF files written by the `gguf` package (PyPI), and what its own reader finds in them;
and the fuzzer's first file, which has one value of each type and a few weights.

Run in an environment with gguf and numpy:  python3 tests/gguf/make_files.py
"""
import json
import pathlib
import zlib

import gguf
import numpy

OUT = pathlib.Path(__file__).parent.parent / "data" / "gguf"
SEED = pathlib.Path(__file__).parent.parent / "fuzz" / "corpus" / "gguf" / "seed.gguf"
random = numpy.random.default_rng(17)


def fill_metadata(writer, vocabulary):
    writer.add_name("a small mixture \u00e9\u4e2d\U0001f600")
    writer.add_expert_count(4)
    writer.add_expert_used_count(1)
    writer.add_uint8("test.u8", 255)
    writer.add_int8("test.i8", -128)
    writer.add_uint16("test.u16", 65535)
    writer.add_int16("test.i16", -32768)
    writer.add_uint32("test.u32", 4294967295)
    writer.add_int32("test.i32", -2147483648)
    writer.add_uint64("test.u64", 2**64 - 1)
    writer.add_int64("test.i64", -(2**63))
    writer.add_float32("test.f32", 0.1)
    writer.add_float64("test.f64", 0.1)
    writer.add_bool("test.true", True)
    writer.add_bool("test.false", False)
    writer.add_token_list(["<s>", "\u0120the", "", "\u00e9"] + [f"token{i}" for i in range(vocabulary - 4)])
    writer.add_token_scores([-0.5 * i for i in range(vocabulary)])
    writer.add_token_types([1] * vocabulary)
    writer.add_array("test.bools", [True, False, True])
    writer.add_array("test.nested", [[1, 2], [3]])


def fill(writer):
    fill_metadata(writer, 64)
    kinds = gguf.GGMLQuantizationType

    def tensor(name, rows, columns, kind, leading=()):
        values = random.standard_normal((*leading, rows, columns), dtype=numpy.float32)
        if kind == kinds.F32:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)

    tensor("token_embd.weight", 64, 64, kinds.Q8_0)
    writer.add_tensor("output_norm.weight", random.standard_normal(64, dtype=numpy.float32))
    tensor("blk.0.attn_q.weight", 64, 64, kinds.F16)
    tensor("blk.0.attn_k.weight", 3, 64, kinds.BF16)
    tensor("blk.0.ffn_gate_inp.weight", 4, 64, kinds.F32)
    tensor("blk.0.ffn_up_exps.weight", 32, 64, kinds.Q4_0, (4,))
    tensor("blk.0.ffn_gate_exps.weight", 32, 64, kinds.Q4_1, (4,))
    tensor("blk.0.ffn_down_exps.weight", 64, 32, kinds.Q5_0, (4,))
    writer.add_tensor("blk.0.counts", numpy.arange(5, dtype=numpy.int32))


def write(name, **options):
    writer = gguf.GGUFWriter(OUT / name, "qwen3moe", **options)
    fill(writer)
    return writer


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def plain(value):
    return value.tolist() if isinstance(value, numpy.generic) else value


def expectation(path):
    reader = gguf.GGUFReader(path)
    metadata = {}
    for field in reader.fields.values():
        if not field.name.startswith("GGUF."):
            metadata[field.name] = plain(field.contents())
    tensors = [
        {
            "name": t.name,
            "type": t.tensor_type.name,
            "shape": [int(n) for n in t.shape],
            "bytes": int(t.n_bytes),
            "offset": int(t.data_offset),
            "crc32": zlib.crc32(t.data.tobytes()),
        }
        for t in reader.tensors
    ]
    return {"metadata": metadata, "tensors": tensors}


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    SEED.parent.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.gguf"):
        old.unlink()
    finish(write("small.gguf"))
    aligned = write("aligned.gguf")
    aligned.add_custom_alignment(128)
    finish(aligned)
    seed = gguf.GGUFWriter(SEED, "qwen3moe")
    fill_metadata(seed, 5)
    seed.add_custom_alignment(8)
    seed.add_tensor("output_norm.weight", numpy.ones(4, dtype=numpy.float32))
    row = gguf.quants.quantize(random.standard_normal((1, 32), dtype=numpy.float32), gguf.GGMLQuantizationType.Q4_0)
    seed.add_tensor("blk.0.ffn_up_exps.weight", row, raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    finish(seed)
    finish(write("set.gguf", split_max_tensors=4))
    expected = {path.name: expectation(path) for path in sorted(OUT.glob("*.gguf"))}
    (OUT / "expected.json").write_text(json.dumps(expected, ensure_ascii=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
