// The tensors of a model shape, by architecture. Written down apart from lib/model's tables (which say what
// forward() needs) on purpose: a synthetic file that a Model accepts shows that both are right.
#include <fmt/format.h>

#include "convert/model_shape.h"

namespace coterie::convert {
namespace {

class Table {
  public:
    explicit Table(const ModelShape& shape) : s_(shape) {}

    std::vector<ShapeTensor> build() {
        const bool streams = s_.architecture == "qwen4exp";
        add("token_embd.weight", {n(), u(s_.vocabulary)});
        if (streams) {
            add("per_layer_token_embd.weight", {u(s_.ngram_width), s_.ngram_rows});
            add_streams("output_hc_", false);
        } else {
            add("output_norm.weight", {n()});
        }
        if (!s_.tied) add("output.weight", {n(), u(s_.vocabulary)});
        for (int i = 0; i < s_.layers; ++i) {
            prefix_ = fmt::format("blk.{}.", i);
            if (streams)
                add_streams("hc_attn_", true);
            else
                add("attn_norm.weight", {n()});
            if (s_.is_attention(i))
                add_attention();
            else
                add_delta_net();
            if (streams) {
                add_streams("hc_ffn_", true);
                if (i == 1) add_ngrams();
            } else {
                const bool usual = s_.architecture == "llama" || s_.architecture.starts_with("qwen3m") ||
                                   s_.architecture == "qwen3";
                add(usual ? "ffn_norm.weight" : "post_attention_norm.weight", {n()});
            }
            add_feed_forward();
        }
        return std::move(tensors_);
    }

  private:
    static uint64_t u(int value) { return uint64_t(value); }
    uint64_t n() const { return u(s_.embedding); }
    uint64_t wide() const { return u(s_.streams) * n(); }

    void add(const char* name, std::vector<uint64_t> shape, Type type = Type::F32) {
        tensors_.push_back({prefix_ + name, std::move(shape), type});
    }

    void add_attention() {
        const bool gated = s_.has_delta_net(), oss = s_.architecture == "gpt-oss";
        const uint64_t q = u(s_.heads) * u(s_.head_dim), kv = u(s_.kv_heads) * u(s_.head_dim);
        add("attn_q.weight", {n(), gated ? 2 * q : q});
        add("attn_k.weight", {n(), kv});
        add("attn_v.weight", {n(), kv});
        add("attn_output.weight", {q, n()});
        if (oss) {
            add("attn_q.bias", {q});
            add("attn_k.bias", {kv});
            add("attn_v.bias", {kv});
            add("attn_output.bias", {n()});
            add("attn_sinks.weight", {u(s_.heads)});
        } else if (s_.architecture != "llama") {
            add("attn_q_norm.weight", {u(s_.head_dim)});
            add("attn_k_norm.weight", {u(s_.head_dim)});
        }
        if (s_.architecture != "qwen4exp") return;
        add("indexer.q_proj.weight", {n(), u(s_.indexer_heads) * u(s_.indexer_dim)}, Type::BF16);
        add("indexer.k_proj.weight", {n(), u(s_.indexer_dim)}, Type::BF16);
        add("indexer.q_norm.weight", {u(s_.indexer_dim)});
        add("indexer.k_norm.weight", {u(s_.indexer_dim)});
    }

    void add_delta_net() {
        const uint64_t values = u(s_.value_heads) * u(s_.state_dim), keys = u(s_.key_heads) * u(s_.state_dim);
        const uint64_t channels = 2 * keys + values, heads = u(s_.value_heads);
        add("attn_qkv.weight", {n(), channels});
        add("attn_gate.weight", {n(), values});
        add("ssm_conv1d.weight", {u(s_.taps), channels});
        add("ssm_dt.bias", {heads});
        add("ssm_a", {heads});
        if (s_.architecture == "qwen3next") {
            add("ssm_ba.weight", {n(), 2 * heads});
        } else {
            add("ssm_beta.weight", {n(), heads});
            add("ssm_alpha.weight", {n(), heads});
        }
        add("ssm_norm.weight", {u(s_.state_dim)});
        add("ssm_out.weight", {values, n()});
    }

    void add_feed_forward() {
        if (s_.experts == 0) {
            add("ffn_gate.weight", {n(), u(s_.feed_forward)});
            add("ffn_up.weight", {n(), u(s_.feed_forward)});
            add("ffn_down.weight", {u(s_.feed_forward), n()});
            return;
        }
        const uint64_t width = u(s_.expert_feed_forward), count = u(s_.experts),
                       shared = u(s_.shared_feed_forward);
        add("ffn_gate_inp.weight", {n(), count});
        add("ffn_gate_exps.weight", {n(), width, count});
        add("ffn_up_exps.weight", {n(), width, count});
        add("ffn_down_exps.weight", {width, n(), count});
        if (s_.architecture == "gpt-oss") {
            add("ffn_gate_inp.bias", {count});
            add("ffn_gate_exps.bias", {width, count});
            add("ffn_up_exps.bias", {width, count});
            add("ffn_down_exps.bias", {n(), count});
        }
        if (shared == 0) return;
        add("ffn_gate_inp_shexp.weight", {n()});
        add("ffn_gate_shexp.weight", {n(), shared});
        add("ffn_up_shexp.weight", {n(), shared});
        add("ffn_down_shexp.weight", {shared, n()});
    }

    // The gates through which a block of qwen4exp reads the residual streams, and writes them.
    void add_streams(const std::string& stem, bool writes) {
        add((stem + "norm.weight").c_str(), {wide()});
        add((stem + "down.weight").c_str(), {wide(), u(s_.low_rank)});
        add((stem + "up.weight").c_str(), {u(s_.low_rank), wide()});
        if (writes) add((stem + "inject.weight").c_str(), {wide(), u(s_.streams)});
    }

    void add_ngrams() {
        add("ple_key.weight", {n(), wide()});
        add("ple_value.weight", {n(), n()});
        for (const char* name : {"ple_norm_key.weight", "ple_norm_query.weight", "ple_norm_conv.weight"})
            add(name, {wide()});
        add("ple_conv1d.weight", {4, wide()});
    }

    const ModelShape& s_;
    std::string prefix_;
    std::vector<ShapeTensor> tensors_;
};

}  // namespace

std::vector<ShapeTensor> shape_tensors(const ModelShape& shape) {
    check_shape(shape);
    return Table(shape).build();
}

}  // namespace coterie::convert
