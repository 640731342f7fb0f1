#include "model/tensor_table.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/failure.h"

namespace coterie {
namespace {

const gguf::Tensor* find(const gguf::File& file, const TensorSource& source, int64_t expert) {
    return file.find_tensor(source.per_expert ? fmt::format(fmt::runtime(source.name), expert) : source.name);
}

// Trailing ones don't matter: [n] equals [n, 1].
bool same_shape(const gguf::Tensor& tensor, int64_t in, int64_t out, int64_t experts) {
    return tensor.shape == std::array<uint64_t, 4>{uint64_t(in), uint64_t(out), uint64_t(experts), 1};
}

std::string describe(const TensorEntry& entry, const TensorSource& source) {
    const int64_t experts = source.per_expert ? 1 : source.experts;
    if (entry.kind == Kind::vector && experts == 1) return fmt::format("[{}]", source.out);
    if (entry.kind == Kind::vector) return fmt::format("[{}, {}]", source.out, experts);
    if (experts == 1) return fmt::format("[{}, {}]", source.in, source.out);
    return fmt::format("[{}, {}, {}]", source.in, source.out, experts);
}

void resolve_entry(TensorEntry& entry, const gguf::File& file, std::vector<std::string>& problems) {
    for (size_t s = 0; s < entry.sources.size(); ++s) {
        const TensorSource& source = entry.sources[s];
        const gguf::Tensor* first = find(file, source, 0);
        if (!first) continue;
        const int64_t count = source.per_expert ? source.experts : 1;
        for (int64_t e = 0; e < count; ++e) {
            const gguf::Tensor* tensor = find(file, source, e);
            if (!tensor) {
                problems.push_back(fmt::format("{} is missing", fmt::format(fmt::runtime(source.name), e)));
                return;
            }
            const int64_t experts = source.per_expert ? 1 : source.experts;
            const bool fits = entry.kind == Kind::vector
                                  ? same_shape(*tensor, source.out, experts, 1)
                                  : same_shape(*tensor, source.in, source.out, experts);
            if (!fits) {
                problems.push_back(fmt::format("{} has shape {}, expected {}", tensor->name,
                                               gguf::shape_text(*tensor), describe(entry, source)));
                return;
            }
            if (tensor->type != first->type) {
                problems.push_back(fmt::format("{} is {} but {} is {}", tensor->name, type_name(tensor->type),
                                               first->name, type_name(first->type)));
                return;
            }
            entry.tensors.push_back(tensor);
        }
        entry.found = int32_t(s);
        entry.type = first->type;
        return;
    }
    if (entry.required) problems.push_back(fmt::format("{} is missing", entry.sources.front().name));
}

// The i-th element of the part in the coordinates of the file's tensor: composes ranges of the part with the
// source's rows.
std::vector<Range> compose(const std::vector<Range>& kept, const std::vector<Range>& rows) {
    if (rows.empty()) return kept;
    std::vector<Range> result;
    for (const Range& want : kept) {
        int64_t at = 0;
        for (const Range& run : rows) {
            const int64_t length = run.end - run.begin;
            const int64_t begin = std::max(want.begin, at), end = std::min(want.end, at + length);
            if (begin < end) {
                const Range piece{run.begin + begin - at, run.begin + end - at};
                if (!result.empty() && result.back().end == piece.begin)
                    result.back().end = piece.end;
                else
                    result.push_back(piece);
            }
            at += length;
        }
    }
    return result;
}

}  // namespace

const char* part_name(Part part) {
    static constexpr const char* names[] = {"token_embedding",
                                            "output_norm",
                                            "output",
                                            "output_bias",
                                            "rope_factors",
                                            "rope_factors_long",
                                            "rope_factors_short",
                                            "attention_norm",
                                            "query",
                                            "query_bias",
                                            "query_gate",
                                            "key",
                                            "key_bias",
                                            "value",
                                            "value_bias",
                                            "query_norm",
                                            "key_norm",
                                            "attention_output",
                                            "attention_output_bias",
                                            "attention_sinks",
                                            "attention_post_norm",
                                            "delta_qkv",
                                            "delta_z",
                                            "delta_taps",
                                            "delta_dt",
                                            "delta_a",
                                            "delta_alpha",
                                            "delta_beta",
                                            "delta_norm",
                                            "delta_output",
                                            "ffn_norm",
                                            "ffn_gate",
                                            "ffn_up",
                                            "ffn_down",
                                            "ffn_gate_bias",
                                            "ffn_up_bias",
                                            "ffn_down_bias",
                                            "ffn_post_norm",
                                            "router",
                                            "router_bias",
                                            "selection_bias",
                                            "expert_gate",
                                            "expert_up",
                                            "expert_down",
                                            "expert_gate_bias",
                                            "expert_up_bias",
                                            "expert_down_bias",
                                            "shared_gate",
                                            "shared_up",
                                            "shared_down",
                                            "shared_router",
                                            "attention_stream_down",
                                            "attention_stream_up",
                                            "attention_stream_inject",
                                            "ffn_stream_down",
                                            "ffn_stream_up",
                                            "ffn_stream_inject",
                                            "output_stream_down",
                                            "output_stream_up",
                                            "indexer_query",
                                            "indexer_key",
                                            "indexer_query_norm",
                                            "indexer_key_norm",
                                            "ngram_table",
                                            "ngram_key",
                                            "ngram_value",
                                            "ngram_key_norm",
                                            "ngram_query_norm",
                                            "ngram_conv_norm",
                                            "ngram_taps"};
    static_assert(std::size(names) == size_t(Part::count));
    return names[size_t(part)];
}

TensorEntry& TensorTable::add(Part part, int32_t layer, Kind kind, std::string name, int64_t in, int64_t out,
                              int64_t experts) {
    TensorEntry entry;
    entry.part = part;
    entry.layer = layer;
    entry.kind = kind;
    entry.in = in;
    entry.out = out;
    entry.experts = experts;
    entry.sources.push_back({std::move(name), in, out, experts, {}, false});
    entries_.push_back(std::move(entry));
    return entries_.back();
}

const TensorEntry* TensorTable::find(Part part, int32_t layer) const {
    for (const TensorEntry& entry : entries_)
        if (entry.part == part && entry.layer == layer && entry.found >= 0) return &entry;
    return nullptr;
}

void TensorTable::resolve(const gguf::File& file) {
    std::vector<std::string> problems;
    for (TensorEntry& entry : entries_) resolve_entry(entry, file, problems);
    if (problems.empty()) return;
    constexpr size_t most = 20;
    const size_t shown = std::min(problems.size(), most);
    std::string list = fmt::format("{}", fmt::join(problems.begin(), problems.begin() + long(shown), "; "));
    if (problems.size() > most) list += fmt::format("; and {} more", problems.size() - most);
    fail(Status::bad_model, "'{}' does not hold the model its metadata describes ({} problem{}): {}",
         file.path(), problems.size(), problems.size() == 1 ? "" : "s", list);
}

bool holds(const TensorEntry& entry, const Share& share) {
    if (entry.found < 0) return false;
    if (entry.layer >= 0) return entry.layer >= share.layers.begin && entry.layer < share.layers.end;
    switch (entry.part) {
        case Part::token_embedding:
            return share.has_embedding;
        case Part::output_norm:
        case Part::output:
        case Part::output_bias:
        case Part::output_stream_down:
        case Part::output_stream_up:
            return share.has_head;
        default:
            return true;
    }
}

WeightSource shard_source(const TensorEntry& entry, const Hyperparameters& h, const Share& share) {
    WeightSource result;
    const gguf::Tensor& first = *entry.tensors.front();
    const TensorSource& source = entry.source();
    result.name = first.name;
    result.type = entry.type;
    result.gather = entry.kind == Kind::gather;
    result.file_in = entry.kind == Kind::vector ? 1 : source.in;
    result.file_out = source.out;
    result.rows = compose(cut(entry.rows, entry.out, h, share, entry.layer), source.rows);
    result.columns = entry.kind == Kind::vector ? std::vector<Range>{{0, 1}}
                                                : cut(entry.columns, entry.in, h, share, entry.layer);
    const Range slabs = cut(entry.slabs, entry.experts, h, share, entry.layer).front();
    const uint64_t slab_bytes = first.bytes / uint64_t(source.per_expert ? 1 : source.experts);
    for (int64_t e = slabs.begin; e < slabs.end; ++e)
        result.matrices.push_back(entry.tensors.size() > 1 ? entry.tensors[size_t(e)]->data
                                                           : first.data + uint64_t(e) * slab_bytes);
    return result;
}

}  // namespace coterie
