"""The box models as lean modules for training on a CPU.

Same function and parameter names as transformers' Qwen3MoeForCausalLM and Qwen3_5MoeForCausalLM
(test_network.py compares the logits), but rows hold several documents at once: attention, convolution and
recurrent state never cross from one document into the next. Experts are computed as one matrix product per
expert over the tokens that chose it.
"""

import torch
import torch.nn.functional as F
from torch import nn


class RmsNorm(nn.Module):
    def __init__(self, width: int, eps: float, centred: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width) if centred else torch.ones(width))
        self.eps, self.centred = eps, centred

    def forward(self, x):
        weight = self.weight + 1 if self.centred else self.weight
        return F.rms_norm(x, (x.shape[-1],), weight.to(x.dtype), self.eps)


class ExpertProducts(torch.autograd.Function):
    """y[i] = x[i] W[e]^T for rows sorted by expert; `counts` rows for each."""

    @staticmethod
    def forward(context, x, weight, counts):
        low = weight.to(x.dtype)
        context.save_for_backward(x, low)
        context.counts = counts
        out = x.new_empty(x.shape[0], weight.shape[1])
        start = 0
        for expert, count in enumerate(counts):
            if count:
                torch.mm(x[start : start + count], low[expert].t(), out=out[start : start + count])
            start += count
        return out

    @staticmethod
    def backward(context, gradient):
        x, low = context.saved_tensors
        gradient = gradient.contiguous()
        to_x, to_weight = torch.empty_like(x), torch.zeros_like(low)
        start = 0
        for expert, count in enumerate(context.counts):
            if count:
                rows = slice(start, start + count)
                torch.mm(gradient[rows], low[expert], out=to_x[rows])
                torch.mm(gradient[rows].t(), x[rows], out=to_weight[expert])
            start += count
        return to_x, to_weight.float(), None


class Experts(nn.Module):
    def __init__(self, config):
        super().__init__()
        count, wide, hidden = config.num_experts, config.moe_intermediate_size, config.hidden_size
        self.gate_up_proj = nn.Parameter(torch.randn(count, 2 * wide, hidden) * 0.02)
        self.down_proj = nn.Parameter(torch.randn(count, hidden, wide) * 0.02)


class Router(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(config.num_experts, config.hidden_size) * 0.02)


class SwiGlu(nn.Module):
    def __init__(self, hidden: int, wide: int):
        super().__init__()
        self.gate_proj = nn.Linear(hidden, wide, bias=False)
        self.up_proj = nn.Linear(hidden, wide, bias=False)
        self.down_proj = nn.Linear(wide, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Mixture(nn.Module):
    """Routed experts, top k of the softmax, renormalised; and a gated shared expert if the configuration has one.
    Keeps the balancing loss and the choices of its last call."""

    def __init__(self, config):
        super().__init__()
        self.used = config.num_experts_per_tok
        self.gate = Router(config)
        self.experts = Experts(config)
        shared = getattr(config, "shared_expert_intermediate_size", 0)
        if shared:
            self.shared_expert = SwiGlu(config.hidden_size, shared)
            self.shared_expert_gate = nn.Linear(config.hidden_size, 1, bias=False)
        self.shared = bool(shared)

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        tokens, experts = x.shape[0], self.gate.weight.shape[0]
        with torch.autocast("cpu", enabled=False):
            probabilities = F.linear(x.float(), self.gate.weight).softmax(-1)
        top, chosen = probabilities.topk(self.used, -1)
        top = top / top.sum(-1, keepdim=True)
        flat = chosen.reshape(-1)
        counts = torch.bincount(flat, minlength=experts)
        order = flat.argsort(stable=True)
        share = counts.float() / tokens
        self.balance = experts * (share * probabilities.mean(0)).sum()
        self.chosen = chosen
        per_expert = counts.tolist()
        if torch.is_autocast_enabled("cpu"):
            x = x.to(torch.get_autocast_dtype("cpu"))
        rows = x.index_select(0, order // self.used)
        gate, up = ExpertProducts.apply(rows, self.experts.gate_up_proj, per_expert).chunk(2, -1)
        inner = F.silu(gate) * up
        out = ExpertProducts.apply(inner, self.experts.down_proj, per_expert)
        back = torch.empty_like(order)
        back[order] = torch.arange(order.numel())
        out = out.index_select(0, back).view(tokens, self.used, -1)
        y = (out * top.to(out.dtype)[..., None]).sum(1)
        if self.shared:
            y = y + torch.sigmoid(self.shared_expert_gate(x)) * self.shared_expert(x)
        return y.view(shape)


class Attention(nn.Module):
    """Grouped-query attention with norms of query and key heads; with `gated`, half of q_proj's rows of each head
    are an output gate and only a quarter of each head is rotated."""

    def __init__(self, config, gated: bool):
        super().__init__()
        self.heads, self.kv_heads, self.size = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.gated = gated
        hidden = config.hidden_size
        self.q_proj = nn.Linear(hidden, self.heads * self.size * (2 if gated else 1), bias=False)
        self.k_proj = nn.Linear(hidden, self.kv_heads * self.size, bias=False)
        self.v_proj = nn.Linear(hidden, self.kv_heads * self.size, bias=False)
        self.o_proj = nn.Linear(self.heads * self.size, hidden, bias=False)
        self.q_norm = RmsNorm(self.size, config.rms_norm_eps, gated)
        self.k_norm = RmsNorm(self.size, config.rms_norm_eps, gated)

    def forward(self, x, layout):
        batch, length, _ = x.shape
        q = self.q_proj(x).view(batch, length, self.heads, -1)
        if self.gated:
            q, gate = q.chunk(2, -1)
        q = self.q_norm(q).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(batch, length, self.kv_heads, self.size)).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, self.kv_heads, self.size).transpose(1, 2)
        q, k = rotated(q, layout.cos, layout.sin), rotated(k, layout.cos, layout.sin)
        groups = self.heads // self.kv_heads
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        y = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, layout.mask)
        y = y.transpose(1, 2).reshape(batch, length, -1)
        if self.gated:
            y = y * torch.sigmoid(gate.reshape(batch, length, -1))
        return self.o_proj(y)


