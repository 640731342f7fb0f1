// llama: Llama 1-3, Mistral, SmolLM, and Mixtral as a mixture of experts. Rope on adjacent pairs, no head
// norms.
#include "model/architecture.h"
#include "model/tables.h"

namespace coterie {
namespace {

void read(const gguf::File&, Hyperparameters& h) {
    h.rope.pairs = h.rope_local.pairs = Rope::Pairs::adjacent;
}

void tensors(const Hyperparameters& h, TensorTable& table) {
    add_ends(h, table);
    optional(table.add(Part::rope_factors, -1, Kind::vector, "rope_freqs.weight", 1, h.rope.dimensions / 2));
    for (int32_t i = 0; i < h.layers; ++i) {
        add_attention(h, table, i, {});
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

const Architecture llama{"llama", read, tensors, forward};

}  // namespace coterie
