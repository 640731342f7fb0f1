// gpt-oss: biases everywhere, attention sinks, every second layer sees a window, experts with a clamped
// activation chosen by a softmax over the selected logits. Also "gptoss" files of an old converter of
// Ollama's: its own tensor names, YaRN taken for granted, and rows of gate and up that alternate where they
// are in one tensor.
#include "base/failure.h"
#include "model/architecture.h"
#include "model/tables.h"

namespace coterie {
namespace {

bool of_ollama(const Hyperparameters& h) {
    return h.architecture == "gptoss";
}

// Every second of 2 * width rows, from `first`.
std::vector<Range> alternate(int64_t width, int64_t first) {
    std::vector<Range> rows;
    for (int64_t i = 0; i < width; ++i) rows.push_back({2 * i + first, 2 * i + first + 1});
    return rows;
}

void read(const gguf::File& file, Hyperparameters& h) {
    const std::string prefix = h.architecture + ".";
    h.router.gating = Router::Gating::selected_softmax;
    h.router.normalise = false;
    h.window = int32_t(read_int(file, prefix + "attention.sliding_window", 1, INT32_MAX));
    const int64_t period = read_int(file, prefix + "attention.sliding_window_pattern", 1, 1024, 2);
    for (int32_t i = 0; i < h.layers; ++i) h.windowed[size_t(i)] = i % period < period - 1;
    if (of_ollama(h) && !file.find(prefix + "rope.scaling.type") && h.rope.scaling.factor > 1.0) {
        h.rope.scaling.kind = RopeScaling::Kind::yarn;
        h.rope.scaling.extrapolation = read_float(file, prefix + "rope.scaling.yarn_ext_factor", 1.0);
    }
    h.rope_local = h.rope;
    h.rope_local.base = read_float(file, prefix + "rope.freq_base_swa", h.rope.base);
    if (!h.has_experts()) fail(Status::bad_model, "'{}expert_count' is missing in '{}'", prefix, file.path());
}

void tensors(const Hyperparameters& h, TensorTable& table) {
    add_ends(h, table);
    const int64_t n = h.embedding, width = h.expert_feed_forward, count = h.router.experts;
    for (int32_t i = 0; i < h.layers; ++i) {
        const auto name = [&](const char* suffix) { return block_name(i, suffix); };
        add_attention(h, table, i, {.biases = true});
        TensorEntry& sinks = cut_rows(table.add(Part::attention_sinks, i, Kind::vector,
                                                name("attn_sinks.weight"), 1, h.heads[size_t(i)]),
                                      Axis::heads);
        sinks.sources.push_back({name("attn_sinks"), 1, h.heads[size_t(i)], 1, {}, false});
        add_ffn_norm(h, table, i, "post_attention_norm.weight");
        table.entries().back().sources.push_back({name("ffn_norm.weight"), 1, n, 1, {}, false});
        add_experts(h, table, i);
        if (of_ollama(h))
            for (TensorEntry& e : table.entries())
                if (e.layer == i && (e.part == Part::expert_gate || e.part == Part::expert_up))
                    e.sources[1].rows = alternate(width, e.part == Part::expert_up);
        table.add(Part::router_bias, i, Kind::vector, name("ffn_gate_inp.bias"), 1, count);
        const auto inner_bias = [&](Part part, const char* own, int64_t first) {
            TensorEntry& e =
                cut_rows(table.add(part, i, Kind::vector, name(own), 1, width, count), Axis::expert_width);
            e.slabs = Axis::experts;
            std::vector<Range> rows{{first * width, (first + 1) * width}};
            if (of_ollama(h)) rows = alternate(width, first);
            e.sources.push_back({name("ffn_gate_up_exps.bias"), 1, 2 * width, count, std::move(rows), false});
        };
        inner_bias(Part::expert_gate_bias, "ffn_gate_exps.bias", 0);
        inner_bias(Part::expert_up_bias, "ffn_up_exps.bias", 1);
        TensorEntry& down =
            table.add(Part::expert_down_bias, i, Kind::vector, name("ffn_down_exps.bias"), 1, n, count);
        down.slabs = Axis::experts;
        down.rows = Axis::expert_sum;
    }
}

void forward(Pass& p) {
    pre_norm_layers(p, Activation::clamped_swiglu);
}

}  // namespace

const Architecture gpt_oss{"gpt-oss", read, tensors, forward};

}  // namespace coterie
