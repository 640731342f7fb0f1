// qwen3 and qwen3moe: grouped-query attention with RMS norms on the heads of q and k; a dense FFN or experts.
#include "model/architecture.h"
#include "model/tables.h"

namespace coterie {
namespace {

void read(const gguf::File& file, Hyperparameters& h) {
    read_expert_width(file, h);
}

void tensors(const Hyperparameters& h, TensorTable& table) {
    add_ends(h, table);
    for (int32_t i = 0; i < h.layers; ++i) {
        add_attention(h, table, i, {.head_norms = true});
        add_ffn_norm(h, table, i);
        if (h.has_experts())
            add_experts(h, table, i);
        else
            add_feed_forward(h, table, i);
    }
}

void forward(Pass& p) {
    pre_norm_layers(p, Activation::silu);
}

}  // namespace

const Architecture qwen3{"qwen3", read, tensors, forward};
const Architecture qwen3moe{"qwen3moe", read, tensors, forward};

}  // namespace coterie
