#!/usr/bin/env python3
"""From a Hugging Face model to a GGUF file: names, metadata and the transforms that GGUF files expect.

Not for speed or size: everything is held in memory as float64 and written as F32 (or F16). What must stay
true: a file read back means the same function as the model. `convert` can be asked to prove that no value
was rounded.

Architectures: llama (and Mixtral), qwen2, qwen2moe, qwen3, qwen3moe, gemma3, qwen35, qwen35moe, qwen3next,
gpt-oss.

usage: convert.py MODEL_FOLDER OUT.gguf [--f16]
The folder has config.json, *.safetensors, tokenizer.json with byte-level BPE and tokenizer_config.json.
"""

import json
import math
import re
import sys
from pathlib import Path

import gguf
import numpy as np

import layouts
import vocabulary as vocabularies

ARCHITECTURES = {
    "llama": "llama",
    "mistral": "llama",
    "mixtral": "llama",
    "qwen2": "qwen2",
    "qwen2_moe": "qwen2moe",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe",
    "gemma3_text": "gemma3",
    "qwen3_5_text": "qwen35",
    "qwen3_5_moe_text": "qwen35moe",
    "qwen3_next": "qwen3next",
    "gpt_oss": "gpt-oss",
}

# Names inside a block that only change their spelling. Order matters nowhere; what is not here has a
# transform below.
PLAIN = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
    "mlp.router": "ffn_gate_inp",
    "block_sparse_moe.gate": "ffn_gate_inp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "linear_attn.in_proj_ba": "ssm_ba",
    "linear_attn.norm": "ssm_norm",
}
# Families with a norm between attention and the residual, or whose second norm GGUF calls
# post_attention_norm.
POST_ATTENTION = ("gemma3", "qwen35", "qwen35moe", "qwen3next", "gpt-oss")
ZERO_CENTRED = ("gemma3", "qwen35", "qwen35moe", "qwen3next")
EXPERT_MATRICES = {
    "gate_proj": "gate",
    "up_proj": "up",
    "down_proj": "down",
    "w1": "gate",
    "w3": "up",
    "w2": "down",
}


def rope(config: dict, layer_type: str = "full_attention") -> dict:
    """Rope parameters in one form: new configurations nest them, by layer type or not, old ones spread
    them."""
    parameters = config.get("rope_parameters") or {}
    parameters = dict(parameters.get(layer_type, parameters))
    parameters.update(config.get("rope_scaling") or {})
    parameters.setdefault("rope_theta", config.get("rope_theta", 10000.0))
    parameters.setdefault("rope_type", parameters.get("type", "default"))
    return parameters


def llama3_divisors(config: dict, head: int) -> np.ndarray:
    """What Llama 3.1's scaling divides each rotation speed by: 1 for fast ones, `factor` for slow ones,
    smooth between."""
    parameters = rope(config)
    factor, low, high = (parameters[key] for key in ("factor", "low_freq_factor", "high_freq_factor"))
    context = parameters["original_max_position_embeddings"]
    speeds = parameters["rope_theta"] ** -(np.arange(0, head, 2) / head)
    turns = context * speeds / (2 * math.pi)
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return 1 / ((1 - smooth) / factor + smooth)


