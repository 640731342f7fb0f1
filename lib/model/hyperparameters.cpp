#include "model/hyperparameters.h"

#include <algorithm>
#include <cmath>

#include "base/failure.h"

namespace coterie {
namespace {

constexpr int64_t most_layers = 4096, most_width = 1 << 24, most_heads = 1 << 16, most_experts = 1 << 16;

// A scalar for all layers, or an array with a value per block (its tail belongs to prediction blocks).
std::vector<int32_t> read_per_layer(const gguf::File& file, const std::string& key, int32_t layers,
                                    int64_t low, int64_t high, int64_t otherwise) {
    const gguf::Value* value = file.find(key);
    if (value && value->is_array()) {
        const std::vector<int64_t> list = *file.get_ints(key);
        if (int64_t(list.size()) < layers)
            fail(Status::bad_model, "'{}' has {} values for {} layers in '{}'; fetch the file again", key,
                 list.size(), layers, file.path());
        std::vector<int32_t> result;
        for (int32_t i = 0; i < layers; ++i) {
            if (list[size_t(i)] < low || list[size_t(i)] > high)
                fail(Status::bad_model, "'{}' is {} for layer {}, expected {} to {}, in '{}'", key,
                     list[size_t(i)], i, low, high, file.path());
            result.push_back(int32_t(list[size_t(i)]));
        }
        return result;
    }
    const int64_t scalar =
        otherwise >= 0 ? read_int(file, key, low, high, otherwise) : read_int(file, key, low, high);
    return std::vector<int32_t>(size_t(layers), int32_t(scalar));
}

// Prediction blocks stand last and are counted in block_count. A file that does not say how many there are
// shows them by a tensor of their own.
int64_t count_predicting(const gguf::File& file, const std::string& prefix, int64_t blocks) {
    const auto has = [&](int64_t block, const char* name) {
        return file.find_tensor(fmt::format("blk.{}.{}", block, name)) != nullptr;
    };
    const std::string key = prefix + "nextn_predict_layers";
    int64_t n = read_int(file, key, 0, blocks - 1, 0);
    if (!file.find(key))
        while (n < blocks - 1 && has(blocks - 1 - n, "nextn.eh_proj.weight")) ++n;
    if (has(blocks, "attn_norm.weight"))
        fail(Status::bad_model, "'{}block_count' is {} in '{}', but the file also holds blk.{}", prefix,
             blocks, file.path(), blocks);
    return n;
}

RopeNumbers read_rope(const gguf::File& file, const std::string& prefix, const Hyperparameters& h) {
    RopeNumbers rope;
    rope.dimensions = int32_t(read_int(file, prefix + "rope.dimension_count", 0, h.key_dim, h.key_dim));
    if (rope.dimensions % 2 != 0)
        fail(Status::bad_model, "'{}rope.dimension_count' is {}, expected an even number, in '{}'", prefix,
             rope.dimensions, file.path());
    rope.base = read_float(file, prefix + "rope.freq_base", 10000.0);
    RopeScaling& scaling = rope.scaling;
    scaling.factor =
        read_float(file, prefix + "rope.scaling.factor", read_float(file, prefix + "rope.scale_linear", 1.0));
    if (scaling.factor == 0.0) scaling.factor = 1.0;
    const std::string kind(file.get_string(prefix + "rope.scaling.type").value_or("linear"));
    if (kind == "none") {
        scaling.factor = 1.0;
    } else if (kind == "linear") {
        scaling.kind = scaling.factor != 1.0 ? RopeScaling::Kind::linear : RopeScaling::Kind::none;
    } else if (kind == "yarn") {
        scaling.kind = RopeScaling::Kind::yarn;
    } else if (kind == "longrope") {
        scaling.kind = RopeScaling::Kind::longrope;
    } else {
        fail(Status::unsupported,
             "rope scaling '{}' is not known (none, linear, yarn, longrope are), in '{}'", kind, file.path());
    }
    scaling.original_context = read_float(file, prefix + "rope.scaling.original_context_length", h.context);
    scaling.attention_factor = read_float(file, prefix + "rope.scaling.attn_factor", 1.0);
    scaling.extrapolation = read_float(file, prefix + "rope.scaling.yarn_ext_factor",
                                       scaling.kind == RopeScaling::Kind::yarn ? 1.0 : 0.0);
    scaling.beta_fast = read_float(file, prefix + "rope.scaling.yarn_beta_fast", 32.0);
    scaling.beta_slow = read_float(file, prefix + "rope.scaling.yarn_beta_slow", 1.0);
    if (!(rope.base > 0) || !(scaling.factor > 0) || !std::isfinite(rope.base) ||
        !std::isfinite(scaling.factor))
        fail(Status::bad_model, "rope base {} or factor {} is not a positive number in '{}'", rope.base,
             scaling.factor, file.path());
    return rope;
}

void read_router(const gguf::File& file, const std::string& prefix, Hyperparameters& h) {
    Router& router = h.router;
    router.experts = int32_t(read_int(file, prefix + "expert_count", 0, most_experts, 0));
    router.used = int32_t(read_int(file, prefix + "expert_used_count", 0, most_experts, 0));
    if (router.experts == 0) return;
    if (router.used < 1 || router.used > router.experts)
        fail(Status::bad_model, "'{}expert_used_count' is {} with {} experts in '{}'", prefix, router.used,
             router.experts, file.path());
    router.scale = float(read_float(file, prefix + "expert_weights_scale", 0.0));
    if (router.scale == 0.0f) router.scale = 1.0f;
    router.groups = int32_t(read_int(file, prefix + "expert_group_count", 0, router.experts, 1));
    router.groups_used = int32_t(read_int(file, prefix + "expert_group_used_count", 0, router.experts, 1));
    router.groups = std::max(router.groups, 1);
    router.groups_used = std::clamp(router.groups_used, 1, router.groups);
    switch (read_int(file, prefix + "expert_gating_func", 0, 4, 0)) {
        case 2:
            router.gating = Router::Gating::sigmoid;
            break;
        case 3:
            router.gating = Router::Gating::selected_softmax;
            break;
        case 4:
            router.gating = Router::Gating::sqrt_softplus;
            break;
        default:
            router.gating = Router::Gating::softmax;
    }
}

}  // namespace

int64_t read_int(const gguf::File& file, const std::string& key, int64_t low, int64_t high,
                 int64_t otherwise) {
    const std::optional<int64_t> value = file.get_int(key);
    if (!value) return otherwise;
    if (*value < low || *value > high)
        fail(Status::bad_model,
             "'{}' is {}, expected {} to {}, in '{}'; the file is damaged or of a newer kind", key, *value,
             low, high, file.path());
    return *value;
}

int64_t read_int(const gguf::File& file, const std::string& key, int64_t low, int64_t high) {
    if (!file.find(key))
        fail(Status::bad_model, "'{}' is missing in '{}'; the file can't be used", key, file.path());
    return read_int(file, key, low, high, 0);
}

double read_float(const gguf::File& file, const std::string& key, double otherwise) {
    return file.get_float(key).value_or(otherwise);
}

bool Hyperparameters::has_states() const {
    return std::any_of(recurrent.begin(), recurrent.end(), [](uint8_t r) { return r != 0; });
}

Attention Hyperparameters::attention(int32_t layer) const {
    Attention a;
    a.heads = heads[size_t(layer)];
    a.kv_heads = kv_heads[size_t(layer)];
    a.key_dim = key_dim;
    a.value_dim = value_dim;
    a.scale = attention_scale;
    a.window = windowed[size_t(layer)] ? window : 0;
    a.group = a.kv_heads > 0 ? a.heads / a.kv_heads : 0;
    return a;
}

Hyperparameters read_common(const gguf::File& file) {
    Hyperparameters h;
    const auto name = file.get_string("general.architecture");
    if (!name)
        fail(Status::bad_model, "'general.architecture' is missing in '{}'; this is not a model",
             file.path());
    h.architecture = std::string(*name);
    const std::string prefix = h.architecture + ".";

    const int64_t blocks = read_int(file, prefix + "block_count", 1, most_layers);
    h.layers = int32_t(blocks - count_predicting(file, prefix, blocks));
    h.context = int32_t(read_int(file, prefix + "context_length", 1, INT32_MAX));
    h.embedding = int32_t(read_int(file, prefix + "embedding_length", 1, most_width));
    h.norm_eps = float(read_float(file, prefix + "attention.layer_norm_rms_epsilon", -1.0));
    if (h.norm_eps < 0.0f && h.architecture == "gemma3") h.norm_eps = 1e-6f;  // left out by an old converter
    if (!(h.norm_eps >= 0.0f))
        fail(Status::bad_model, "'{}attention.layer_norm_rms_epsilon' is missing in '{}'", prefix,
             file.path());

    if (const gguf::Tensor* table = file.find_tensor("token_embd.weight"); table && table->dimensions == 2)
        h.vocabulary = int32_t(std::min<uint64_t>(table->shape[1], INT32_MAX));
    if (h.vocabulary < 1) fail(Status::bad_model, "'token_embd.weight' is missing in '{}'", file.path());

    h.heads = read_per_layer(file, prefix + "attention.head_count", h.layers, 1, most_heads, -1);
    h.kv_heads = file.find(prefix + "attention.head_count_kv")
                     ? read_per_layer(file, prefix + "attention.head_count_kv", h.layers, 0, most_heads, -1)
                     : h.heads;
    h.key_dim =
        int32_t(read_int(file, prefix + "attention.key_length", 1, most_width, h.embedding / h.heads[0]));
    h.value_dim =
        int32_t(read_int(file, prefix + "attention.value_length", 1, most_width, h.embedding / h.heads[0]));
    h.attention_scale = float(read_float(file, prefix + "attention.scale", 0.0));
    if (h.attention_scale == 0.0f) h.attention_scale = float(1.0 / std::sqrt(double(h.key_dim)));
    h.rope = read_rope(file, prefix, h);
    h.rope_local = h.rope;
    h.windowed.assign(size_t(h.layers), 0);
    h.recurrent.assign(size_t(h.layers), 0);

    h.feed_forward = read_per_layer(file, prefix + "feed_forward_length", h.layers, 0, most_width, 0);
    read_router(file, prefix, h);
    if (h.has_experts()) {
        const int64_t otherwise = h.feed_forward[0];
        h.expert_feed_forward =
            int32_t(read_int(file, prefix + "expert_feed_forward_length", 1, most_width, otherwise));
        h.shared_feed_forward =
            int32_t(read_int(file, prefix + "expert_shared_feed_forward_length", 0, most_width, 0));
    }
    for (int32_t i = 0; i < h.layers; ++i)
        if (h.kv_heads[size_t(i)] > 0 && h.heads[size_t(i)] % h.kv_heads[size_t(i)] != 0)
            fail(Status::bad_model,
                 "layer {} has {} heads and {} key heads in '{}'; the first must be a multiple", i,
                 h.heads[size_t(i)], h.kv_heads[size_t(i)], file.path());
    return h;
}

void read_expert_width(const gguf::File& file, Hyperparameters& h) {
    if (!h.has_experts() || file.find(h.architecture + ".expert_feed_forward_length")) return;
    h.expert_feed_forward = h.feed_forward[0] / h.router.used;
}

void read_delta_net(const gguf::File& file, Hyperparameters& h) {
    const std::string prefix = h.architecture + ".";
    h.taps = int32_t(read_int(file, prefix + "ssm.conv_kernel", 1, 64));
    h.state_dim = int32_t(read_int(file, prefix + "ssm.state_size", 1, 4096));
    h.value_heads = int32_t(read_int(file, prefix + "ssm.time_step_rank", 1, most_heads));
    h.key_heads = int32_t(read_int(file, prefix + "ssm.group_count", 1, most_heads));
    const int64_t inner = read_int(file, prefix + "ssm.inner_size", 1, most_width);
    if (inner != int64_t(h.value_heads) * h.state_dim || h.value_heads % h.key_heads != 0)
        fail(Status::bad_model,
             "the delta net's numbers contradict each other in '{}': inner_size {}, time_step_rank {} x "
             "state_size {}, "
             "group_count {}",
             file.path(), inner, h.value_heads, h.state_dim, h.key_heads);
    const std::string list_key = prefix + "attention.recurrent_layers",
                      heads_key = prefix + "attention.head_count_kv";
    const gguf::Value* heads = file.find(heads_key);
    if (file.find(list_key)) {
        const std::vector<bool> list = *file.get_bools(list_key);
        if (int64_t(list.size()) < h.layers)
            fail(Status::bad_model, "'{}' has {} values for {} layers in '{}'", list_key, list.size(),
                 h.layers, file.path());
        for (int32_t i = 0; i < h.layers; ++i) h.recurrent[size_t(i)] = list[size_t(i)];
    } else if (heads && heads->is_array() &&
               std::find(h.kv_heads.begin(), h.kv_heads.end(), 0) != h.kv_heads.end()) {
        for (int32_t i = 0; i < h.layers; ++i) h.recurrent[size_t(i)] = h.kv_heads[size_t(i)] == 0;
    } else {
        const int64_t interval = read_int(file, prefix + "full_attention_interval", 1, 4096, 4);
        for (int32_t i = 0; i < h.layers; ++i) h.recurrent[size_t(i)] = (i + 1) % interval != 0;
    }
    for (int32_t i = 0; i < h.layers; ++i)
        if (!h.recurrent[size_t(i)] && h.kv_heads[size_t(i)] == 0)
            fail(Status::bad_model, "layer {} has attention but no key heads in '{}'", i, file.path());
    // Files of an old converter say whether it re-tiled the value heads; all others did (qwen35*) or did not
    // (qwen3next).
    h.tiled = file.get_bool(prefix + "ssm.v_head_reordered").value_or(h.tiled);
}

}  // namespace coterie
