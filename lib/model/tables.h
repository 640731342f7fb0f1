// Groups of tensor-table entries that several architectures share, with the names GGUF gives them and their
// variants.
#pragma once
#include <string>

#include "model/tensor_table.h"

namespace coterie {

std::string block_name(int32_t layer, const char* name);  // "blk.3.attn_q.weight"

// Token embedding, output norm, output head (tied to the embedding when absent).
void add_ends(const Hyperparameters& h, TensorTable& table);
// Norm, q, k, v (or fused), output; biases as given; head norms; an output gate interleaved with the queries.
struct AttentionVariant {
    bool biases = false;      // on q, k, v: required
    bool head_norms = false;  // RMS norms of q and k
    bool gated = false;       // attn_q holds, per head, its queries and then its gate
};
void add_attention(const Hyperparameters& h, TensorTable& table, int32_t layer,
                   const AttentionVariant& variant);
// The norm before the FFN under its usual name.
void add_ffn_norm(const Hyperparameters& h, TensorTable& table, int32_t layer,
                  const char* name = "ffn_norm.weight");
void add_feed_forward(const Hyperparameters& h, TensorTable& table, int32_t layer);
void add_experts(const Hyperparameters& h, TensorTable& table, int32_t layer);
void add_shared_expert(const Hyperparameters& h, TensorTable& table, int32_t layer);

// Norm, q|k|v, z, taps, gates' numbers, head norm and output of a gated delta net; alpha and beta are the
// architecture's.
void add_delta_net(const Hyperparameters& h, TensorTable& table, int32_t layer);

}  // namespace coterie
