#include "vectors.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.h"
#include "workbench.h"

namespace coterie::test {

namespace {

using Json = nlohmann::json;

Json vectors() {
    std::ifstream file(TEST_DATA "/device/vectors.json");
    return Json::parse(file);
}
Floats floats(const Json& list) {
    return list.get<Floats>();
}

struct Trial {
    Device& device;
    double bound;
    void close(const std::string& what, const Floats& found, const Floats& expected) const {
        INFO(device.name() << ", " << what);
        CHECK(nmse(found, expected) <= bound);
    }
};

void norms(const Trial& t, const Json& j) {
    Bench b(t.device);
    const Rows x = b.rows(floats(j["x"]), 3, 20, 4), y = b.blank(3, 20);
    t.device.rms_norm(y, x, b.put(floats(j["gain"])), 1e-6f);
    t.close("rms_norm", b.read(y), floats(j["rms"]));
    t.device.l2_norm(x, 2, 1e-6f);
    t.close("l2_norm", b.read(x), floats(j["l2_of_halves"]));
}

void activations(const Trial& t, const Json& j) {
    Bench b(t.device);
    const auto rows = [&](const char* name) { return b.rows(floats(j[name]), 4, 16); };
    const std::pair<const char*, Activation> kinds[] = {{"silu", Activation::silu},
                                                        {"gelu_tanh", Activation::gelu_tanh},
                                                        {"clamped_swiglu", Activation::clamped_swiglu}};
    for (const auto& [name, kind] : kinds) {
        const Rows y = b.blank(4, 16);
        t.device.activate(y, rows("gate"), rows("up"), kind);
        t.close(name, b.read(y), floats(j[name]));
    }
    const Rows gated = rows("up"), capped = rows("gate");
    t.device.sigmoid_gate(gated, rows("gate"));
    t.close("sigmoid_gate", b.read(gated), floats(j["sigmoid_gate"]));
    t.device.softcap(capped, 30.0f);
    t.close("softcap", b.read(capped), floats(j["softcap"]));
}

void rope(const Trial& t, const Json& j) {
    Bench b(t.device);
    std::vector<Part> parts;  // a sequence per position
    for (const int32_t position : j["positions"]) parts.push_back({int32_t(parts.size()), position, 1});
    const Step step = step_of(parts, int32_t(parts.size()));
    t.device.begin(step);
    const int32_t heads = j["heads"], dim = j["dim"];
    Rope r;
    r.pairs = j["pairs"] == "adjacent" ? Rope::Pairs::adjacent : Rope::Pairs::halves;
    r.dimensions = j["dimensions"];
    r.frequencies = b.put(floats(j["frequencies"]));
    r.magnitude = j["magnitude"];
    const Rows x = b.rows(floats(j["x"]), step.rows(), heads * dim);
    t.device.rope(x, heads, r, step);
    t.close("rope " + j["pairs"].get<std::string>(), b.read(x), floats(j["y"]));
}

// The tokens come in pieces, together with another sequence whose keys must stay unseen.
void attention(const Trial& t, const Json& j) {
    Bench b(t.device);
    Attention a;
    a.heads = j["heads"], a.kv_heads = j["kv_heads"], a.key_dim = j["key_dim"], a.value_dim = j["value_dim"];
    a.window = j["window"], a.softcap = j["softcap"], a.scale = j["scale"];
    if (!j["sinks"].empty()) a.sinks = b.put(floats(j["sinks"]));
    CacheShape shape;
    shape.layers = {{1, 32, 32}, {a.kv_heads, a.key_dim, a.value_dim}};
    shape.key_type = shape.value_type = Type::F32;
    shape.page_tokens = 4;
    shape.pages = 16;
    const auto cache = t.device.make_cache(shape);
    const Floats q = floats(j["q"]), k = floats(j["k"]), v = floats(j["v"]);
    Floats found;
    int32_t done = 0;
    for (const int32_t count : {5, 1, 5}) {
        const Step step = step_of({{1, done, 2}, {0, done, count}}, 2);
        const auto cut = [&](const Floats& x, int32_t width) {
            Floats y(size_t(2 * width), 3.5f);  // the other sequence's
            y.insert(y.end(), x.begin() + done * width, x.begin() + (done + count) * width);
            return b.rows(y, 2 + count, width);
        };
        const Rows y = b.blank(2 + count, a.heads * a.value_dim);
        t.device.begin(step);
        t.device.store_kv(*cache, 1, cut(k, a.kv_heads * a.key_dim), cut(v, a.kv_heads * a.value_dim), step);
        t.device.attend(y, cut(q, a.heads * a.key_dim), *cache, 1, a, step);
        const Floats all = b.read(y);
        found.insert(found.end(), all.begin() + 2 * y.width, all.end());
        done += count;
    }
    REQUIRE(done == j["tokens"]);
    t.close("attend", found, floats(j["y"]));
}

void routing(const Trial& t, const Json& j) {
    Bench b(t.device);
    Router r;
    r.experts = j["experts"], r.used = j["used"], r.normalise = j["normalise"], r.scale = j["scale"];
    r.groups = j["groups"], r.groups_used = j["groups_used"];
    const std::string gating = j["gating"];
    r.gating = gating == "softmax"   ? Router::Gating::softmax
               : gating == "sigmoid" ? Router::Gating::sigmoid
                                     : Router::Gating::selected_softmax;
    if (!j["bias"].empty()) r.selection_bias = b.put(floats(j["bias"]));
    const int64_t rows = j["rows"];
    const Routing chosen = b.routing(rows, r.used);
    t.device.choose_experts(chosen, b.rows(floats(j["logits"]), rows, r.experts), r);
    INFO(t.device.name() << ", choose_experts " << gating << " " << r.groups);
    CHECK(b.read(chosen.experts, rows * r.used) == j["chosen"].get<std::vector<int32_t>>());
    t.close("weights of the chosen", b.read(Rows(chosen.weights, rows, r.used)), floats(j["weights"]));
}

void experts(const Trial& t, const Json& j) {
    Bench b(t.device);
    const int32_t count = j["experts"], used = j["used"], width = j["width"], inner = j["inner"];
    const int64_t rows = j["rows"];
    const Floats gates = floats(j["gate"]), ups = floats(j["up"]), downs = floats(j["down"]);
    Floats sum(size_t(rows * width));
    // The first experts live on one rank, the rest on another; the sum of both is the whole.
    for (const int32_t first : {0, 2}) {
        const int32_t last = first ? count : 2, size = width * inner;
        const auto part = [&](const Floats& x, int32_t each) {
            return Floats(x.begin() + first * each, x.begin() + last * each);
        };
        const Floats gate_part = part(gates, size), up_part = part(ups, size), down_part = part(downs, size);
        const auto gate = b.weight(gate_part, width, inner, last - first);
        const auto up = b.weight(up_part, width, inner, last - first);
        const auto down = b.weight(down_part, inner, width, last - first);
        const auto bias = [&](const char* name, int32_t each) { return b.put(part(floats(j[name]), each)); };
        const Routing routing =
            b.routing(j["chosen"].get<std::vector<int32_t>>(), floats(j["weights"]), used);
        const Rows x = b.rows(floats(j["x"]), rows, width), y = b.blank(rows, width);
        const Rows e = b.blank(rows * used, inner), scratch = b.blank(rows * used, inner);
        t.device.expert_gate_up(e, {gate.get(), bias("gate_bias", inner), first},
                                {up.get(), bias("up_bias", inner), first}, x, routing,
                                Activation::clamped_swiglu, scratch);
        t.device.expert_down_combine(y, {down.get(), bias("down_bias", width), first}, e, routing,
                                     b.blank(rows * used, width));
        const Floats found = b.read(y);
        std::transform(sum.begin(), sum.end(), found.begin(), sum.begin(), std::plus<>());
    }
    t.close("experts", sum, floats(j["y"]));
}

void convolution(const Trial& t, const Json& j) {
    Bench b(t.device);
    const int32_t channels = j["channels"], taps = j["taps"];
    StateShape shape;
    shape.layers = {{channels, taps, 1, 1, 1}};
    shape.slots = 2;
    const auto states = t.device.make_states(shape);
    const Floats x = floats(j["x"]);
    Floats found;
    int32_t done = 0;
    for (const int32_t count : {1, 2, 6}) {
        const Step step = step_of({{1, done, 2}, {0, done, count}}, 2);
        Floats rows(size_t(2 * channels), 7.0f);
        rows.insert(rows.end(), x.begin() + done * channels, x.begin() + (done + count) * channels);
        const Rows y = b.blank(2 + count, channels);
        t.device.begin(step);
        t.device.convolve(y, b.rows(rows, 2 + count, channels), b.put(floats(j["w"])), *states, 0, step);
        const Floats all = b.read(y);
        found.insert(found.end(), all.begin() + 2 * channels, all.end());
        done += count;
    }
    REQUIRE(done == j["tokens"]);
    t.close("convolve", found, floats(j["y"]));
}

void delta(const Trial& t, const Json& j) {
    Bench b(t.device);
    DeltaRule rule;
    rule.key_heads = j["key_heads"], rule.value_heads = j["value_heads"], rule.key_dim = j["key_dim"];
    rule.value_dim = j["value_dim"], rule.tiled = j["tiled"], rule.query_scale = j["query_scale"];
    const int64_t tokens = j["tokens"];
    StateShape shape;
    shape.layers = {{3, 2, rule.value_heads, rule.key_dim, rule.value_dim}};
    shape.slots = 3;
    const auto states = t.device.make_states(shape);
    const Rows decay = b.rows(floats(j["alpha"]), tokens, rule.value_heads);
    const Rows beta = b.rows(floats(j["beta"]), tokens, rule.value_heads);
    t.device.delta_gates(decay, beta, b.put(floats(j["dt"])), b.put(floats(j["a"])));
    t.close("decay", b.read(decay), floats(j["g"]));
    t.close("beta", b.read(beta), floats(j["sigmoid"]));
    Floats found;
    int32_t done = 0;
    for (const int32_t count : {1, 4, 6}) {
        const Step step = step_of({{0, done, count, 2}});
        const auto cut = [&](const Floats& x, int64_t width) {
            return b.rows(Floats(x.begin() + done * width, x.begin() + (done + count) * width), count, width);
        };
        const int64_t keys = rule.key_heads * rule.key_dim, values = rule.value_heads * rule.value_dim;
        const Rows y = b.blank(count, values);
        t.device.begin(step);
        t.device.delta_rule(y, cut(floats(j["q"]), keys), cut(floats(j["k"]), keys),
                            cut(floats(j["v"]), values), cut(b.read(decay), rule.value_heads),
                            cut(b.read(beta), rule.value_heads), *states, 0, rule, step);
        const Floats part = b.read(y);
        found.insert(found.end(), part.begin(), part.end());
        done += count;
    }
    REQUIRE(done == tokens);
    t.close("delta_rule", found, floats(j["y"]));
    Floats state(shape.slot_bytes() / sizeof(float));
    t.device.read_state(*states, 2, reinterpret_cast<std::byte*>(state.data()));
    t.close("state", Floats(state.begin() + 3, state.end()), floats(j["state"]));
}

}  // namespace

void check_vectors(Device& device, double bound) {
    const Trial t{device, bound};
    const Json all = vectors();
    norms(t, all["norms"]);
    activations(t, all["activations"]);
    for (const Json& j : all["rope"]) rope(t, j);
    for (const Json& j : all["attention"]) attention(t, j);
    for (const Json& j : all["routing"]) routing(t, j);
    experts(t, all["experts"]);
    convolution(t, all["convolution"]);
    for (const Json& j : all["delta"]) delta(t, j);
}

}  // namespace coterie::test
