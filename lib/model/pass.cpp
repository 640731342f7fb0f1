#include "model/pass.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/failure.h"

namespace coterie {
namespace {

constexpr uint64_t scratch_alignment = 64;

}  // namespace

void* Scratch::take(uint64_t bytes) {
    const uint64_t begin = used_;
    used_ += (bytes + scratch_alignment - 1) / scratch_alignment * scratch_alignment;
    if (used_ > capacity_)
        fail(Status::internal, "a step needs {} bytes of scratch, {} were planned", used_, capacity_);
    peak_ = std::max(peak_, used_);
    return base_ + begin;
}

Rows Scratch::rows(int64_t rows, int64_t width) {
    return Rows(static_cast<float*>(take(uint64_t(rows * width) * sizeof(float))), rows, width);
}

Routing Scratch::routing(int64_t rows, int32_t used) {
    Routing r;
    r.experts = static_cast<int32_t*>(take(uint64_t(rows * used) * sizeof(int32_t)));
    r.weights = static_cast<float*>(take(uint64_t(rows * used) * sizeof(float)));
    r.rows = rows;
    r.used = used;
    return r;
}

const Weight& Pass::matrix(Part part, int32_t layer) const {
    const Weight* weight = weights.matrix(part, layer);
    if (!weight) fail(Status::internal, "{} of layer {} was not loaded", part_name(part), layer);
    return *weight;
}

int32_t Pass::cache_layer(int32_t layer) const {
    int32_t index = 0;
    for (int64_t i = share.layers.begin; i < layer; ++i) index += h.recurrent[size_t(i)] ? 0 : 1;
    return index;
}

int32_t Pass::state_layer(int32_t layer) const {
    int32_t index = 0;
    for (int64_t i = share.layers.begin; i < layer; ++i) index += h.recurrent[size_t(i)] ? 1 : 0;
    return index;
}

Rows begin_layers(Pass& p) {
    Rows x = p.rows(p.h.embedding);
    if (!p.share.has_embedding) {
        p.communicator.receive(x, p.share.rank - 1);
        return x;
    }
    if (const Weight* table = p.weights.matrix(Part::token_embedding))
        p.device.embed(x, *table, p.step, p.h.embedding_scale, p.share.vocabulary.begin);
    else
        p.device.clear(x);
    if (p.share.sums()) p.communicator.all_reduce_sum(x);
    return x;
}

void first_norm(Pass& p, Rows h, Rows x) {
    const int32_t first = int32_t(p.share.layers.begin);
    if (first < p.share.layers.end)
        p.device.rms_norm(h, x, p.vector(Part::attention_norm, first), p.h.norm_eps);
}

void sum_add_norm(Pass& p, Rows x, Rows y, Rows h, const float* gain) {
    if (!gain) {
        if (p.share.sums()) p.communicator.all_reduce_sum(y);
        p.device.add(x, y);
    } else if (p.share.sums()) {
        p.communicator.all_reduce_add_rms_norm(p.device, x, y, h, gain, p.h.norm_eps);
    } else {
        p.device.add_rms_norm(x, y, h, gain, p.h.norm_eps);
    }
}

void sum_norm_add_norm(Pass& p, Rows x, Rows y, Rows h, const float* y_gain, const float* gain) {
    if (p.share.sums()) p.communicator.all_reduce_sum(y);
    p.device.rms_norm(y, y, y_gain, p.h.norm_eps);
    if (gain)
        p.device.add_rms_norm(x, y, h, gain, p.h.norm_eps);
    else
        p.device.add(x, y);
}

const float* next_norm(const Pass& p, int32_t layer) {
    if (layer + 1 < p.share.layers.end) return p.vector(Part::attention_norm, layer + 1);
    return nullptr;  // after the last layer only the wanted rows are normed, in end_layers()
}

// Normed rows -> logits.
static void output_head(Pass& p, Rows h, Rows logits) {
    const Scope scope(p);
    if (p.share.sums()) {
        Rows mine = p.scratch.rows(h.rows, p.share.vocabulary.end - p.share.vocabulary.begin);
        if (mine.width > 0) p.device.linear(mine, p.matrix(Part::output), h, p.vector(Part::output_bias));
        p.communicator.all_gather(logits, mine);
    } else {
        p.device.linear(logits, p.matrix(Part::output), h, p.vector(Part::output_bias));
    }
    if (p.h.logit_softcap > 0.0f) p.device.softcap(logits, p.h.logit_softcap);
}

void end_layers(Pass& p, Rows x, Rows h) {
    if (!p.share.has_head) {
        p.communicator.send(x, p.share.rank + 1);
        return;
    }
    if (p.step.outputs.empty()) return;
    Rows wanted(h.data, int64_t(p.step.outputs.size()), p.h.embedding);
    p.device.select_rows(wanted, x, p.step);
    p.device.rms_norm(wanted, wanted, p.vector(Part::output_norm), p.h.norm_eps);
    if (!p.tap) return output_head(p, wanted, p.logits);
    if (p.tap->hidden) return p.tap->take(0, wanted);
    for (int64_t first = 0; first < wanted.rows; first += p.logits.rows) {
        const int64_t n = std::min(p.logits.rows, wanted.rows - first);
        const Rows logits(p.logits.data, n, p.logits.width);
        output_head(p, Rows(wanted.row(first), n, wanted.width), logits);
        p.tap->take(first, logits);
    }
}

void pre_norm_layers(Pass& p, Activation activation) {
    Rows x = begin_layers(p), h = p.rows(p.h.embedding), y = p.rows(p.h.embedding);
    first_norm(p, h, x);
    for (int32_t i = int32_t(p.share.layers.begin); i < p.share.layers.end; ++i) {
        if (p.h.recurrent[size_t(i)])
            delta_net(p, i, h, y);
        else
            attention(p, i, h, y);
        sum_add_norm(p, x, y, h, p.vector(Part::ffn_norm, i));
        if (p.weights.matrix(Part::router, i))
            experts(p, i, h, y, activation);
        else
            feed_forward(p, i, h, y, activation);
        sum_add_norm(p, x, y, h, next_norm(p, i));
    }
    end_layers(p, x, h);
}

void attention(Pass& p, int32_t layer, Rows h, Rows y) {
    const Scope scope(p);
    Attention a = local_attention(p.h, p.share, layer);
    if (a.heads == 0) return p.device.clear(y);
    a.sinks = p.vector(Part::attention_sinks, layer);
    const Rope& rope = p.h.windowed[size_t(layer)] ? p.weights.rope_local : p.weights.rope;
    const int32_t slot = p.cache_layer(layer);

    Rows q = p.rows(int64_t(a.heads) * a.key_dim), k = p.rows(int64_t(a.kv_heads) * a.key_dim);
    Rows v = p.rows(int64_t(a.kv_heads) * a.value_dim);
    std::array<Projection, 4> in{
        Projection{q, &p.matrix(Part::query, layer), p.vector(Part::query_bias, layer)},
        Projection{k, &p.matrix(Part::key, layer), p.vector(Part::key_bias, layer)},
        Projection{v, &p.matrix(Part::value, layer), p.vector(Part::value_bias, layer)},
        Projection{},
    };
    const Weight* gate = p.weights.matrix(Part::query_gate, layer);
    if (gate) in[3] = {p.rows(int64_t(a.heads) * a.value_dim), gate, nullptr};
    p.device.linear_many({in.data(), gate ? size_t(4) : size_t(3)}, h);
    p.device.norm_rope_store(q, k, v, p.vector(Part::query_norm, layer), p.vector(Part::key_norm, layer),
                             p.h.norm_eps, rope, a, *p.cache, slot, p.step);
    Rows o = p.rows(int64_t(a.heads) * a.value_dim);
    p.device.attend(o, q, *p.cache, slot, a, p.step);
    if (gate) p.device.sigmoid_gate(o, in[3].y);
    p.device.linear(y, p.matrix(Part::attention_output, layer), o,
                    p.vector(Part::attention_output_bias, layer));
}

void feed_forward(Pass& p, int32_t layer, Rows h, Rows y, Activation activation) {
    const Scope scope(p);
    const Range width = p.share.layer[size_t(layer)].feed_forward;
    if (width.begin == width.end) return p.device.clear(y);
    const Weight &gate = p.matrix(Part::ffn_gate, layer), &up = p.matrix(Part::ffn_up, layer);
    const float *gate_bias = p.vector(Part::ffn_gate_bias, layer),
                *up_bias = p.vector(Part::ffn_up_bias, layer);
    Rows inner = p.rows(gate.out), other = p.rows(gate.out);
    if (gate_bias || up_bias) {
        p.device.linear(inner, gate, h, gate_bias);
        p.device.linear(other, up, h, up_bias);
        p.device.activate(inner, inner, other, activation);
    } else {
        p.device.gate_up(inner, gate, up, h, activation, other);
    }
    p.device.linear(y, p.matrix(Part::ffn_down, layer), inner, p.vector(Part::ffn_down_bias, layer));
}

// The part of the sum over the chosen experts that this rank holds.
static void routed_experts(Pass& p, int32_t layer, Rows h, Rows y, Activation activation) {
    const LayerShare& mine = p.share.layer[size_t(layer)];
    if (mine.experts.begin == mine.experts.end || mine.expert_width.begin == mine.expert_width.end)
        return p.device.clear(y);
    const Scope scope(p);
    Router router = p.h.router;
    router.selection_bias = p.vector(Part::selection_bias, layer);
    const int64_t rows = p.step.rows(), chosen = rows * router.used;

    Rows scores = p.rows(router.experts);
    p.device.linear(scores, p.matrix(Part::router, layer), h, p.vector(Part::router_bias, layer));
    Routing routing = p.scratch.routing(rows, router.used);
    p.device.choose_experts(routing, scores, router);

    const ExpertWeight gate = p.weights.experts(Part::expert_gate, Part::expert_gate_bias, layer, p.share);
    const ExpertWeight up = p.weights.experts(Part::expert_up, Part::expert_up_bias, layer, p.share);
    const ExpertWeight down = p.weights.experts(Part::expert_down, Part::expert_down_bias, layer, p.share);
    COTERIE_CHECK(gate.weight && up.weight && down.weight);
    Rows e = p.scratch.rows(chosen, gate.weight->out), other = p.scratch.rows(chosen, gate.weight->out);
    p.device.expert_gate_up(e, gate, up, h, routing, activation, other);
    Rows outs = p.scratch.rows(chosen, y.width);
    p.device.expert_down_combine(y, down, e, routing, outs);
}

void experts(Pass& p, int32_t layer, Rows h, Rows y, Activation activation) {
    const Scope scope(p);
    routed_experts(p, layer, h, y, activation);
    const Weight* shared = p.weights.matrix(Part::shared_gate, layer);
    if (!shared) return;
    Rows inner = p.rows(shared->out), other = p.rows(shared->out), z = p.rows(y.width);
    p.device.gate_up(inner, *shared, p.matrix(Part::shared_up, layer), h, activation, other);
    p.device.linear(z, p.matrix(Part::shared_down, layer), inner, nullptr);
    if (const Weight* shared_router = p.weights.matrix(Part::shared_router, layer)) {
        Rows g = p.rows(1);
        p.device.linear(g, *shared_router, h, nullptr);
        p.device.sigmoid_gate(z, g);
    }
    p.device.add(y, z);
}

void delta_net(Pass& p, int32_t layer, Rows h, Rows y) {
    const Scope scope(p);
    const Hyperparameters& n = p.h;
    const int32_t slot = p.state_layer(layer);
    DeltaRule rule;
    const Range keys = p.share.layer[size_t(layer)].key_heads;
    if (keys.begin == keys.end) return p.device.clear(y);
    rule.key_heads = int32_t(keys.end - keys.begin);
    rule.value_heads = rule.key_heads * (n.value_heads / n.key_heads);
    rule.key_dim = rule.value_dim = n.state_dim;
    rule.tiled = n.tiled;
    rule.query_scale = 1.0f / std::sqrt(float(n.state_dim));
    const int64_t key_width = int64_t(rule.key_heads) * n.state_dim,
                  value_width = int64_t(rule.value_heads) * n.state_dim;

    Rows u = p.rows(2 * key_width + value_width), z = p.rows(value_width);
    Rows decay = p.rows(rule.value_heads), beta = p.rows(rule.value_heads);
    const std::array<Projection, 4> in{Projection{u, &p.matrix(Part::delta_qkv, layer), nullptr},
                                       Projection{z, &p.matrix(Part::delta_z, layer), nullptr},
                                       Projection{decay, &p.matrix(Part::delta_alpha, layer), nullptr},
                                       Projection{beta, &p.matrix(Part::delta_beta, layer), nullptr}};
    p.device.linear_many(in, h);
    p.device.delta_gates(decay, beta, p.vector(Part::delta_dt, layer), p.vector(Part::delta_a, layer));
    Rows c = p.rows(u.width);
    p.device.convolve(c, u, p.vector(Part::delta_taps, layer), *p.states, slot, p.step);

    // q | k | v side by side in each row of c.
    const auto piece = [&](int64_t begin, int64_t width) {
        Rows r(c.data + begin, c.rows, width);
        r.stride = c.stride;
        return r;
    };
    p.device.l2_norm(piece(0, 2 * key_width), 2 * rule.key_heads, n.norm_eps);
    Rows q = piece(0, key_width), k = piece(key_width, key_width), v = piece(2 * key_width, value_width);
    Rows o = p.rows(value_width);
    p.device.delta_rule(o, q, k, v, decay, beta, *p.states, slot, rule, p.step);
    p.device.rms_norm(o.split(rule.value_heads), o.split(rule.value_heads), p.vector(Part::delta_norm, layer),
                      n.norm_eps);
    p.device.activate(o, z, o, Activation::silu);
    p.device.linear(y, p.matrix(Part::delta_output, layer), o, nullptr);
}

}  // namespace coterie
