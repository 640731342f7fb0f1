// qwen35 and qwen35moe: gated delta nets with tiled value heads, every fourth layer gated attention with
// partial rope; a dense FFN, or experts and a gated shared expert. Vision and prediction (MTP) tensors of a
// file are left alone.
#include "model/architecture.h"
#include "model/tables.h"

namespace coterie {
namespace {

void read(const gguf::File& file, Hyperparameters& h) {
    h.tiled = true;
    read_delta_net(file, h);
    read_expert_width(file, h);
    if (h.has_experts() && h.shared_feed_forward == 0) h.shared_feed_forward = h.feed_forward[0];
}

void tensors(const Hyperparameters& h, TensorTable& table) {
    add_ends(h, table);
    for (int32_t i = 0; i < h.layers; ++i) {
        if (h.recurrent[size_t(i)]) {
            add_delta_net(h, table, i);
            const auto head = [&](Part part, const char* name) {
                cut_rows(table.add(part, i, Kind::matrix, block_name(i, name), h.embedding, h.value_heads),
                         Axis::value_heads);
            };
            head(Part::delta_alpha, "ssm_alpha.weight");
            head(Part::delta_beta, "ssm_beta.weight");
        } else {
            add_attention(h, table, i, {.head_norms = true, .gated = true});
        }
        add_ffn_norm(h, table, i, "post_attention_norm.weight");
        if (h.has_experts()) {
            add_experts(h, table, i);
            add_shared_expert(h, table, i);
        } else {
            add_feed_forward(h, table, i);
        }
    }
}

void forward(Pass& p) {
    pre_norm_layers(p, Activation::silu);
}

}  // namespace

const Architecture qwen35{"qwen35", read, tensors, forward};
const Architecture qwen35moe{"qwen35moe", read, tensors, forward};

}  // namespace coterie