class Conversion:
    """One model on its way: `tensors` collects the GGUF tensors, NumPy order (rows first), in the file's
    order. `layout`: words of layouts.py."""

    def __init__(self, state: dict, config: dict, layout: str = ""):
        if config.get("model_type") not in ARCHITECTURES:
            raise SystemExit(
                f"model type {config.get('model_type')} is not one of {', '.join(ARCHITECTURES)}"
            )
        self.config = config
        self.layout = layout
        self.architecture = self.prefix = ARCHITECTURES[config["model_type"]]
        self.metadata_of_its_own = {}  # instead of what metadata() would write; None leaves a key out
        self.heads = config["num_attention_heads"]
        self.kv_heads = config.get("num_key_value_heads") or self.heads
        self.head = config.get("head_dim") or config["hidden_size"] // self.heads
        self.tensors = {}
        self.experts = {}
        for name, value in sorted(state.items(), key=lambda item: block_order(item[0])):
            self.take(name, np.asarray(value, dtype=np.float64))
        self.stack_experts()
        if rope(config)["rope_type"] == "llama3":
            self.tensors["rope_freqs.weight"] = (
                llama3_divisors(config, self.head).astype(np.float32).astype(np.float64)
            )
        layouts.arrange(self)

    def take(self, name: str, value: np.ndarray) -> None:
        name = re.sub(r"^model\.(language_model\.)?", "", name)
        if (
            self.architecture in ZERO_CENTRED
            and name.endswith("norm.weight")
            and not name.endswith("linear_attn.norm.weight")
        ):
            value = value + 1
        top = {
            "embed_tokens.weight": "token_embd.weight",
            "norm.weight": "output_norm.weight",
            "lm_head.weight": "output.weight",
        }
        if name in top:
            if name != "lm_head.weight" or not self.config.get("tie_word_embeddings"):
                self.tensors[top[name]] = value
            return
        match = re.match(r"layers\.(\d+)\.(.*)$", name)
        if not match:
            if name.startswith(("visual.", "mtp.", "vision_tower.")):
                return
            raise SystemExit(f"no rule for the tensor {name}")
        for part, array in self.block(int(match[1]), match[2], value):
            self.tensors[f"blk.{match[1]}.{part}"] = array

    def block(self, layer: int, name: str, value: np.ndarray):
        """The GGUF tensors, as (name, array), that one tensor of a block becomes."""
        stem, _, kind = name.rpartition(".")
        if stem in ("self_attn.q_proj", "self_attn.k_proj") and self.architecture == "llama":
            value = adjacent_pairs(value, self.heads if stem.endswith("q_proj") else self.kv_heads)
        if stem == "post_attention_layernorm" and self.architecture in POST_ATTENTION:
            return [("post_attention_norm.weight", value)]
        if stem == "pre_feedforward_layernorm":
            return [("ffn_norm.weight", value)]
        if stem == "post_feedforward_layernorm":
            return [("post_ffw_norm.weight", value)]
        if stem in PLAIN:
            return [(f"{PLAIN[stem]}.{kind}", value)]
        if name == "self_attn.sinks":
            return [("attn_sinks.weight", value)]
        if name == "mlp.shared_expert_gate.weight":
            return [("ffn_gate_inp_shexp.weight", value.reshape(-1))]
        if ".experts." in f".{name}":
            return self.expert(layer, name.split("experts.", 1)[1], value)
        if name.startswith("linear_attn."):
            return self.delta_net(name.removeprefix("linear_attn."), value)
        raise SystemExit(f"no rule for the tensor {name} of block {layer}")

    def expert(self, layer: int, name: str, value: np.ndarray):
        single = re.match(r"(\d+)\.(\w+)\.weight$", name)
        if single:
            self.experts.setdefault((layer, EXPERT_MATRICES[single[2]]), {})[int(single[1])] = value
            return []
        if self.architecture == "gpt-oss":
            # Stored [in, out] with gate and up rows alternating; GGUF has [out, in] and two tensors.
            if name == "gate_up_proj":
                value = value.swapaxes(1, 2)
                return [("ffn_gate_exps.weight", value[:, ::2]), ("ffn_up_exps.weight", value[:, 1::2])]
            if name == "gate_up_proj_bias":
                return [("ffn_gate_exps.bias", value[:, ::2]), ("ffn_up_exps.bias", value[:, 1::2])]
            if name == "down_proj":
                return [("ffn_down_exps.weight", value.swapaxes(1, 2))]
            return [("ffn_down_exps.bias", value)]
        if name == "gate_up_proj":
            gate, up = np.split(value, 2, axis=1)
            return [("ffn_gate_exps.weight", gate), ("ffn_up_exps.weight", up)]
        return [("ffn_down_exps.weight", value)]

    def stack_experts(self) -> None:
        for (layer, kind), parts in self.experts.items():
            stacked = np.stack([parts[i] for i in range(len(parts))])
            self.tensors[f"blk.{layer}.ffn_{kind}_exps.weight"] = stacked

    def delta_net(self, name: str, value: np.ndarray):
        config = self.config
        key_heads, value_heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
        size, ratio = config["linear_key_head_dim"], value_heads // key_heads
        if config["linear_value_head_dim"] != size:
            raise SystemExit(
                "GGUF has one state size: key and value heads of the delta net must be of equal size"
            )
        keys = key_heads * size

        def tiled(array: np.ndarray, axis: int, width: int) -> np.ndarray:
            # Value heads go from grouped (all of key head 0 first) to tiled (head j belongs to key head j mod
            # key_heads).
            if self.architecture == "qwen3next" or "grouped" in self.layout:
                return array
            array = np.moveaxis(array, axis, 0)
            shape = array.shape
            array = array.reshape(key_heads, ratio, width, *shape[1:]).swapaxes(0, 1).reshape(shape)
            return np.moveaxis(array, 0, axis)

        def values_tiled(array: np.ndarray) -> np.ndarray:
            return np.concatenate([array[: 2 * keys], tiled(array[2 * keys :], 0, size)])

        if name == "in_proj_qkvz.weight" and "ssm_in" in self.layout:
            return [("ssm_in.weight", value)]
        if name == "in_proj_qkvz.weight":
            # Per key head: query, key, its value heads, their gates. GGUF: all queries, keys, values; gates
            # apart.
            grouped = value.reshape(key_heads, -1, value.shape[1])
            cuts = np.cumsum([size, size, ratio * size])
            q, k, v, z = (part.reshape(-1, value.shape[1]) for part in np.split(grouped, cuts, axis=1))
            return [("attn_qkv.weight", np.concatenate([q, k, v])), ("attn_gate.weight", z)]
        simple = {
            "in_proj_qkv.weight": ("attn_qkv.weight", lambda: values_tiled(value)),
            "in_proj_z.weight": ("attn_gate.weight", lambda: tiled(value, 0, size)),
            "in_proj_b.weight": ("ssm_beta.weight", lambda: tiled(value, 0, 1)),
            "in_proj_a.weight": ("ssm_alpha.weight", lambda: tiled(value, 0, 1)),
            "conv1d.weight": ("ssm_conv1d.weight", lambda: values_tiled(value[:, 0])),
            "dt_bias": ("ssm_dt.bias", lambda: tiled(value, 0, 1)),
            "A_log": ("ssm_a", lambda: -np.exp(tiled(value, 0, 1))),
            "out_proj.weight": ("ssm_out.weight", lambda: tiled(value, 1, size)),
        }
        if name not in simple:
            raise SystemExit(f"no rule for the delta net's tensor {name}")
        return [(simple[name][0], simple[name][1]())]

    def metadata(self, writer, vocabulary) -> None:
        config, architecture = self.config, self.architecture
        own = dict(self.metadata_of_its_own)

        def number(key: str, value) -> None:
            value = own.pop(key, value)
            if value is None:
                return
            kinds = {
                bool: writer.add_bool,
                float: writer.add_float32,
                str: writer.add_string,
                list: writer.add_array,
            }
            kinds.get(type(value), writer.add_uint32)(f"{self.prefix}.{key}", value)

        number("block_count", config["num_hidden_layers"])
        number("context_length", config["max_position_embeddings"])
        number("embedding_length", config["hidden_size"])
        number("feed_forward_length", config.get("intermediate_size"))
        number("attention.head_count", self.heads)
        number("attention.head_count_kv", self.kv_heads)
        number("attention.key_length", self.head)
        number("attention.value_length", self.head)
        number("attention.layer_norm_rms_epsilon", float(config["rms_norm_eps"]))
        number("rope.freq_base", float(rope(config)["rope_theta"]))
        number("vocab_size", len(vocabulary.tokens))
        experts = config.get("num_local_experts") or config.get("num_experts")
        if experts:
            number("expert_count", experts)
            number("expert_used_count", config["num_experts_per_tok"])
            width = config.get("moe_intermediate_size") or (
                config["intermediate_size"] if architecture == "gpt-oss" else None
            )
            number("expert_feed_forward_length", width)
            number("expert_shared_feed_forward_length", config.get("shared_expert_intermediate_size"))
        if architecture == "llama":
            number("rope.dimension_count", self.head)
        if architecture == "gemma3":
            self.gemma_metadata(number)
        if architecture == "gpt-oss":
            number("attention.sliding_window", config["sliding_window"])
        self.rope_scaling(number)
        if architecture in ("qwen35", "qwen35moe", "qwen3next"):
            self.delta_net_metadata(number)
        for key, value in list(own.items()):
            number(key, value)

    def gemma_metadata(self, number) -> None:
        config = self.config
        if config["query_pre_attn_scalar"] != self.head:
            raise SystemExit("query_pre_attn_scalar differs from the head size; a GGUF file cannot say so")
        number("attention.sliding_window", config["sliding_window"])
        pattern = config["layer_types"].index("full_attention") + 1
        if pattern != 6:
            number("attention.sliding_window_pattern", pattern)
        local = float(rope(config, "sliding_attention")["rope_theta"])
        if local != 10000.0:
            number("rope.freq_base_swa", local)
        if config.get("final_logit_softcapping"):
            number("final_logit_softcapping", float(config["final_logit_softcapping"]))

    def rope_scaling(self, number) -> None:
        parameters = rope(self.config)
        kind = parameters["rope_type"]
        if kind in ("default", "llama3"):
            return
        if kind not in ("linear", "yarn"):
            raise SystemExit(f"rope type {kind} is not supported")
        number("rope.scaling.type", kind)
        number("rope.scaling.factor", float(parameters["factor"]))
        if kind == "yarn":
            number("rope.scaling.original_context_length", parameters["original_max_position_embeddings"])
            for beta in ("beta_fast", "beta_slow"):
                if beta in parameters:
                    number(f"rope.scaling.yarn_{beta}", float(parameters[beta]))

    def delta_net_metadata(self, number) -> None:
        config = self.config
        parameters = rope(config)
        interval = config["layer_types"].index("full_attention") + 1
        expected = [
            "linear_attention" if (i + 1) % interval else "full_attention"
            for i in range(config["num_hidden_layers"])
        ]
        if config["layer_types"] != expected:
            raise SystemExit("layer types do not repeat with one interval")
        number("ssm.conv_kernel", config["linear_conv_kernel_dim"])
        number("ssm.state_size", config["linear_key_head_dim"])
        number("ssm.group_count", config["linear_num_key_heads"])
        number("ssm.time_step_rank", config["linear_num_value_heads"])
        number("ssm.inner_size", config["linear_num_value_heads"] * config["linear_value_head_dim"])
        number("full_attention_interval", interval)
        partial = parameters.get("partial_rotary_factor", config.get("partial_rotary_factor", 0.25))
        number("rope.dimension_count", int(self.head * partial))
        if self.architecture != "qwen3next":
            sections = list(parameters.get("mrope_section", [11, 11, 10]))
            number("rope.dimension_sections", sections + [0] * (4 - len(sections)))


