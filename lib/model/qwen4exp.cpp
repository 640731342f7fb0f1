// qwen4exp: delta nets and gated attention around experts, as qwen35moe, but with several residual streams
// that blocks read and write through low-rank gates, an indexer that chooses which tokens attention sees, and
// a table of n-grams looked up once. So far its tensors are known, so that it can be planned; forward() is
// not there yet.
#include "base/failure.h"
#include "model/architecture.h"
#include "model/tables.h"

namespace coterie {
namespace {

void read(const gguf::File& file, Hyperparameters& h) {
    h.tiled = true;
    read_delta_net(file, h);
    read_expert_width(file, h);
    if (h.has_experts() && h.shared_feed_forward == 0) h.shared_feed_forward = h.feed_forward[0];
    const std::string prefix = h.architecture + ".";
    const auto number = [&](const char* key, int64_t low, int64_t high) {
        return int32_t(read_int(file, prefix + key, low, high));
    };
    h.streams = number("hyper_connection.count", 2, 64);
    h.stream_rank = number("hyper_connection.low_rank", 1, 1 << 20);
    h.indexer_heads = number("attention.indexer.head_count", 1, 1 << 16);
    h.indexer_dim = number("attention.indexer.key_length", 1, 1 << 16);
    h.indexer_top_k = number("attention.indexer.top_k", 1, INT32_MAX);
    const auto layers = file.get_ints(prefix + "ple.layers");
    if (!layers || layers->size() != 1 || layers->front() < 0 || layers->front() >= h.layers)
        fail(Status::bad_model, "'{}ple.layers' must name one of the {} layers in '{}'", prefix, h.layers,
             file.path());
    h.ngram_layer = int32_t(layers->front());
    h.ngram_width = number("embedding_length_per_layer_input", 1, 1 << 20);
    // The convolution's taps lie as many tokens apart as an n-gram has.
    h.ngram_taps = number("ple.conv_kernel", 1, 64);
    h.ngram_history = (h.ngram_taps - 1) * number("ple.ngram_size", 1, 64);
    if (const gguf::Tensor* table = file.find_tensor("per_layer_token_embd.weight"))
        h.ngram_rows = int64_t(table->shape[1]);
}

// The norm that reads the streams stands where others have the norm before a block.
void widen_norm(TensorEntry& entry, std::string name, int64_t width) {
    entry.out = width;
    entry.sources.assign(1, TensorSource{std::move(name), 1, width, 1, {}, false});
}

void add_streams(const Hyperparameters& h, TensorTable& table, int32_t layer, Part down,
                 const std::string& stem, bool writes) {
    const int64_t wide = int64_t(h.streams) * h.embedding;
    const auto part = [&](int offset) { return Part(int(down) + offset); };
    table.add(down, layer, Kind::matrix, stem + "down.weight", wide, h.stream_rank);
    table.add(part(1), layer, Kind::matrix, stem + "up.weight", h.stream_rank, wide);
    if (writes) table.add(part(2), layer, Kind::matrix, stem + "inject.weight", wide, h.streams);
}

void add_ngrams(const Hyperparameters& h, TensorTable& table, int32_t i) {
    const int64_t n = h.embedding, wide = int64_t(h.streams) * n;
    table.add(Part::ngram_table, i, Kind::gather, "per_layer_token_embd.weight", h.ngram_width, h.ngram_rows);
    const auto name = [&](const char* suffix) { return block_name(i, suffix); };
    table.add(Part::ngram_key, i, Kind::matrix, name("ple_key.weight"), n, wide);
    table.add(Part::ngram_value, i, Kind::matrix, name("ple_value.weight"), n, n);
    table.add(Part::ngram_key_norm, i, Kind::vector, name("ple_norm_key.weight"), 1, wide);
    table.add(Part::ngram_query_norm, i, Kind::vector, name("ple_norm_query.weight"), 1, wide);
    table.add(Part::ngram_conv_norm, i, Kind::vector, name("ple_norm_conv.weight"), 1, wide);
    table.add(Part::ngram_taps, i, Kind::taps, name("ple_conv1d.weight"), h.ngram_taps, wide);
}

void tensors(const Hyperparameters& h, TensorTable& table) {
    const int64_t n = h.embedding, wide = int64_t(h.streams) * n;
    add_ends(h, table);
    for (TensorEntry& entry : table.entries())
        if (entry.part == Part::output_norm) widen_norm(entry, "output_hc_norm.weight", wide);
    add_streams(h, table, -1, Part::output_stream_down, "output_hc_", false);
    for (int32_t i = 0; i < h.layers; ++i) {
        const auto name = [&](const char* suffix) { return block_name(i, suffix); };
        const size_t first = table.entries().size();
        if (h.recurrent[size_t(i)]) {
            add_delta_net(h, table, i);
            for (const auto& [part, own] : {std::pair(Part::delta_alpha, "ssm_alpha.weight"),
                                            std::pair(Part::delta_beta, "ssm_beta.weight")})
                cut_rows(table.add(part, i, Kind::matrix, name(own), n, h.value_heads), Axis::value_heads);
        } else {
            add_attention(h, table, i, {.head_norms = true, .gated = true});
            table.add(Part::indexer_query, i, Kind::matrix, name("indexer.q_proj.weight"), n,
                      int64_t(h.indexer_heads) * h.indexer_dim);
            table.add(Part::indexer_key, i, Kind::matrix, name("indexer.k_proj.weight"), n, h.indexer_dim);
            table.add(Part::indexer_query_norm, i, Kind::vector, name("indexer.q_norm.weight"), 1,
                      h.indexer_dim);
            table.add(Part::indexer_key_norm, i, Kind::vector, name("indexer.k_norm.weight"), 1,
                      h.indexer_dim);
        }
        add_ffn_norm(h, table, i);
        for (size_t e = first; e < table.entries().size(); ++e) {
            TensorEntry& entry = table.entries()[e];
            if (entry.part == Part::attention_norm) widen_norm(entry, name("hc_attn_norm.weight"), wide);
            if (entry.part == Part::ffn_norm) widen_norm(entry, name("hc_ffn_norm.weight"), wide);
        }
        add_streams(h, table, i, Part::attention_stream_down, name("hc_attn_"), true);
        add_streams(h, table, i, Part::ffn_stream_down, name("hc_ffn_"), true);
        add_experts(h, table, i);
        add_shared_expert(h, table, i);
        if (i == h.ngram_layer) add_ngrams(h, table, i);
    }
}

void forward(Pass& p) {
    fail(Status::unsupported,
         "models of architecture '{}' can be inspected and planned, but this version can't run them",
         p.h.architecture);
}

}  // namespace

const Architecture qwen4exp{"qwen4exp", read, tensors, forward, false};

}  // namespace coterie
