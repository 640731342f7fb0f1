// The tensor table of a model: for every part forward() uses, where it may come from in a file, its shape,
// whether it must be there, and along which axes it is cut between ranks. Four readers share it: the check of
// a file, the planner, the loader and forward().
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "model/share.h"

namespace coterie {

// A part as forward() names it; one per layer, or one in all for the first group.
enum class Part : uint8_t {
    token_embedding,
    output_norm,
    output,
    output_bias,
    rope_factors,
    rope_factors_long,
    rope_factors_short,
    // attention
    attention_norm,
    query,
    query_bias,
    query_gate,
    key,
    key_bias,
    value,
    value_bias,
    query_norm,
    key_norm,
    attention_output,
    attention_output_bias,
    attention_sinks,
    attention_post_norm,
    // gated delta net
    delta_qkv,
    delta_z,
    delta_taps,
    delta_dt,
    delta_a,
    delta_alpha,
    delta_beta,
    delta_norm,
    delta_output,
    // feed-forward
    ffn_norm,
    ffn_gate,
    ffn_up,
    ffn_down,
    ffn_gate_bias,
    ffn_up_bias,
    ffn_down_bias,
    ffn_post_norm,
    router,
    router_bias,
    selection_bias,
    expert_gate,
    expert_up,
    expert_down,
    expert_gate_bias,
    expert_up_bias,
    expert_down_bias,
    shared_gate,
    shared_up,
    shared_down,
    shared_router,
    // residual streams
    attention_stream_down,
    attention_stream_up,
    attention_stream_inject,
    ffn_stream_down,
    ffn_stream_up,
    ffn_stream_inject,
    output_stream_down,
    output_stream_up,
    // sparse attention's indexer
    indexer_query,
    indexer_key,
    indexer_query_norm,
    indexer_key_norm,
    // n-gram table
    ngram_table,
    ngram_key,
    ngram_value,
    ngram_key_norm,
    ngram_query_norm,
    ngram_conv_norm,
    ngram_taps,
    count
};
const char* part_name(Part part);

enum class Kind {
    matrix,   // [in, out], multiplied
    gather,   // [in, out], rows looked up
    experts,  // [in, out, experts], one matrix per expert
    vector,   // F32 numbers [out] or [out, experts]
    taps,     // F32 [in, out]: a small table kept as numbers
};

// Where a part may lie in a file: a tensor of a shape, and which of its output rows are the part (all when
// empty).
struct TensorSource {
    std::string name;
    int64_t in = 0, out = 0, experts = 1;
    std::vector<Range> rows;
    bool per_expert = false;  // one tensor per expert: name holds "{}" for its number
};

struct TensorEntry {
    Part part{};
    int32_t layer = -1;
    Kind kind = Kind::matrix;
    int64_t in = 0, out = 0, experts = 1;  // of the part
    Axis columns = Axis::none, rows = Axis::none, slabs = Axis::none;
    bool required = true;
    std::vector<TensorSource> sources;  // the first that a file has wins

    // Filled by resolve(): the source found, -1 when the file has none; its tensor's type and matrices.
    int32_t found = -1;
    Type type = Type::F32;
    std::vector<const gguf::Tensor*> tensors;  // one, or one per expert
    const TensorSource& source() const { return sources[size_t(found)]; }
};

class TensorTable {
  public:
    // Adds an entry whose one source is the whole tensor `name`; returns it for refinement.
    TensorEntry& add(Part part, int32_t layer, Kind kind, std::string name, int64_t in, int64_t out,
                     int64_t experts = 1);
    std::vector<TensorEntry>& entries() { return entries_; }
    const std::vector<TensorEntry>& entries() const { return entries_; }
    const TensorEntry* find(Part part, int32_t layer = -1) const;  // resolved entries only

    // Looks every entry up in the file. Throws bad_model with all problems at once (at most 20 are spelled
    // out).
    void resolve(const gguf::File& file);

  private:
    std::vector<TensorEntry> entries_;
};

// Whether the rank's layers and ends need the entry, and the file has it.
bool holds(const TensorEntry& entry, const Share& share);
// What a rank keeps of an entry; empty ranges mean nothing.
WeightSource shard_source(const TensorEntry& entry, const Hyperparameters& h, const Share& share);

// Short forms for the architectures' tables.
inline TensorEntry& cut_rows(TensorEntry& e, Axis rows) {
    e.rows = rows;
    return e;
}
inline TensorEntry& cut_columns(TensorEntry& e, Axis columns) {
    e.columns = columns;
    return e;
}
inline TensorEntry& optional(TensorEntry& e) {
    e.required = false;
    return e;
}

}  // namespace coterie