def block_order(name: str) -> tuple:
    """Sorts embeddings first, then blocks by number, then the end; and names within a block as given."""
    match = re.search(r"layers\.(\d+)\.", name)
    if match:
        return (1, int(match[1]))
    return (0, 0) if "embed_tokens" in name else (2, 0)


def adjacent_pairs(value: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a projection so that a rotation by adjacent pairs does what one by halves did: (i, i + d/2)
    -> (2i, 2i + 1)."""
    shape = value.shape
    return value.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def convert(
    state: dict,
    config: dict,
    vocabulary,
    path,
    name: str,
    half: bool = False,
    lossless: bool = False,
    describe=None,
    layout: str = "",
) -> dict:
    """Writes the file and returns its tensors (float32, NumPy order). `lossless`: fail if rounding to F32
    changed a value. `describe` may write more metadata with the GGUF writer it gets. `layout`: words of
    layouts.py."""
    conversion = Conversion(state, config, layout)
    writer = gguf.GGUFWriter(str(path), conversion.prefix)
    writer.add_type("model")
    writer.add_name(name)
    conversion.metadata(writer, vocabulary)
    writer.add_file_type(int(half))
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    vocabulary.write(writer)
    if describe:
        describe(writer)
    written = {}
    for tensor, value in conversion.tensors.items():
        array = np.ascontiguousarray(value.astype(np.float32))
        if lossless and not np.allclose(array.astype(np.float64), value, rtol=1e-14, atol=0):
            raise SystemExit(f"{path}: {tensor} was rounded")
        written[tensor] = array
        matrix = (
            array.ndim > 1
            and tensor.endswith(".weight")
            and not re.search(r"ffn_gate_inp|ssm_conv1d", tensor)
        )
        if "mxfp4" in layout and "_exps.weight" in tensor:
            packed = gguf.quants.quantize(array, gguf.GGMLQuantizationType.MXFP4)
            writer.add_tensor(tensor, packed, raw_dtype=gguf.GGMLQuantizationType.MXFP4)
            continue
        writer.add_tensor(tensor, array.astype(np.float16) if half and matrix else array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return written


def read_vocabulary(folder: Path, size: int) -> vocabularies.Vocabulary:
    """A byte-level BPE vocabulary from tokenizer.json; rows of the embedding beyond it become unused
    tokens."""
    data = json.loads((folder / "tokenizer.json").read_text())
    if data["model"]["type"] != "BPE":
        raise SystemExit("only byte-level BPE tokenizers are supported")
    tokens = {index: token for token, index in data["model"]["vocab"].items()}
    special = {entry["id"]: entry for entry in data["added_tokens"]}
    tokens.update({index: entry["content"] for index, entry in special.items()})
    types = []
    for index in range(size):
        if index not in tokens:
            tokens[index] = f"[PAD{index}]"
            types.append(5)
        elif index in special:
            types.append(vocabularies.CONTROL if special[index]["special"] else 4)
        else:
            types.append(vocabularies.NORMAL)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in data["model"]["merges"]]
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    identity = {token: index for index, token in tokens.items()}

    def named(key: str):
        token = settings.get(key)
        return identity.get(token["content"] if isinstance(token, dict) else token)

    return vocabularies.Vocabulary(
        "gpt2",
        "qwen2",
        [tokens[index] for index in range(size)],
        types,
        merges=merges,
        eos=named("eos_token"),
        bos=named("bos_token"),
        pad=named("pad_token"),
        add_bos=bool(settings.get("add_bos_token")),
        template=settings.get("chat_template"),
    )


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if argument != "--f16"]
    if len(arguments) != 2:
        raise SystemExit(__doc__)
    from safetensors.torch import load_file

    folder = Path(arguments[0])
    config = json.loads((folder / "config.json").read_text())
    config = config.get("text_config", config)
    state = {}
    for file in sorted(folder.glob("*.safetensors")):
        state.update({name: tensor.float().numpy() for name, tensor in load_file(file).items()})
    vocabulary = read_vocabulary(folder, config["vocab_size"])
    convert(state, config, vocabulary, arguments[1], folder.resolve().name, half="--f16" in sys.argv)


if __name__ == "__main__":
    main()
