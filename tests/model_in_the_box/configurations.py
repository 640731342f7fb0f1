"""Sizes of the two box models. Widths are multiples of 256, so that every matrix is a true K-quant row."""

import transformers as hf

SHARED = {
    "hidden_size": 256,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 256,
    "norm_topk_prob": True,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": False,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "rms_norm_eps": 1e-6,
    "bos_token_id": None,
    "pad_token_id": None,
}


def qwen3moe(vocabulary: int):
    return hf.Qwen3MoeConfig(
        vocab_size=vocabulary,
        num_hidden_layers=6,
        num_experts=16,
        intermediate_size=256,
        mlp_only_layers=[],
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        **SHARED,
    )


def qwen35moe(vocabulary: int):
    return hf.Qwen3_5MoeTextConfig(
        vocab_size=vocabulary,
        num_hidden_layers=6,
        num_experts=12,
        shared_expert_intermediate_size=256,
        full_attention_interval=3,
        linear_conv_kernel_dim=4,
        linear_key_head_dim=64,
        linear_value_head_dim=64,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.25,
            "mrope_section": [4, 2, 2],
            "mrope_interleaved": True,
        },
        **SHARED,
    )


BY_NAME = {"qwen3moe": qwen3moe, "qwen35moe": qwen35moe}
