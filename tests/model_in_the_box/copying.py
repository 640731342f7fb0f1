"""A beginning for the qwen3moe: attention that can already copy.

What most tasks need, to find the place in the question where the last tokens stood and to say what came next, is
learnt late and all at once by gradient descent. Here it is laid into the first weights instead:

- Embeddings share a constant in one dimension. Layer 0 makes queries and keys of it alone, turned against each
  other so that the rotary positions agree best one, two or three tokens back, and writes a projection V x of the
  token found there along orthonormal directions O.
- The next layers compare V x of the token at hand with O^T of all positions, on the slow rotary pairs only, and
  add the embedding of what stands at the best place (O' = V'^T); the head begins as the embedding.

Everything is trained from there; nothing is fixed.
"""

import torch

CONSTANT = 4.0  # of the shared dimension, relative to the others
FAST, SLOW = slice(0, 8), slice(17, 32)  # rotary pairs that tell neighbours apart, and that hardly turn within a document
INDUCTION_LAYERS = (1, 2)


def spread(pairs: torch.Tensor) -> torch.Tensor:
    """A value per rotary pair -> per dimension of a head (pair i is dimensions i and i + half)."""
    return torch.cat((pairs, pairs))


@torch.no_grad()
def lay(network) -> None:
    config = network.config
    width, size = config.hidden_size, config.head_dim
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    half = size // 2
    embedding = network.model.embed_tokens.weight
    scale = embedding.std()
    embedding[:, 0] = CONSTANT * scale
    network.lm_head.weight.copy_(embedding)
    network.lm_head.weight[:, 0] = 0

    def orthonormal(columns: int):
        return torch.linalg.qr(torch.randn(width, columns))[0]

    # Layer 0: one, two, three tokens back. Value heads: one and two back share the first.
    speeds = config.rope_parameters["rope_theta"] ** (-torch.arange(half) / half)
    first = network.model.layers[0].self_attn
    chosen = torch.full((half,), 0.05)
    chosen[FAST] = 1.0
    first.q_norm.weight.copy_(spread(0.05 + 7.0 * (chosen == 1)))
    first.k_norm.weight.copy_(spread(0.05 + 1.0 * (chosen == 1)))
    for head, back in enumerate((1, 2, 1, 3)[:heads]):
        rows = first.q_proj.weight[head * size : (head + 1) * size]
        rows.mul_(0.05)
        rows[:, 0] = torch.cat((torch.cos(back * speeds), -torch.sin(back * speeds)))
    read, written = [], []
    out = orthonormal(heads * size)
    for head in range(kv_heads):
        at = slice(head * size, (head + 1) * size)
        first.k_proj.weight[at].mul_(0.05)
        first.k_proj.weight[at][:, 0] = torch.cat((torch.ones(half), torch.zeros(half)))
        projection = orthonormal(size).t().clone()
        projection[:, 0] = 0
        first.v_proj.weight[at].copy_(projection)
        read.append(projection)
    for head in range(heads):
        at = slice(head * size, (head + 1) * size)
        first.o_proj.weight[:, at].copy_(out[:, at] * 0.02)
        written.append(out[:, at].t())

    # Which query heads of layer 0 the kv heads of the next layers listen to: one back each; then two and three back.
    slow = torch.full((half,), 0.1)
    slow[SLOW] = 1.0
    for number, layer in enumerate(INDUCTION_LAYERS):
        attention = network.model.layers[layer].self_attn
        attention.q_norm.weight.copy_(spread(slow * 2.5))
        attention.k_norm.weight.copy_(spread(slow * 2.5))
        groups = heads // kv_heads
        for head in range(kv_heads):
            source = head * groups  # the query head of layer 0 that looks one back
            mix = written[source] if number == 0 else written[source] + written[source + 1]
            at = slice(head * size, (head + 1) * size)
            attention.k_proj.weight[at].copy_(mix)
            values = orthonormal(size).t()
            attention.v_proj.weight[at].copy_(values)
            for query in range(head * groups, (head + 1) * groups):
                rows = slice(query * size, (query + 1) * size)
                attention.q_proj.weight[rows].copy_(read[head])
                attention.o_proj.weight[:, rows].copy_(values.t() * 0.02)
