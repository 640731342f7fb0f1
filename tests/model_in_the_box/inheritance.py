"""A beginning for the twin: weights of the trained qwen3moe where the qwen35moe has the same part.

Taken are the embeddings, the head, the norms of blocks, the first experts with their rows of the router, one more
expert as the shared one, and values and outputs of the attention that is left. Delta nets, queries, keys and gates
begin at random.
"""

import torch


def inherit(network, parent: dict) -> None:
    own = network.state_dict()
    for name, value in own.items():
        source = parent.get(name)
        if name.endswith("norm.weight") and source is not None and "self_attn" not in name:
            value.copy_(source - 1)  # the twin's are centred at zero
        elif source is None or "self_attn" in name and not name.endswith(("v_proj.weight", "o_proj.weight")):
            continue
        elif "experts." in name or "mlp.gate." in name:
            value.copy_(source[: value.shape[0]])
        elif source.shape == value.shape:
            value.copy_(source)
    for index, layer in enumerate(network.model.layers):
        prefix = f"model.layers.{index}.mlp."
        count = layer.mlp.experts.down_proj.shape[0]
        gate_up = parent[prefix + "experts.gate_up_proj"][count]
        with torch.no_grad():
            gate, up = gate_up.chunk(2)
            layer.mlp.shared_expert.gate_proj.weight.copy_(gate)
            layer.mlp.shared_expert.up_proj.weight.copy_(up)
            layer.mlp.shared_expert.down_proj.weight.copy_(parent[prefix + "experts.down_proj"][count])
            if not layer.linear:
                layer.self_attn.o_proj.weight.mul_(2)  # its gate begins at a half
