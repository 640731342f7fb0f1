"""The tiny models of make_golden.py: for each a configuration of transformers, a vocabulary and the length of
its long prompt.

They are chosen to tell apart what implementations mix up: head size and n_embd / n_head, query and key/value
heads, tied and separate output, widths of shared and routed experts, more value than key heads, windows that
a prompt crosses.
"""

from dataclasses import dataclass

import transformers as hf


@dataclass
class Model:
    name: str
    kind: type
    config: hf.PretrainedConfig
    vocabulary: str
    long: int
    layout: str = ""  # words of layouts.py


def plain(config: type, **fields):
    """Fields that most models share; epsilons are given as the F32 value nearest to them when the file is
    made."""
    shared = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
    shared |= {"intermediate_size": 96, "max_position_embeddings": 1024, "tie_word_embeddings": False}
    return config(**(shared | fields))


def theta(base: float, **more) -> dict:
    return {"rope_type": "default", "rope_theta": base} | more


def llama_family():
    yield Model(
        "llama", hf.LlamaForCausalLM, plain(hf.LlamaConfig, rope_parameters=theta(10000.0)), "llama", 77
    )
    tied = {
        "hidden_size": 48,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "tie_word_embeddings": True,
    }
    config = plain(hf.LlamaConfig, rope_parameters=theta(10000.0), **tied)
    yield Model("llama-tied", hf.LlamaForCausalLM, config, "llama-pieces", 83)
    scaled = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    scaled |= {"original_max_position_embeddings": 64, "rope_theta": 5000.0}
    config = plain(hf.LlamaConfig, num_hidden_layers=2, head_dim=32, rope_parameters=scaled)
    yield Model("llama-rope", hf.LlamaForCausalLM, config, "llama", 149)
    moe = {"num_hidden_layers": 2, "num_local_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 48}
    config = plain(hf.MixtralConfig, rope_parameters=theta(1e6), **moe)
    yield Model("llama-moe", hf.MixtralForCausalLM, config, "llama-pieces", 71)


def qwen_family():
    config = plain(hf.Qwen2Config, rope_parameters=theta(1e6))
    yield Model("qwen2", hf.Qwen2ForCausalLM, config, "qwen2", 79)
    moe = {"num_hidden_layers": 2, "num_experts": 8, "num_experts_per_tok": 3, "norm_topk_prob": False}
    moe |= {"moe_intermediate_size": 32, "shared_expert_intermediate_size": 48}
    config = plain(hf.Qwen2MoeConfig, rope_parameters=theta(1e6), **moe)
    yield Model("qwen2moe", hf.Qwen2MoeForCausalLM, config, "qwen2moe", 73)
    heads = {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 24}
    config = plain(hf.Qwen3Config, rope_parameters=theta(1e6), **heads | {"tie_word_embeddings": True})
    yield Model("qwen3", hf.Qwen3ForCausalLM, config, "qwen3", 101)
    moe = {"num_hidden_layers": 2, "num_experts": 8, "num_experts_per_tok": 3, "norm_topk_prob": True}
    moe |= {"moe_intermediate_size": 32, "intermediate_size": 128, "head_dim": 32}
    config = plain(hf.Qwen3MoeConfig, rope_parameters=theta(1e6), **moe)
    yield Model("qwen3moe", hf.Qwen3MoeForCausalLM, config, "qwen3moe", 91)


def gemma_family():
    shared = {"tie_word_embeddings": True, "head_dim": 16, "query_pre_attn_scalar": 16}
    fields = {
        "hidden_size": 48,
        "num_hidden_layers": 7,
        "num_key_value_heads": 1,
        "intermediate_size": 64,
        "sliding_window": 8,
    }
    yield Model("gemma3", hf.Gemma3ForCausalLM, plain(hf.Gemma3TextConfig, **shared | fields), "gemma3", 77)
    ropes = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0},
    }
    fields = {
        "num_hidden_layers": 4,
        "sliding_window_pattern": 2,
        "sliding_window": 16,
        "final_logit_softcapping": 5.0,
    }
    config = plain(
        hf.Gemma3TextConfig,
        rope_parameters=ropes,
        **shared | fields | {"head_dim": 24, "query_pre_attn_scalar": 24},
    )
    yield Model("gemma3-scaled", hf.Gemma3ForCausalLM, config, "gemma3", 115)


