"""A beginning for the twin: what the trained qwen3moe can do, in the qwen35moe's own parts.

Taken as they are: embeddings, head, norms of blocks, the first experts with their rows of the router, one more expert
as the shared one. What mixes tokens is of another kind:

- Gated attention takes the parent's weights. It turns 8 of 32 rotary pairs, at the speeds that the parent's pairs
  0, 4, 8 ... have: these become the turned ones, and the others stand still.
- Delta nets take values V and outputs O of the parent's attention. Queries and keys are one projection of the token,
  and the convolution says which neighbour it is of. With q of the token itself, k of the one before, the state
  answers with what followed (layers 1 and 4); with k of the token itself, and V of tokens before, it says what came
  before (layer 0). Inputs are small, where SiLU is nearly linear; q, k and the output are scaled to unit length
  anyhow. Gates open and the state decays slowly through the constant dimension of the embeddings (copying.py).

Everything is trained from there; nothing is fixed.
"""

import math

import torch

SMALL = 0.3  # what a convolution lets through
# Per delta net: how far back keys are of, for both halves of each of the two key heads; queries likewise; and how
# far back the values of the four value heads are of.
BACK = {
    0: {"k": ((0, 0), (0, 0)), "q": ((0, 0), (0, 0)), "v": (1, 2, 1, 3)},
    1: {"k": ((1, 1), (1, 2)), "q": ((0, 0), (0, 1)), "v": (0, 0, 0, 0)},
    3: {"k": ((0, 0), (1, 1)), "q": ((0, 0), (0, 0)), "v": (0, 1, 0, 0)},
    4: {"k": ((1, 1), (1, 2)), "q": ((0, 0), (0, 1)), "v": (0, 0, 0, 0)},
}


def turned_order(size: int, turned_pairs: int) -> torch.Tensor:
    """Per dimension of the twin's heads: the parent's."""
    half = size // 2
    pairs = torch.arange(0, half, half // turned_pairs)
    rest = torch.tensor([i for i in range(half) if i not in pairs.tolist()])
    return torch.cat((pairs, pairs + half, rest, rest + half))


def inherit_attention(attention, parent, order) -> None:
    size, heads = attention.size, attention.heads
    q = attention.q_proj.weight.view(heads, 2 * size, -1)
    q[:, :size] = parent("q_proj").view(heads, size, -1)[:, order]
    attention.k_proj.weight.copy_(parent("k_proj").view(-1, size, q.shape[-1])[:, order].flatten(0, 1))
    attention.q_norm.weight.copy_(parent("q_norm")[order] - 1)
    attention.k_norm.weight.copy_(parent("k_norm")[order] - 1)
    attention.v_proj.weight.copy_(parent("v_proj"))
    attention.o_proj.weight.copy_(2 * parent("o_proj"))  # its gate begins at a half


def inherit_delta_net(net, parent, back) -> None:
    size, keys, values = net.size, net.keys, net.values
    rows = net.in_proj_qkv.weight
    taps = net.conv1d.weight[:, 0]
    taps.mul_(0.05)

    def part(first: int, projection, delays) -> None:
        rows[first : first + size].copy_(projection)
        for i, delay in enumerate(delays):
            step = size // len(delays)
            taps[first + i * step : first + (i + 1) * step, -1 - delay] += SMALL

    for head in range(keys):
        projection = torch.linalg.qr(torch.randn(rows.shape[1], size))[0].t()
        if len(set(back["k"][head])) > 1:  # the same reading of both tokens
            projection = torch.cat((projection[: size // 2],) * 2)
        projection[:, 0] = 0
        part(head * size, projection, back["q"][head])
        part((keys + head) * size, projection, back["k"][head])
    v = parent("v_proj").view(-1, size, rows.shape[1]).repeat_interleave(values // keys, 0)
    for head in range(values):
        part((2 * keys + head) * size, v[head] / (v[head].std() * 16), (back["v"][head],))
    net.in_proj_z.weight.mul_(0.2)[:, 0] = 0.6
    net.norm.weight.fill_(float(v.std()) * 16 / 1.3)
    net.out_proj.weight.copy_(parent("o_proj"))
    net.in_proj_b.weight.mul_(0.2)[:, 0] = 1.5
    net.in_proj_a.weight.mul_(0.2)
    net.A_log.copy_(torch.tensor([math.log(a) for a in (0.005, 0.03) * (values // 2)]))


@torch.no_grad()
def inherit(network, parent: dict) -> None:
    own = network.state_dict()
    for name, value in own.items():
        source = parent.get(name)
        if source is None or "self_attn" in name:
            continue
        if name.endswith("norm.weight"):
            value.copy_(source - 1)  # the twin's are centred at zero
        elif "experts." in name or "mlp.gate." in name:
            value.copy_(source[: value.shape[0]])
        else:
            value.copy_(source)
    order = turned_order(network.config.head_dim, network.rotated_size // 2)
    for index, layer in enumerate(network.model.layers):

        def attention_of_parent(name: str):
            return parent[f"model.layers.{index}.self_attn.{name}.weight"]

        if layer.linear:
            inherit_delta_net(layer.linear_attn, attention_of_parent, BACK[index])
        else:
            inherit_attention(layer.self_attn, attention_of_parent, order)
        experts = parent[f"model.layers.{index}.mlp.experts.gate_up_proj"]
        count = layer.mlp.experts.down_proj.shape[0]
        gate, up = experts[count].chunk(2)
        shared = layer.mlp.shared_expert
        shared.gate_proj.weight.copy_(gate)
        shared.up_proj.weight.copy_(up)
        shared.down_proj.weight.copy_(parent[f"model.layers.{index}.mlp.experts.down_proj"][count])
