"""Writes vectors.json: what the device operations must give, computed by PyTorch and by the model code of the
transformers package (versions in the file), not by anything of ours. Inputs are multiples of 1/64, exact in F32.

    pip install torch transformers numpy
    python make_vectors.py
"""
import json
import os
import types

import numpy as np
import torch
import transformers
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek
from transformers.models.gemma2 import modeling_gemma2 as gemma2
from transformers.models.gpt_oss import modeling_gpt_oss as gpt_oss
from transformers.models.gptj import modeling_gptj as gptj
from transformers.models.llama import modeling_llama as llama
from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next

torch.set_grad_enabled(False)
torch.set_num_threads(1)
random = np.random.default_rng(20)


def draw(*shape, size=1.0):
    return torch.tensor(np.round(random.normal(0, size, shape) * 64) / 64, dtype=torch.float64)


def flat(x):
    return [float(f"{v:.9g}") for v in np.asarray(x, dtype=np.float64).reshape(-1)]


def norms():
    x, gain = draw(3, 20), draw(20)
    rms = torch.nn.functional.rms_norm(x, [20], weight=gain, eps=1e-6)
    return dict(x=flat(x), gain=flat(gain), rms=flat(rms), l2_of_halves=flat(qwen3_next.l2norm(x.view(3, 2, 10), eps=1e-6)))


def activations():
    gate, up = draw(4, 16, size=4), draw(4, 16, size=6)
    experts = types.SimpleNamespace(alpha=1.702, limit=7.0)
    both = torch.stack((gate, up), dim=-1).flatten(-2)
    return dict(
        gate=flat(gate), up=flat(up),
        silu=flat(torch.nn.functional.silu(gate) * up),
        gelu_tanh=flat(torch.nn.functional.gelu(gate, approximate="tanh") * up),
        clamped_swiglu=flat(gpt_oss.GptOssExperts._apply_gate(experts, both)),
        sigmoid_gate=flat(up * torch.sigmoid(gate)),
        softcap=flat(30 * torch.tanh(gate / 30)))