def delta_net(keys: int, values: int, size: int) -> dict:
    return {
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": size,
        "linear_value_head_dim": size,
        "linear_num_key_heads": keys,
        "linear_num_value_heads": values,
    }


def experts(count: int, used: int, width: int, shared: int) -> dict:
    fields = {"num_experts": count, "num_experts_per_tok": used, "moe_intermediate_size": width}
    return fields | {"shared_expert_intermediate_size": shared}


def sections(a: int, b: int, c: int) -> dict:
    return theta(1e7, partial_rotary_factor=0.25, mrope_section=[a, b, c], mrope_interleaved=True)


def hybrid_family():
    """Gated delta nets with gated attention. Long prompts cross one or two borders of the 64-token chunk."""
    one = {"num_hidden_layers": 4, "head_dim": 32, "rope_parameters": sections(2, 1, 1)} | delta_net(2, 4, 16)
    one |= {"num_key_value_heads": 1, "num_attention_heads": 2}
    two = {
        "num_hidden_layers": 6,
        "hidden_size": 48,
        "full_attention_interval": 2,
        "head_dim": 16,
    } | delta_net(2, 6, 8)
    two |= {"num_attention_heads": 3, "num_key_value_heads": 1, "rope_parameters": sections(1, 1, 0)}

    config = plain(hf.Qwen3_5MoeTextConfig, **one | experts(6, 2, 24, 32))
    yield Model("qwen35moe-a", hf.Qwen3_5MoeForCausalLM, config, "qwen35moe", 131)
    config = plain(hf.Qwen3_5MoeTextConfig, **two | experts(5, 3, 16, 24))
    yield Model("qwen35moe-b", hf.Qwen3_5MoeForCausalLM, config, "qwen35moe", 97)

    deep = one | {
        "num_hidden_layers": 8,
        "hidden_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    deep |= {"tie_word_embeddings": True, "intermediate_size": 64}
    config = plain(hf.Qwen3_5TextConfig, **deep)
    yield Model("qwen35-a", hf.Qwen3_5ForCausalLM, config, "qwen35", 129)
    even = two | delta_net(3, 3, 16) | {"num_hidden_layers": 6, "full_attention_interval": 3}
    config = plain(hf.Qwen3_5TextConfig, **even)
    yield Model("qwen35-b", hf.Qwen3_5ForCausalLM, config, "qwen35", 95)

    rope = {"rope_parameters": theta(1e7, partial_rotary_factor=0.25)}
    config = plain(hf.Qwen3NextConfig, **one | rope | experts(6, 2, 24, 32) | {"norm_topk_prob": True})
    yield Model("qwen3next-a", hf.Qwen3NextForCausalLM, config, "qwen3next", 133)
    fields = (
        two
        | rope
        | delta_net(2, 6, 8)
        | experts(5, 3, 8, 16)
        | {"num_hidden_layers": 8, "full_attention_interval": 4}
    )
    config = plain(hf.Qwen3NextConfig, **fields | {"norm_topk_prob": True})
    yield Model("qwen3next-b", hf.Qwen3NextForCausalLM, config, "qwen3next", 103)


def yarn(factor: float, context: int) -> dict:
    """The ramp begins and ends at whole pairs ("truncate"), as GGUF readers have it."""
    fields = {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": context,
        "truncate": True,
    }
    return theta(150000.0, beta_fast=32.0, beta_slow=1.0) | fields


def gpt_oss_family():
    fields = {
        "num_hidden_layers": 4,
        "head_dim": 16,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "intermediate_size": 32,
    }
    config = plain(hf.GptOssConfig, sliding_window=8, rope_parameters=yarn(32.0, 4096), **fields)
    yield Model("gpt-oss-a", hf.GptOssForCausalLM, config, "gpt-oss", 75)
    fields = {
        "num_hidden_layers": 3,
        "hidden_size": 48,
        "head_dim": 32,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
    }
    fields |= {"num_local_experts": 6, "num_experts_per_tok": 4, "intermediate_size": 24}
    config = plain(hf.GptOssConfig, sliding_window=32, rope_parameters=yarn(4.0, 256), **fields)
    yield Model("gpt-oss-b", hf.GptOssForCausalLM, config, "gpt-oss", 111)


def layout_family():
    """Models as other converters and older ones lay them out (layouts.py), as small as can be."""
    small = {"hidden_size": 32, "num_hidden_layers": 2, "head_dim": 16, "num_attention_heads": 4}
    fields = {key: value for key, value in small.items() if key != "head_dim"} | {"intermediate_size": 48}
    config = plain(hf.Qwen2Config, rope_parameters=theta(1e6), **fields)
    yield Model("qwen2-fused", hf.Qwen2ForCausalLM, config, "qwen2", 71, "fused")
    moe = {"num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": True, "moe_intermediate_size": 16}
    config = plain(hf.Qwen3MoeConfig, rope_parameters=theta(1e6), **small | moe)
    yield Model("qwen3moe-fused", hf.Qwen3MoeForCausalLM, config, "qwen3moe", 73, "fused")
    moe = {"num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 32}
    config = plain(hf.MixtralConfig, rope_parameters=theta(1e6), **small | moe)
    yield Model("llama-moe-apart", hf.MixtralForCausalLM, config, "llama-pieces", 71, "apart")

    hybrid = small | delta_net(2, 4, 8) | {"num_hidden_layers": 4, "full_attention_interval": 2}
    hybrid |= {"num_attention_heads": 2, "num_key_value_heads": 1, "rope_parameters": sections(1, 1, 0)}
    mixture = hybrid | experts(4, 2, 16, 16)
    config = plain(hf.Qwen3_5MoeTextConfig, **mixture)
    yield Model("qwen35moe-mtp", hf.Qwen3_5MoeForCausalLM, config, "qwen35moe", 81, "mtp fused")
    config = plain(hf.Qwen3_5MoeTextConfig, **mixture)
    yield Model("qwen35moe-ollama", hf.Qwen3_5MoeForCausalLM, config, "qwen35moe", 77, "ollama")
    config = plain(hf.Qwen3_5TextConfig, **hybrid | {"intermediate_size": 48})
    yield Model("qwen35-ollama", hf.Qwen3_5ForCausalLM, config, "qwen35", 79, "ollama grouped")
    rope = {"rope_parameters": theta(1e7, partial_rotary_factor=0.25), "norm_topk_prob": True}
    config = plain(hf.Qwen3NextConfig, **mixture | rope)
    yield Model("qwen3next-ollama", hf.Qwen3NextForCausalLM, config, "qwen3next", 83, "ollama ssm_in mtp")

    fields = small | {"num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 64}
    fields |= {"sliding_window": 8, "rope_parameters": yarn(32.0, 4096)}
    config = plain(hf.GptOssConfig, **fields)
    yield Model("gpt-oss-mxfp4", hf.GptOssForCausalLM, config, "gpt-oss", 75, "mxfp4")
    config = plain(hf.GptOssConfig, **fields)
    yield Model("gptoss-mxfp4", hf.GptOssForCausalLM, config, "gpt-oss", 77, "ollama fused mxfp4")


def all_models():
    for family in (llama_family, qwen_family, gemma_family, hybrid_family, gpt_oss_family, layout_family):
        yield from family()
