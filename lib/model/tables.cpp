#include "model/tables.h"

#include <fmt/format.h>

namespace coterie {
namespace {

// The rows of parts that lie fused in one tensor, one after the other.
TensorSource fused(std::string name, int64_t in, int64_t total, Range rows, int64_t experts = 1) {
    return {std::move(name), in, total, experts, {rows}, false};
}

// Per head: `dim` rows of queries, then `dim` rows of gate; part 0 or 1 of each.
std::vector<Range> interleaved(int64_t heads, int64_t dim, int part) {
    std::vector<Range> rows;
    for (int64_t head = 0; head < heads; ++head)
        rows.push_back({(2 * head + part) * dim, (2 * head + part + 1) * dim});
    return rows;
}

}  // namespace

std::string block_name(int32_t layer, const char* name) {
    return fmt::format("blk.{}.{}", layer, name);
}

void add_ends(const Hyperparameters& h, TensorTable& table) {
    cut_rows(
        table.add(Part::token_embedding, -1, Kind::gather, "token_embd.weight", h.embedding, h.vocabulary),
        Axis::vocabulary);
    table.add(Part::output_norm, -1, Kind::vector, "output_norm.weight", 1, h.embedding);
    TensorEntry& output =
        cut_rows(table.add(Part::output, -1, Kind::matrix, "output.weight", h.embedding, h.vocabulary),
                 Axis::vocabulary);
    output.sources.push_back({"token_embd.weight", h.embedding, h.vocabulary, 1, {}, false});
}

void add_attention(const Hyperparameters& h, TensorTable& table, int32_t layer,
                   const AttentionVariant& variant) {
    const int64_t heads = h.heads[size_t(layer)], kv_heads = h.kv_heads[size_t(layer)], n = h.embedding;
    const int64_t q = heads * h.key_dim, k = kv_heads * h.key_dim, v = kv_heads * h.value_dim;
    const auto name = [&](const char* suffix) { return block_name(layer, suffix); };
    table.add(Part::attention_norm, layer, Kind::vector, name("attn_norm.weight"), 1, n);

    const int64_t first_key = variant.gated ? 2 * q : q, total = first_key + k + v;
    const auto joined = [&](Range rows) { return fused(name("attn_qkv.weight"), n, total, rows); };
    if (variant.gated) {
        for (const int part : {0, 1}) {
            TensorEntry& e = cut_rows(table.add(part == 0 ? Part::query : Part::query_gate, layer,
                                                Kind::matrix, name("attn_q.weight"), n, q),
                                      Axis::heads);
            e.sources[0].out = 2 * q;
            e.sources[0].rows = interleaved(heads, h.key_dim, part);
            e.sources.push_back({name("attn_qkv.weight"), n, total, 1, e.sources[0].rows, false});
        }
    } else {
        TensorEntry& e =
            cut_rows(table.add(Part::query, layer, Kind::matrix, name("attn_q.weight"), n, q), Axis::heads);
        e.sources.push_back(joined({0, q}));
    }
    TensorEntry& key =
        cut_rows(table.add(Part::key, layer, Kind::matrix, name("attn_k.weight"), n, k), Axis::kv_heads);
    key.sources.push_back(joined({first_key, first_key + k}));
    TensorEntry& value =
        cut_rows(table.add(Part::value, layer, Kind::matrix, name("attn_v.weight"), n, v), Axis::kv_heads);
    value.sources.push_back(joined({first_key + k, total}));

    const auto bias = [&](Part part, const char* own, int64_t size, Axis axis, Range rows) {
        TensorEntry& e = cut_rows(table.add(part, layer, Kind::vector, name(own), 1, size), axis);
        e.required = variant.biases;
        if (!variant.gated) e.sources.push_back(fused(name("attn_qkv.bias"), 1, total, rows));
    };
    bias(Part::query_bias, "attn_q.bias", q, Axis::heads, {0, q});
    bias(Part::key_bias, "attn_k.bias", k, Axis::kv_heads, {q, q + k});
    bias(Part::value_bias, "attn_v.bias", v, Axis::kv_heads, {q + k, q + k + v});

    if (variant.head_norms) {
        table.add(Part::query_norm, layer, Kind::vector, name("attn_q_norm.weight"), 1, h.key_dim);
        table.add(Part::key_norm, layer, Kind::vector, name("attn_k_norm.weight"), 1, h.key_dim);
    }
    TensorEntry& output = cut_columns(table.add(Part::attention_output, layer, Kind::matrix,
                                                name("attn_output.weight"), heads * h.value_dim, n),
                                      Axis::heads);
    output.sources.push_back({name("attn_out.weight"), heads * h.value_dim, n, 1, {}, false});
    TensorEntry& output_bias = optional(
        cut_rows(table.add(Part::attention_output_bias, layer, Kind::vector, name("attn_output.bias"), 1, n),
                 Axis::heads_sum));
    output_bias.sources.push_back({name("attn_out.bias"), 1, n, 1, {}, false});
}

void add_ffn_norm(const Hyperparameters& h, TensorTable& table, int32_t layer, const char* name) {
    table.add(Part::ffn_norm, layer, Kind::vector, block_name(layer, name), 1, h.embedding);
}

void add_feed_forward(const Hyperparameters& h, TensorTable& table, int32_t layer) {
    const int64_t n = h.embedding, width = h.feed_forward[size_t(layer)];
    const auto name = [&](const char* suffix) { return block_name(layer, suffix); };
    cut_rows(table.add(Part::ffn_gate, layer, Kind::matrix, name("ffn_gate.weight"), n, width),
             Axis::feed_forward);
    cut_rows(table.add(Part::ffn_up, layer, Kind::matrix, name("ffn_up.weight"), n, width),
             Axis::feed_forward);
    cut_columns(table.add(Part::ffn_down, layer, Kind::matrix, name("ffn_down.weight"), width, n),
                Axis::feed_forward);
    optional(cut_rows(table.add(Part::ffn_gate_bias, layer, Kind::vector, name("ffn_gate.bias"), 1, width),
                      Axis::feed_forward));
    optional(cut_rows(table.add(Part::ffn_up_bias, layer, Kind::vector, name("ffn_up.bias"), 1, width),
                      Axis::feed_forward));
    optional(cut_rows(table.add(Part::ffn_down_bias, layer, Kind::vector, name("ffn_down.bias"), 1, n),
                      Axis::feed_forward_sum));
}

void add_experts(const Hyperparameters& h, TensorTable& table, int32_t layer) {
    const int64_t n = h.embedding, width = h.expert_feed_forward, experts = h.router.experts;
    const auto name = [&](const char* suffix) { return block_name(layer, suffix); };
    table.add(Part::router, layer, Kind::matrix, name("ffn_gate_inp.weight"), n, experts);

    const auto inner = [&](Part part, const char* own, const char* legacy, int64_t first) {
        TensorEntry& e = table.add(part, layer, Kind::experts, name(own), n, width, experts);
        e.rows = Axis::expert_width;
        e.slabs = Axis::experts;
        e.sources.push_back(
            fused(name("ffn_gate_up_exps.weight"), n, 2 * width, {first, first + width}, experts));
        e.sources.push_back({name(legacy), n, width, experts, {}, true});
    };
    inner(Part::expert_gate, "ffn_gate_exps.weight", "ffn_gate.{}.weight", 0);
    inner(Part::expert_up, "ffn_up_exps.weight", "ffn_up.{}.weight", width);
    TensorEntry& down =
        table.add(Part::expert_down, layer, Kind::experts, name("ffn_down_exps.weight"), width, n, experts);
    down.columns = Axis::expert_width;
    down.slabs = Axis::experts;
    down.sources.push_back({name("ffn_down.{}.weight"), width, n, experts, {}, true});
}

void add_shared_expert(const Hyperparameters& h, TensorTable& table, int32_t layer) {
    const int64_t n = h.embedding, width = h.shared_feed_forward;
    const auto name = [&](const char* suffix) { return block_name(layer, suffix); };
    TensorEntry& router =
        table.add(Part::shared_router, layer, Kind::matrix, name("ffn_gate_inp_shexp.weight"), n, 1);
    router.required = true;
    cut_rows(table.add(Part::shared_gate, layer, Kind::matrix, name("ffn_gate_shexp.weight"), n, width),
             Axis::shared_width);
    cut_rows(table.add(Part::shared_up, layer, Kind::matrix, name("ffn_up_shexp.weight"), n, width),
             Axis::shared_width);
    cut_columns(table.add(Part::shared_down, layer, Kind::matrix, name("ffn_down_shexp.weight"), width, n),
                Axis::shared_width);
}

void add_delta_net(const Hyperparameters& h, TensorTable& table, int32_t layer) {
    const int64_t n = h.embedding;
    const auto name = [&](const char* suffix) { return block_name(layer, suffix); };
    table.add(Part::attention_norm, layer, Kind::vector, name("attn_norm.weight"), 1, n);
    cut_rows(table.add(Part::delta_qkv, layer, Kind::matrix, name("attn_qkv.weight"), n, h.channels()),
             Axis::delta_channels);
    cut_rows(table.add(Part::delta_z, layer, Kind::matrix, name("attn_gate.weight"), n, h.value_width()),
             Axis::value_heads);
    cut_rows(table.add(Part::delta_taps, layer, Kind::taps, name("ssm_conv1d.weight"), h.taps, h.channels()),
             Axis::delta_channels);
    TensorEntry& dt =
        cut_rows(table.add(Part::delta_dt, layer, Kind::vector, name("ssm_dt.bias"), 1, h.value_heads),
                 Axis::value_heads);
    dt.sources.push_back({name("ssm_dt"), 1, h.value_heads, 1, {}, false});
    cut_rows(table.add(Part::delta_a, layer, Kind::vector, name("ssm_a"), 1, h.value_heads),
             Axis::value_heads);
    table.add(Part::delta_norm, layer, Kind::vector, name("ssm_norm.weight"), 1, h.state_dim);
    cut_columns(
        table.add(Part::delta_output, layer, Kind::matrix, name("ssm_out.weight"), h.value_width(), n),
        Axis::value_heads);
}

}  // namespace coterie