def rope(pairs, heads, dim, dimensions, magnitude):
    positions = torch.tensor([0, 1, 2, 7, 100, 4095])
    x = draw(len(positions), heads, dim)
    frequencies = torch.tensor(10000.0 ** (-2 * np.arange(dimensions // 2) / dimensions)).float().double()
    angles = positions[:, None].double() * frequencies[None]
    cos, sin = angles.cos() * magnitude, angles.sin() * magnitude
    part = x[..., :dimensions]
    if pairs == "adjacent":
        turned = gptj.apply_rotary_pos_emb(part[None], sin[None], cos[None])[0]
    else:
        cos, sin = torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
        turned = llama.apply_rotary_pos_emb(part, part, cos, sin, unsqueeze_dim=1)[0]
    y = torch.cat((turned, x[..., dimensions:]), -1)
    return dict(pairs=pairs, heads=heads, dim=dim, dimensions=dimensions, magnitude=magnitude,
                positions=positions.tolist(), frequencies=flat(frequencies), x=flat(x), y=flat(y))


def attention(heads, kv_heads, key_dim, value_dim, tokens, window, sinks, softcap):
    q, k, v = draw(1, heads, tokens, key_dim, size=2), draw(1, kv_heads, tokens, key_dim, size=2), draw(1, kv_heads, tokens, value_dim)
    i, j = torch.arange(tokens)[:, None], torch.arange(tokens)[None]
    visible = (j <= i) & ((i - j < window) if window else True)
    mask = torch.zeros(tokens, tokens, dtype=torch.float64).masked_fill(~visible, float("-inf"))
    extra = draw(heads, size=2)
    module = types.SimpleNamespace(num_key_value_groups=heads // kv_heads, sinks=extra, training=False)
    scale = key_dim**-0.5
    if sinks:
        y, _ = gpt_oss.eager_attention_forward(module, q, k, v, mask, scale)
    elif softcap:
        # Its softmax is F32.
        y, _ = gemma2.eager_attention_forward(module, q, k, v, mask, scaling=scale, softcap=softcap)
    else:
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=True).transpose(1, 2)
    rows = lambda x: flat(x[0].transpose(0, 1))
    return dict(heads=heads, kv_heads=kv_heads, key_dim=key_dim, value_dim=value_dim, tokens=tokens, window=window,
                softcap=softcap, scale=scale, sinks=flat(extra) if sinks else [], q=rows(q), k=rows(k), v=rows(v), y=flat(y[0]))


def routing(kind, experts, used, normalise=True, scale=1.0, groups=1, groups_used=1, bias=False):
    rows = 6
    logits = draw(rows, experts, size=2)
    extra = draw(experts, size=0.5)
    if kind == "selected_softmax":
        module = gpt_oss.GptOssTopKRouter(types.SimpleNamespace(num_experts_per_tok=used, num_local_experts=experts, hidden_size=experts))
    elif kind == "softmax":
        module = qwen3_next.Qwen3NextTopKRouter(types.SimpleNamespace(num_experts_per_tok=used, num_experts=experts, hidden_size=experts, norm_topk_prob=normalise))
    elif kind == "sigmoid":
        module = deepseek.DeepseekV3TopkRouter(types.SimpleNamespace(
            num_experts_per_tok=used, num_local_experts=experts, hidden_size=experts, routed_scaling_factor=scale, n_group=groups,
            topk_group=groups_used, norm_topk_prob=normalise))
        if bias:
            module.e_score_correction_bias.copy_(extra)
    module = module.double() if kind != "sigmoid" else module
    module.weight.copy_(torch.eye(experts))  # the logits themselves
    _, weights, chosen = module(logits if kind != "sigmoid" else logits.float())
    # Best first, by the selection score.
    scores = logits.softmax(-1) if kind == "softmax" else logits.sigmoid() if kind == "sigmoid" else logits
    order = (scores + extra if bias else scores).gather(1, chosen).argsort(-1, descending=True)
    return dict(gating=kind, experts=experts, used=used, normalise=normalise, scale=scale, groups=groups, groups_used=groups_used,
                bias=flat(extra) if bias else [], rows=rows, logits=flat(logits), chosen=chosen.gather(1, order).reshape(-1).tolist(),
                weights=flat(weights.gather(1, order)))


def experts():
    count, used, rows, width, inner = 5, 2, 4, 12, 6
    config = types.SimpleNamespace(intermediate_size=inner, num_local_experts=count, hidden_size=width, swiglu_alpha=1.702, swiglu_limit=7.0,
                                   _experts_implementation="eager")
    module = gpt_oss.GptOssExperts(config).double()
    gate, up, down = draw(count, inner, width), draw(count, inner, width), draw(count, width, inner)
    gate_bias, up_bias, down_bias = draw(count, inner), draw(count, inner), draw(count, width)
    module.gate_up_proj.copy_(torch.stack((gate, up), dim=2).flatten(1, 2).transpose(1, 2))
    module.gate_up_proj_bias.copy_(torch.stack((gate_bias, up_bias), dim=-1).flatten(1))
    module.down_proj.copy_(down.transpose(1, 2))
    module.down_proj_bias.copy_(down_bias)
    x = draw(rows, width)
    chosen = torch.tensor([[0, 4], [2, 1], [4, 3], [2, 0]])
    weights = torch.tensor([[0.75, 0.25], [0.5, 0.5], [0.625, 0.375], [0.875, 0.125]], dtype=torch.float64)
    y = module(x, chosen, weights)
    return dict(experts=count, used=used, rows=rows, width=width, inner=inner, gate=flat(gate), up=flat(up), down=flat(down),
                gate_bias=flat(gate_bias), up_bias=flat(up_bias), down_bias=flat(down_bias), x=flat(x),
                chosen=chosen.reshape(-1).tolist(), weights=flat(weights), y=flat(y))


def convolution():
    tokens, channels, taps = 9, 6, 4
    x, w = draw(tokens, channels), draw(channels, taps)
    padded = torch.nn.functional.pad(x.T[None], (taps - 1, 0))
    y = torch.nn.functional.silu(torch.nn.functional.conv1d(padded, w[:, None], groups=channels))[0].T
    return dict(tokens=tokens, channels=channels, taps=taps, x=flat(x), w=flat(w), y=flat(y))


def delta(tiled):
    tokens, key_heads, value_heads, key_dim, value_dim = 11, 2, 6, 8, 5
    q, k, v = draw(1, tokens, key_heads, key_dim), draw(1, tokens, key_heads, key_dim), draw(1, tokens, value_heads, value_dim)
    k = qwen3_next.l2norm(k).mul(64).round().div(64)
    alpha, beta, dt, a = draw(1, tokens, value_heads), draw(1, tokens, value_heads), draw(value_heads), -draw(value_heads).abs()
    g = torch.nn.functional.softplus(alpha + dt) * a
    y, state = qwen3_next.torch_recurrent_gated_delta_rule(q, k, v, g, beta.sigmoid(), output_final_state=True)
    result = dict(v=v[0], alpha=alpha[0], beta=beta[0], g=g[0], sigmoid=beta[0].sigmoid(), y=y[0])
    heads = dict(dt=dt, a=a, state=state[0].transpose(1, 2))  # [value head][value dim][key dim]
    if tiled:  # value head r of key head h: from place h * ratio + r to place r * key_heads + h
        order = [h * (value_heads // key_heads) + r for r in range(value_heads // key_heads) for h in range(key_heads)]
        result = {n: x[:, order] for n, x in result.items()}
        heads = {n: x[order] for n, x in heads.items()}
    return dict(tiled=tiled, tokens=tokens, key_heads=key_heads, value_heads=value_heads, key_dim=key_dim, value_dim=value_dim,
                query_scale=key_dim**-0.5, q=flat(q), k=flat(k), **{n: flat(x) for n, x in {**result, **heads}.items()})


vectors = dict(
    made_with=f"torch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}",
    norms=norms(),
    activations=activations(),
    rope=[rope("halves", 3, 16, 16, 1.0), rope("halves", 2, 16, 6, 1.25), rope("adjacent", 3, 8, 8, 1.0), rope("adjacent", 1, 12, 4, 0.5)],
    attention=[attention(4, 2, 8, 8, 11, 0, False, 0), attention(4, 1, 8, 6, 11, 3, False, 0), attention(6, 2, 8, 8, 11, 4, True, 0),
               attention(2, 2, 8, 8, 11, 0, True, 0), attention(4, 2, 8, 4, 11, 5, False, 2.5)],
    routing=[routing("softmax", 12, 4), routing("softmax", 12, 4, normalise=False), routing("selected_softmax", 8, 3, normalise=False),
             routing("sigmoid", 16, 4, scale=2.5, bias=True), routing("sigmoid", 16, 4, groups=4, groups_used=2, bias=True),
             routing("sigmoid", 12, 3, normalise=False, groups=3, groups_used=1)],
    experts=experts(), convolution=convolution(), delta=[delta(True), delta(False)])
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "vectors.json"), "w") as f:
    json.dump(vectors, f, separators=(",", ":"))
    f.write("\n")
