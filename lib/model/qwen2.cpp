// qwen2 and qwen2moe: attention with biases on q, k and v. The experts' weights are not renormalised, and a
// gated shared expert is added.
#include "model/architecture.h"
#include "model/tables.h"

namespace coterie {
namespace {

void read(const gguf::File& file, Hyperparameters& h) {
    if (!h.has_experts()) return;
    read_expert_width(file, h);
    h.router.normalise = file.get_bool("qwen2moe.expert_weights_norm").value_or(false);
    if (h.shared_feed_forward == 0) h.shared_feed_forward = h.feed_forward[0];
}

void tensors(const Hyperparameters& h, TensorTable& table) {
    add_ends(h, table);
    optional(cut_rows(table.add(Part::output_bias, -1, Kind::vector, "output.bias", 1, h.vocabulary),
                      Axis::vocabulary));
    for (int32_t i = 0; i < h.layers; ++i) {
        add_attention(h, table, i, {.biases = true});
        add_ffn_norm(h, table, i);
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

const Architecture qwen2{"qwen2", read, tensors, forward};
const Architecture qwen2moe{"qwen2moe", read, tensors, forward};

}  // namespace coterie
