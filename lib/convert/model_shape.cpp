#include "convert/model_shape.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/failure.h"

namespace coterie::convert {
namespace {

using Specials = std::vector<std::pair<int, std::string>>;

void qwen_tokens(ModelShape& s, const char* pre, int vocabulary, int first_special) {
    s.tokenizer_pre = pre;
    s.vocabulary = vocabulary;
    s.special_tokens = Specials{{first_special, "<|endoftext|>"},
                                {first_special + 1, "<|im_start|>"},
                                {first_special + 2, "<|im_end|>"}};
    s.bos = first_special;
    s.eos = first_special + 2;
}

ModelShape qwen3(const char* name, int layers, int embedding, int heads, int kv_heads, int feed_forward) {
    ModelShape s;
    s.preset = name;
    s.architecture = "qwen3";
    s.layers = layers;
    s.embedding = embedding;
    s.heads = heads;
    s.kv_heads = kv_heads;
    s.head_dim = 128;
    s.feed_forward = feed_forward;
    s.context = 40960;
    s.rope_base = 1e6;
    qwen_tokens(s, "qwen2", 151936, 151643);
    return s;
}

ModelShape qwen3_moe(const char* name, int layers, int embedding, int heads, int feed_forward,
                     int expert_width) {
    ModelShape s = qwen3(name, layers, embedding, heads, 4, feed_forward);
    s.architecture = "qwen3moe";
    s.experts = 128;
    s.experts_used = 8;
    s.expert_feed_forward = expert_width;
    return s;
}

ModelShape hybrid(const char* name, const char* architecture, int layers, int embedding, int heads,
                  int experts, int used, int expert_width, int value_heads) {
    ModelShape s;
    s.preset = name;
    s.architecture = architecture;
    s.layers = layers;
    s.embedding = embedding;
    s.heads = heads;
    s.kv_heads = 2;
    s.head_dim = 256;
    s.experts = experts;
    s.experts_used = used;
    s.expert_feed_forward = s.shared_feed_forward = expert_width;
    s.context = 262144;
    s.rope_base = 1e7;
    s.rope_dimensions = 64;
    s.value_heads = value_heads;
    qwen_tokens(s, "qwen35", 248320, 248044);
    return s;
}

ModelShape llama(const char* name, int experts, int vocabulary) {
    ModelShape s;
    s.preset = name;
    s.architecture = "llama";
    s.layers = 32;
    s.embedding = 4096;
    s.heads = 32;
    s.kv_heads = 8;
    s.head_dim = 128;
    s.feed_forward = 14336;
    s.norm_epsilon = 1e-5;
    s.context = experts ? 32768 : 8192;
    s.rope_base = experts ? 1e6 : 5e5;
    s.experts = experts;
    s.experts_used = experts ? 2 : 0;
    s.expert_feed_forward = experts ? s.feed_forward : 0;
    qwen_tokens(s, "llama-bpe", vocabulary, experts ? vocabulary - 3 : 128000);
    return s;
}

ModelShape gpt_oss(const char* name, int layers, int experts) {
    ModelShape s;
    s.preset = name;
    s.architecture = "gpt-oss";
    s.layers = layers;
    s.embedding = 2880;
    s.heads = 64;
    s.kv_heads = 8;
    s.head_dim = 64;
    s.experts = experts;
    s.experts_used = 4;
    s.expert_feed_forward = 2880;
    s.window = 128;
    s.norm_epsilon = 1e-5;
    s.context = 131072;
    s.rope_base = 150000;
    s.vocabulary = 201088;
    s.tokenizer_pre = "gpt-4o";
    s.special_tokens =
        Specials{{199998, "<|startoftext|>"}, {199999, "<|endoftext|>"}, {200002, "<|return|>"},
                 {200005, "<|channel|>"},     {200006, "<|start|>"},     {200007, "<|end|>"},
                 {200008, "<|message|>"},     {200010, "<|im_start|>"},  {200011, "<|im_end|>"},
                 {200012, "<|call|>"}};
    s.bos = 199998;
    s.eos = 200002;
    s.recipe = quant::Recipe::MXFP4_MOE;
    return s;
}

std::vector<ModelShape> make_presets() {
    ModelShape small = qwen3("qwen3-0.6b", 28, 1024, 16, 8, 3072);
    small.tied = true;
    ModelShape next = hybrid("qwen3-next-80b", "qwen3next", 48, 2048, 16, 512, 10, 512, 32);
    qwen_tokens(next, "qwen2", 151936, 151643);
    ModelShape flash = hybrid("flash-next", "qwen4exp", 48, 2560, 24, 512, 10, 640, 48);
    flash.eos = 248046;
    return {
        small,
        qwen3("qwen3-8b", 36, 4096, 32, 8, 12288),
        qwen3_moe("qwen3-30b", 48, 2048, 32, 6144, 768),
        qwen3_moe("qwen3-235b", 94, 4096, 64, 12288, 1536),
        hybrid("qwen3.5-35b", "qwen35moe", 40, 2048, 16, 256, 8, 512, 32),
        hybrid("qwen3.5-122b", "qwen35moe", 48, 3072, 32, 256, 8, 1024, 64),
        hybrid("qwen3.5-397b", "qwen35moe", 60, 4096, 32, 512, 10, 1024, 64),
        next,
        flash,
        llama("llama3-8b", 0, 128256),
        llama("mixtral-8x7b", 8, 32000),
        gpt_oss("gpt-oss-20b", 24, 32),
        gpt_oss("gpt-oss-120b", 36, 128),
    };
}

const std::vector<ModelShape>& presets() {
    static const std::vector<ModelShape> all = make_presets();
    return all;
}

}  // namespace

bool ModelShape::has_delta_net() const {
    return architecture == "qwen35moe" || architecture == "qwen3next" || architecture == "qwen4exp";
}

bool ModelShape::is_attention(int layer) const {
    return !has_delta_net() || (layer + 1) % attention_interval == 0;
}

std::vector<std::string> preset_names() {
    std::vector<std::string> names;
    for (const ModelShape& s : presets()) names.push_back(s.preset);
    return names;
}

ModelShape preset(std::string_view name) {
    for (const ModelShape& s : presets())
        if (s.preset == name) return s;
    fail(Status::not_found, "no model shape is called '{}'; there are {}", name,
         fmt::join(preset_names(), ", "));
}

void check_shape(const ModelShape& s) {
    static constexpr std::string_view known[] = {"qwen3",    "qwen3moe", "qwen35moe", "qwen3next",
                                                 "qwen4exp", "llama",    "gpt-oss"};
    if (std::find(std::begin(known), std::end(known), s.architecture) == std::end(known))
        fail(Status::unsupported, "models of architecture '{}' can't be synthesised; {} can", s.architecture,
             fmt::join(known, ", "));
    const auto require = [&](bool holds, const char* what) {
        if (!holds) fail(Status::invalid_argument, "the model shape '{}' is impossible: {}", s.preset, what);
    };
    require(s.layers >= 1 && s.layers <= 4096, "1 to 4096 layers are valid");
    require(s.embedding >= 1 && s.heads >= 1 && s.kv_heads >= 1 && s.head_dim >= 1,
            "a size is zero or negative");
    require(s.heads % s.kv_heads == 0, "heads must be a multiple of key heads");
    require(s.experts >= 0 && (s.experts == 0 || (s.experts_used >= 1 && s.experts_used <= s.experts &&
                                                  s.expert_feed_forward >= 1)),
            "some and at most all experts must be used, and have a width");
    require(
        s.experts > 0 || (s.feed_forward >= 1 && (s.architecture == "qwen3" || s.architecture == "llama")),
        "this architecture has experts, and a dense one a feed-forward width");
    require(s.architecture != "llama" || s.experts == 0 || s.expert_feed_forward == s.feed_forward,
            "llama has one feed-forward width, also of experts");
    require(s.architecture != "qwen3" || s.experts == 0, "qwen3 is dense; with experts it is qwen3moe");
    require(!s.has_delta_net() || (s.key_heads >= 1 && s.value_heads % s.key_heads == 0 && s.state_dim >= 1 &&
                                   s.taps >= 1 && s.attention_interval >= 1 && s.shared_feed_forward >= 1),
            "the delta net's numbers contradict each other");
    require(s.vocabulary >= 256 + int(s.special_tokens.size()),
            "the vocabulary has no room for 256 bytes and the special tokens");
    require(s.architecture != "qwen4exp" || s.layers >= 2,
            "qwen4exp has its n-gram table at the second layer");
}

}  // namespace coterie::convert
