// qwen3next: as qwen35moe, but the delta net's value heads are grouped by key head, and alpha and beta (and
// in old files q, k, v and z) lie interleaved per key head in one tensor.
#include "model/architecture.h"
#include "model/tables.h"

namespace coterie {
namespace {

void read(const gguf::File& file, Hyperparameters& h) {
    h.tiled = false;
    read_delta_net(file, h);
    read_expert_width(file, h);
    if (h.has_experts() && h.shared_feed_forward == 0) h.shared_feed_forward = h.feed_forward[0];
}

// Rows [begin, end) of every key head's block of `size` rows.
std::vector<Range> of_each_block(int64_t blocks, int64_t size, int64_t begin, int64_t end) {
    std::vector<Range> rows;
    for (int64_t b = 0; b < blocks; ++b) rows.push_back({b * size + begin, b * size + end});
    return rows;
}

void add_interleaved_delta(const Hyperparameters& h, TensorTable& table, int32_t i) {
    const int64_t repeat = h.value_heads / h.key_heads, d = h.state_dim, n = h.embedding;
    for (const Part part : {Part::delta_beta, Part::delta_alpha}) {  // per key head: betas, then alphas
        TensorEntry& e =
            cut_rows(table.add(part, i, Kind::matrix, block_name(i, "ssm_ba.weight"), n, h.value_heads),
                     Axis::value_heads);
        const int64_t begin = part == Part::delta_beta ? 0 : repeat;
        e.sources[0].out = 2 * h.value_heads;
        e.sources[0].rows = of_each_block(h.key_heads, 2 * repeat, begin, begin + repeat);
    }
    // Old files: per key head q, k, repeat x v, repeat x z.
    const int64_t block = (2 + 2 * repeat) * d, total = h.key_heads * block;
    for (TensorEntry& e : table.entries()) {
        if (e.layer != i || (e.part != Part::delta_qkv && e.part != Part::delta_z)) continue;
        std::vector<Range> rows;
        const auto append = [&](int64_t begin, int64_t end) {
            for (const Range& r : of_each_block(h.key_heads, block, begin, end)) rows.push_back(r);
        };
        if (e.part == Part::delta_qkv) {
            append(0, d);
            append(d, 2 * d);
            append(2 * d, (2 + repeat) * d);
        } else {
            append((2 + repeat) * d, block);
        }
        e.sources.push_back({block_name(i, "ssm_in.weight"), n, total, 1, std::move(rows), false});
    }
}

void tensors(const Hyperparameters& h, TensorTable& table) {
    add_ends(h, table);
    for (int32_t i = 0; i < h.layers; ++i) {
        if (h.recurrent[size_t(i)]) {
            add_delta_net(h, table, i);
            add_interleaved_delta(h, table, i);
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

const Architecture qwen3next{"qwen3next", read, tensors, forward};

}  // namespace coterie