def rotated(x, cos, sin):
    size = cos.shape[-1]
    turned, rest = x[..., :size], x[..., size:]
    half = size // 2
    swapped = torch.cat((-turned[..., half:], turned[..., :half]), -1)
    turned = turned * cos + swapped * sin
    return torch.cat((turned, rest), -1) if rest.shape[-1] else turned


class Layout:
    """Where documents lie in rows: `document` numbers them, `position` counts from each one's start."""

    def __init__(self, document, position, config, rotated_size: int):
        self.document = document
        theta = config.rope_parameters["rope_theta"]
        speeds = theta ** (-torch.arange(0, rotated_size, 2).float() / rotated_size)
        angles = position[..., None].float() * speeds
        angles = torch.cat((angles, angles), -1)[:, None]
        self.cos, self.sin = angles.cos(), angles.sin()
        length = document.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        self.mask = ((document[:, :, None] == document[:, None, :]) & causal)[:, None]


class Block(nn.Module):
    def __init__(self, config, kind: str, hybrid: bool):
        super().__init__()
        self.input_layernorm = RmsNorm(config.hidden_size, config.rms_norm_eps, hybrid)
        self.post_attention_layernorm = RmsNorm(config.hidden_size, config.rms_norm_eps, hybrid)
        self.linear = kind == "linear_attention"
        if self.linear:
            from delta_net import DeltaNet

            self.linear_attn = DeltaNet(config)
        else:
            self.self_attn = Attention(config, hybrid)
        self.mlp = Mixture(config)

    def forward(self, x, layout):
        mixer = self.linear_attn if self.linear else self.self_attn
        x = x + mixer(self.input_layernorm(x), layout)
        return x + self.mlp(self.post_attention_layernorm(x))


class Backbone(nn.Module):
    def __init__(self, config, hybrid: bool):
        super().__init__()
        kinds = config.layer_types if hybrid else ["full_attention"] * config.num_hidden_layers
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Block(config, kind, hybrid) for kind in kinds)
        self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps, hybrid)


class Network(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        hybrid = config.model_type == "qwen3_5_moe_text"
        self.rotated_size = config.head_dim // 4 if hybrid else config.head_dim
        self.model = Backbone(config, hybrid)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)
            if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj", "down_proj.weight")):
                with torch.no_grad():
                    parameter.mul_((2 * config.num_hidden_layers) ** -0.5)

    def forward(self, tokens, document, position):
        """The hidden states after the last norm; the head is applied by the caller to the rows that it needs."""
        layout = Layout(document, position, self.config, self.rotated_size)
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x, layout)
        return self.model.norm(x)

    def use(self, experts: int) -> None:
        """Fewer experts a token while training begins: half the work, and the full number is learned quickly."""
        for layer in self.model.layers:
            layer.mlp.used = experts

    def balance(self):
        return sum(layer.mlp.balance for layer in self.model.layers) / len(self.model.layers)
