// gemma3: most layers see a window, every sixth all; norms before and after each block; tied embeddings
// scaled by sqrt(width).
#include <cmath>

#include "base/failure.h"
#include "model/architecture.h"
#include "model/tables.h"

namespace coterie {
namespace {

void read(const gguf::File& file, Hyperparameters& h) {
    h.embedding_scale = std::sqrt(float(h.embedding));
    h.logit_softcap = float(read_float(file, "gemma3.final_logit_softcapping", 0.0));
    h.window = int32_t(read_int(file, "gemma3.attention.sliding_window", 0, INT32_MAX, 0));
    // Old blobs of Ollama's name the two bases otherwise.
    h.rope.base = read_float(file, "gemma3.rope.global.freq_base", h.rope.base);
    h.rope_local.base = read_float(file, "gemma3.rope.freq_base_swa",
                                   read_float(file, "gemma3.rope.local.freq_base", 10000.0));
    h.rope_local.scaling = {};
    const char* key = "gemma3.attention.sliding_window_pattern";
    const gguf::Value* pattern = file.find(key);
    std::vector<int64_t> list;
    if (pattern && pattern->is_array()) {
        const std::vector<bool> flags = *file.get_bools(key);
        list.assign(flags.begin(), flags.end());
        if (int64_t(list.size()) < h.layers)
            fail(Status::bad_model, "'{}' has {} values for {} layers in '{}'", key, list.size(), h.layers,
                 file.path());
    }
    const int64_t period = list.empty() ? read_int(file, key, 1, 1024, 6) : 0;
    for (int32_t i = 0; i < h.layers; ++i)
        h.windowed[size_t(i)] =
            h.window > 0 && (list.empty() ? i % period < period - 1 : list[size_t(i)] != 0);
    if (h.layers == 62)
        h.attention_scale = float(1.0 / std::sqrt(double(h.embedding) / h.heads[0]));  // the 27B
}

void tensors(const Hyperparameters& h, TensorTable& table) {
    add_ends(h, table);
    for (int32_t i = 0; i < h.layers; ++i) {
        add_attention(h, table, i, {.head_norms = true});
        table.add(Part::attention_post_norm, i, Kind::vector, block_name(i, "post_attention_norm.weight"), 1,
                  h.embedding);
        add_ffn_norm(h, table, i);
        add_feed_forward(h, table, i);
        table.add(Part::ffn_post_norm, i, Kind::vector, block_name(i, "post_ffw_norm.weight"), 1,
                  h.embedding);
    }
}

void forward(Pass& p) {
    Rows x = begin_layers(p), h = p.rows(p.h.embedding), y = p.rows(p.h.embedding);
    first_norm(p, h, x);
    for (int32_t i = int32_t(p.share.layers.begin); i < p.share.layers.end; ++i) {
        attention(p, i, h, y);
        sum_norm_add_norm(p, x, y, h, p.vector(Part::attention_post_norm, i), p.vector(Part::ffn_norm, i));
        feed_forward(p, i, h, y, Activation::gelu_tanh);
        sum_norm_add_norm(p, x, y, h, p.vector(Part::ffn_post_norm, i), next_norm(p, i));
    }
    end_layers(p, x, h);
}

}  // namespace

const Architecture gemma3{"gemma3", read, tensors, forward};

}  // namespace coterie
