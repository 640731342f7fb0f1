"""How else a model may lie in a GGUF file: the names and layouts of other converters and older ones.

A layout changes where numbers lie, never what they are, so that a model's logits stay those that transformers
computes. Each is a set of words; `arrange` applies them to a Conversion before its metadata are written.

fused       q, k and v in one tensor, gate and up of the experts in one
apart       a tensor per expert, as Mixtral's first files had it
mtp         prediction (MTP) blocks behind the last layer, counted in block_count; vision tensors
ssm_in      qwen3next: queries, keys, values and gates of a delta net as in the checkpoint (see convert.py)
grouped     qwen35: value heads in the checkpoint's order (see convert.py)
ollama      names and keys of Ollama's converter
mxfp4       experts as MXFP4
"""

import numpy as np


def arrange(conversion) -> None:
    words = conversion.layout.split()
    for word in ("ollama", "fused", "apart", "mtp"):
        if word in words:
            globals()[word](conversion)


def layers(conversion) -> range:
    return range(conversion.config["num_hidden_layers"])


def join(tensors: dict, names: list, joined: str, stack) -> None:
    if all(name in tensors for name in names):
        tensors[joined] = stack([tensors.pop(name) for name in names])


def fused(conversion) -> None:
    for i in layers(conversion):
        for kind in ("weight", "bias"):
            parts = [f"blk.{i}.attn_{part}.{kind}" for part in "qkv"]
            join(conversion.tensors, parts, f"blk.{i}.attn_qkv.{kind}", np.concatenate)
            parts = [f"blk.{i}.ffn_{part}_exps.{kind}" for part in ("gate", "up")]
            # Ollama keeps a checkpoint's order: a row of gate, one of up, and so on.
            stack = alternating if "ollama" in conversion.layout else one_after_the_other
            join(conversion.tensors, parts, f"blk.{i}.ffn_gate_up_exps.{kind}", stack)


def one_after_the_other(parts: list) -> np.ndarray:
    return np.concatenate(parts, axis=1)


def alternating(parts: list) -> np.ndarray:
    gate = parts[0]
    return np.stack(parts, axis=2).reshape(gate.shape[0], 2 * gate.shape[1], *gate.shape[2:])


def apart(conversion) -> None:
    for i in layers(conversion):
        for part in ("gate", "up", "down"):
            for expert, matrix in enumerate(conversion.tensors.pop(f"blk.{i}.ffn_{part}_exps.weight")):
                conversion.tensors[f"blk.{i}.ffn_{part}.{expert}.weight"] = matrix


def mtp(conversion) -> None:
    """One prediction block: an attention block like the last, with other numbers, and its own tensors."""
    count, width = conversion.config["num_hidden_layers"], conversion.config["hidden_size"]
    random = np.random.default_rng(count)

    def some(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32).astype(np.float64)

    stem = f"blk.{count - 1}."
    for name, value in list(conversion.tensors.items()):
        if name.startswith(stem):
            conversion.tensors[f"blk.{count}.{name.removeprefix(stem)}"] = some(*value.shape)
    conversion.tensors[f"blk.{count}.nextn.eh_proj.weight"] = some(width, 2 * width)
    for name in ("enorm", "hnorm", "shared_head_norm"):
        conversion.tensors[f"blk.{count}.nextn.{name}.weight"] = some(width)
    conversion.tensors["v.blk.0.attn_q.weight"] = some(16, 16)
    conversion.tensors["mm.0.weight"] = some(width, 16)
    conversion.metadata_of_its_own |= {"block_count": count + 1, "nextn_predict_layers": 1}


def ollama(conversion) -> None:
    own = conversion.metadata_of_its_own
    if conversion.architecture == "gpt-oss":
        conversion.prefix = "gptoss"
        own |= {"rope.scaling.type": None, "expert_feed_forward_length": None}
        names = {"attn_output.": "attn_out.", "attn_sinks.weight": "attn_sinks", "post_attention_norm": "ffn_norm"}
    else:
        width = conversion.config["hidden_size"]
        recurrent = [kind == "linear_attention" for kind in conversion.config["layer_types"]]
        own |= {
            "attention.head_count_kv": [0 if r else conversion.kv_heads for r in recurrent],
            "full_attention_interval": None,
            "vision.block_count": 1,
            "image_token_id": 7,
        }
        if conversion.architecture != "qwen3next":
            own |= {"ssm.v_head_reordered": "grouped" not in conversion.layout}
            own |= {"rope.dimension_sections": None, "rope.mrope_section": [2, 1, 1]}
        names = {"ssm_dt.bias": "ssm_dt"}
        conversion.tensors["v.blk.0.attn_q.weight"] = np.ones((16, 16))
        conversion.tensors["mtp.fc.weight"] = np.ones((width, 2 * width))
        conversion.tensors["mtp.layers.0.input_layernorm.weight"] = np.ones(width)
    renamed = {}
    for name, value in conversion.tensors.items():
        for old, new in names.items():
            name = name.replace(old, new)
        renamed[name] = value
    conversion.tensors = renamed
