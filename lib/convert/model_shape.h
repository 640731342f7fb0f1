// The dimensions of a model to synthesise: those of well-known models by name, free to be changed before use.
// From a shape follow the metadata and the tensors a real file has; what fills them is synth.h's business.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/writer.h"
#include "quant/recipe.h"

namespace coterie::convert {

struct ModelShape {
    std::string preset;        // its name here
    std::string architecture;  // qwen3, qwen3moe, qwen35moe, qwen3next, qwen4exp, llama, gpt-oss
    int layers = 0, embedding = 0, vocabulary = 0, context = 0;
    int heads = 0, kv_heads = 0, head_dim = 0;
    int feed_forward = 0;  // dense
    int experts = 0, experts_used = 0, expert_feed_forward = 0, shared_feed_forward = 0;
    double rope_base = 10000, norm_epsilon = 1e-6;
    int rope_dimensions = 0;  // 0: all of the head
    bool tied = false;        // no output matrix: the embedding serves
    int window = 0;           // gpt-oss: tokens that every second layer sees
    // Gated delta net (qwen35moe, qwen3next, qwen4exp).
    int key_heads = 16, value_heads = 32, state_dim = 128, taps = 4, attention_interval = 4;
    // qwen4exp: residual streams and the rank of their gates; indexer; n-gram table.
    int streams = 4, low_rank = 320;
    int indexer_heads = 4, indexer_dim = 128, indexer_top_k = 2048;
    int ngram_width = 160;
    uint64_t ngram_rows = 320001536;

    std::string tokenizer_pre;                                // tokenizer.ggml.pre
    std::vector<std::pair<int, std::string>> special_tokens;  // id and text
    int bos = -1, eos = -1;
    quant::Recipe recipe = quant::Recipe::Q4_K_M;  // what the published file is made with

    bool has_delta_net() const;
    bool is_attention(int layer) const;  // rather than a delta net
};

std::vector<std::string> preset_names();
// Throws not_found, listing the names there are.
ModelShape preset(std::string_view name);
// Throws invalid_argument for a shape that no file could have.
void check_shape(const ModelShape& shape);

struct ShapeTensor {
    std::string name;
    std::vector<uint64_t> shape;
    Type type = Type::F32;  // without quantisation
};

// In the order of a file. Names and shapes as published; types before a recipe is applied.
std::vector<ShapeTensor> shape_tensors(const ModelShape& shape);
void set_metadata(const ModelShape& shape, gguf::Writer& writer);

}  // namespace coterie::convert
