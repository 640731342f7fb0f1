// The metadata of a model shape: the numbers readers ask for, and a vocabulary.
#include <fmt/format.h>

#include <algorithm>

#include "convert/model_shape.h"
#include "convert/vocabulary.h"

namespace coterie::convert {
namespace {

class Metadata {
  public:
    Metadata(const ModelShape& shape, gguf::Writer& writer)
        : s_(shape), writer_(writer), prefix_(shape.architecture + ".") {}

    void set_all() {
        writer_.set("general.architecture", s_.architecture);
        writer_.set("general.type", "model");
        writer_.set("general.name", fmt::format("{} of random weights, {} layers", s_.preset, s_.layers));
        number("block_count", s_.layers);
        number("context_length", s_.context);
        number("embedding_length", s_.embedding);
        if (s_.feed_forward > 0) number("feed_forward_length", s_.feed_forward);
        number("attention.head_count", s_.heads);
        number("attention.head_count_kv", s_.kv_heads);
        number("attention.key_length", s_.head_dim);
        number("attention.value_length", s_.head_dim);
        real("attention.layer_norm_rms_epsilon", s_.norm_epsilon);
        real("rope.freq_base", s_.rope_base);
        number("rope.dimension_count", s_.rope_dimensions > 0 ? s_.rope_dimensions : s_.head_dim);
        number("vocab_size", s_.vocabulary);
        if (s_.experts > 0) {
            number("expert_count", s_.experts);
            number("expert_used_count", s_.experts_used);
            if (s_.architecture != "llama") number("expert_feed_forward_length", s_.expert_feed_forward);
            if (s_.shared_feed_forward > 0)
                number("expert_shared_feed_forward_length", s_.shared_feed_forward);
        }
        if (s_.has_delta_net()) set_delta_net();
        if (s_.architecture == "gpt-oss") set_gpt_oss();
        if (s_.architecture == "qwen4exp") set_streams();
        set_vocabulary(s_, writer_);
    }

  private:
    void number(const char* name, int value) { writer_.set(prefix_ + name, uint32_t(value)); }
    void real(const char* name, double value) { writer_.set(prefix_ + name, float(value)); }

    void set_delta_net() {
        number("ssm.conv_kernel", s_.taps);
        number("ssm.state_size", s_.state_dim);
        number("ssm.group_count", s_.key_heads);
        number("ssm.time_step_rank", s_.value_heads);
        number("ssm.inner_size", s_.value_heads * s_.state_dim);
        number("full_attention_interval", s_.attention_interval);
        if (s_.architecture == "qwen3next") return;
        // Pairs for time, height and width: a third each, as in 11, 11, 10 of 32.
        const int pairs = (s_.rope_dimensions > 0 ? s_.rope_dimensions : s_.head_dim) / 2,
                  third = (pairs + 2) / 3;
        writer_.set(prefix_ + "rope.dimension_sections",
                    std::vector<int32_t>{third, third, pairs - 2 * third, 0});
    }

    void set_gpt_oss() {
        number("attention.sliding_window", s_.window);
        writer_.set(prefix_ + "rope.scaling.type", "yarn");
        real("rope.scaling.factor", 32);
        number("rope.scaling.original_context_length", 4096);
    }

    void set_streams() {
        number("hyper_connection.count", s_.streams);
        number("hyper_connection.low_rank", s_.low_rank);
        number("attention.indexer.head_count", s_.indexer_heads);
        number("attention.indexer.key_length", s_.indexer_dim);
        number("attention.indexer.top_k", s_.indexer_top_k);
        std::vector<uint32_t> ratios;
        for (int i = 0; i < s_.layers; ++i) ratios.push_back(s_.is_attention(i) ? 4 : 0);
        writer_.set(prefix_ + "attention.compress_ratios", ratios);
        writer_.set(prefix_ + "ple.layers", std::vector<uint32_t>{1});
        number("ple.ngram_size", 3);
        number("ple.heads_per_ngram", 8);
        number("ple.conv_kernel", 4);
        number("ple.eos_token_id", special_id(s_, "<|endoftext|>"));
        number("embedding_length_per_layer_input", s_.ngram_width);
        // The published multipliers and primes; with another table size, equal shares of it.
        writer_.set(prefix_ + "ple.layer_multipliers",
                    std::vector<uint64_t>{23703573157769u, 20109073645365u, 8052911324071u});
        static constexpr uint64_t beyond[16] = {3,  23, 33,  47,  59,  63,  69,  77,
                                                81, 93, 107, 147, 153, 159, 161, 171};
        std::vector<uint64_t> sizes, offsets;
        uint64_t sum = 0;
        for (const uint64_t b : beyond) {
            sizes.push_back(s_.ngram_rows == 320001536 ? 20000000 + b
                                                       : std::max<uint64_t>(1, s_.ngram_rows / 16));
            offsets.push_back(sum);
            sum += sizes.back();
        }
        writer_.set(prefix_ + "ple.head_vocab_sizes", sizes);
        writer_.set(prefix_ + "ple.head_offsets", offsets);
    }

    const ModelShape& s_;
    gguf::Writer& writer_;
    std::string prefix_;
};

}  // namespace

void set_metadata(const ModelShape& shape, gguf::Writer& writer) {
    check_shape(shape);
    Metadata(shape, writer).set_all();
}

}  // namespace coterie::convert
