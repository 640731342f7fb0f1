// The numbers of a model, read from a file's metadata: sizes, per-layer kinds, rope, router. Only numbers;
// which tensors they imply is the tensor table's business.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"
#include "gguf/file.h"

namespace coterie {

struct RopeScaling {
    enum class Kind { none, linear, yarn, longrope };
    Kind kind = Kind::none;
    double factor = 1.0;            // positions are divided by it
    double original_context = 0.0;  // tokens
    double attention_factor = 1.0;  // on the magnitude of cos and sin
    double extrapolation = 0.0;     // YaRN mix, 1 when on
    double beta_fast = 32.0, beta_slow = 1.0;
};

struct RopeNumbers {
    Rope::Pairs pairs = Rope::Pairs::halves;
    int32_t dimensions = 0;
    double base = 10000.0;
    RopeScaling scaling;
};

struct Hyperparameters {
    std::string architecture;
    int32_t layers = 0;  // of the trunk: prediction (MTP) blocks are not counted
    int32_t embedding = 0;
    int32_t vocabulary = 0;
    int32_t context = 0;  // tokens the model was made for
    float norm_eps = 0.0f;
    float embedding_scale = 1.0f;
    float logit_softcap = 0.0f;

    // attention
    std::vector<int32_t> heads, kv_heads;  // [layers]
    int32_t key_dim = 0, value_dim = 0;
    float attention_scale = 0.0f;
    RopeNumbers rope, rope_local;   // rope_local: of the windowed layers
    int32_t window = 0;             // tokens; 0: none
    std::vector<uint8_t> windowed;  // [layers]

    // feed-forward
    std::vector<int32_t> feed_forward;  // [layers] of dense layers
    Router router;                      // experts == 0: a dense model
    int32_t expert_feed_forward = 0, shared_feed_forward = 0;

    // gated delta net
    std::vector<uint8_t> recurrent;  // [layers]
    int32_t taps = 0, key_heads = 0, value_heads = 0, state_dim = 0;
    bool tiled = true;  // see DeltaRule

    // residual streams read and written through gates, a sparse-attention indexer, a table of n-grams
    // (qwen4exp)
    int32_t streams = 0, stream_rank = 0;  // 0: an ordinary residual
    int32_t indexer_heads = 0, indexer_dim = 0, indexer_top_k = 0;
    int32_t ngram_layer = -1, ngram_width = 0;
    int32_t ngram_taps = 0, ngram_history = 0;  // of its convolution; tokens it looks back
    int64_t ngram_rows = 0;

    bool has_experts() const { return router.experts > 0; }
    bool has_states() const;
    int32_t key_width() const { return key_heads * state_dim; }
    int32_t value_width() const { return value_heads * state_dim; }
    int32_t channels() const { return 2 * key_width() + value_width(); }
    Attention attention(int32_t layer) const;  // of the whole model
};

// Reads the keys every architecture has. Throws bad_model naming the key that is missing or out of range.
Hyperparameters read_common(const gguf::File& file);

// A key with a range check, required or with a default; for the architectures' own files.
int64_t read_int(const gguf::File& file, const std::string& key, int64_t low, int64_t high);
int64_t read_int(const gguf::File& file, const std::string& key, int64_t low, int64_t high,
                 int64_t otherwise);
double read_float(const gguf::File& file, const std::string& key, double otherwise);

// The width of an expert where its key is absent: the dense width shared among the experts used. (Mixtral:
// the dense width.)
void read_expert_width(const gguf::File& file, Hyperparameters& h);
// The delta net's keys (ssm.*) and which layers are recurrent (every full_attention_interval-th is not).
void read_delta_net(const gguf::File& file, Hyperparameters& h);

}  // namespace coterie
