// Operations that know positions: rope, attention, convolution and the delta rule.
#include <cmath>

#include "catch.h"
#include "conformance.h"

namespace coterie::test {

namespace {

Floats random_floats(uint64_t seed, int64_t n, Data data = Data::normal, float size = 1) {
    Random random(seed);
    return numbers(random, n, data, size);
}

void append(Floats& to, const Floats& more) {
    to.insert(to.end(), more.begin(), more.end());
}

Rope rope_of(Bench& b, Rope::Pairs pairs, int32_t dimensions, float magnitude = 1.0f) {
    Floats frequencies;
    for (int32_t i = 0; i < dimensions / 2; ++i)
        frequencies.push_back(float(std::pow(1e6, -2.0 * i / dimensions)));
    return {pairs, dimensions, b.put(frequencies), magnitude};
}

}  // namespace

void Conformance::rope() {
    struct Case {
        int32_t heads, dim, dimensions;
        float magnitude;
    };
    for (const Case& c : {Case{1, 2, 2, 1.0f},
                          {3, 64, 64, 1.0f},
                          {2, 256, 64, 1.0f},
                          {5, 80, 80, 1.3f},
                          {4, 128, 0, 1.0f},
                          {7, 22, 6, 0.7f}})
        for (const Rope::Pairs pairs : {Rope::Pairs::adjacent, Rope::Pairs::halves})
            compare(fmt::format("rope {} x {}, {} turned", c.heads, c.dim, c.dimensions), bounds.rope,
                    [&](Bench& b) {
                        Step step = step_of({{0, 0, 9}, {1, 99990, 10}, {2, 4095, 1}}, 3);
                        const int32_t width = c.heads * c.dim;
                        const Rows x = b.rows(random_floats(1, 20 * width), 20, width, 6);
                        b.device.begin(step);
                        b.device.rope(x, c.heads, rope_of(b, pairs, c.dimensions, c.magnitude), step);
                        return b.read(x);
                    });
}

void Conformance::attention() {
    struct Case {
        int32_t heads, kv_heads, key_dim, value_dim, window;
        bool sinks;
        float softcap;
        int32_t group, group_offset;
    };
    const Case cases[] = {{8, 2, 64, 64, 0, false, 0, 0, 0},    {4, 4, 128, 128, 0, false, 0, 0, 0},
                          {16, 1, 64, 64, 0, false, 0, 0, 0},   {6, 2, 96, 32, 40, false, 0, 0, 0},
                          {4, 2, 256, 256, 0, false, 30, 0, 0}, {8, 1, 64, 64, 16, true, 0, 0, 0},
                          {3, 1, 32, 64, 1, true, 0, 0, 0},     {5, 3, 64, 64, 0, false, 0, 4, 3},
                          {2, 1, 192, 128, 0, false, 0, 8, 5}};
    for (const Case& c : cases)
        for (const Type type : {Type::F32, Type::F16, Type::Q8_0})
            for (const Data data : {Data::normal, Data::outliers, Data::zeros})
                for (const int32_t page_tokens : {16, 64}) {
                    // fused: 0 store_kv, 1 norm_rope_store, 2 its body.
                    const auto work = [&](int fused) {
                        return [&, fused](Bench& b) {
                            Device& d = b.device;
                            Attention a;
                            a.heads = c.heads, a.kv_heads = c.kv_heads, a.key_dim = c.key_dim,
                            a.value_dim = c.value_dim;
                            a.scale = 1 / std::sqrt(float(c.key_dim)), a.window = c.window,
                            a.softcap = c.softcap;
                            a.group = c.group, a.group_offset = c.group_offset;
                            if (c.sinks) a.sinks = b.put(random_floats(3, c.heads, Data::normal, 3));
                            const int32_t per_sequence = 192 / page_tokens;
                            CacheShape shape;
                            shape.layers = {{2, 32, 32}, {c.kv_heads, c.key_dim, c.value_dim}, {1, 64, 32}};
                            shape.key_type = shape.value_type = type;
                            shape.page_tokens = page_tokens;
                            shape.pages = 3 * per_sequence + 1;
                            const auto cache = d.make_cache(shape);
                            const Rope rope = rope_of(b, Rope::Pairs::halves, c.key_dim / 2);
                            const float* q_gain = b.put(random_floats(4, c.key_dim));
                            const float* k_gain = b.put(random_floats(5, c.key_dim));
                            Floats all;
                            uint64_t seed = 10;
                            // Prompts of different lengths, a decode step, a prompt's rest beside decodes.
                            const std::vector<std::vector<Part>> steps = {
                                {{1, 0, 45}, {0, 0, 3}},
                                {{2, 0, 1}, {1, 45, 31}},
                                {{0, 3, 1}, {1, 76, 1}, {2, 1, 1}},
                                {{2, 2, 1}, {0, 4, 20}, {1, 77, 1}}};
                            for (const std::vector<Part>& parts : steps) {
                                const Step step = step_of(parts, 3, per_sequence, page_tokens);
                                const int64_t rows = step.rows();
                                const auto in = [&](int64_t width, int64_t gap) {
                                    return b.rows(random_floats(++seed, rows * width, data), rows, width,
                                                  gap);
                                };
                                const bool plain = fused == 0;
                                const Rows q = in(c.heads * c.key_dim, plain ? 32 : 0);
                                const Rows k = in(c.kv_heads * c.key_dim, plain ? 32 : 0);
                                const Rows v = in(c.kv_heads * c.value_dim, plain ? 32 : 0);
                                const Rows y = b.blank(rows, c.heads * c.value_dim, plain ? 32 : 0);
                                d.begin(step);
                                if (plain) d.store_kv(*cache, 1, k, v, step);
                                if (fused == 1)
                                    d.norm_rope_store(q, k, v, q_gain, k_gain, 1e-6f, rope, a, *cache, 1,
                                                      step);
                                if (fused == 2)
                                    d.Device::norm_rope_store(q, k, v, q_gain, k_gain, 1e-6f, rope, a, *cache,
                                                              1, step);
                                d.attend(y, q, *cache, 1, a, step);
                                append(all, b.read(y));
                            }
                            // Pages copied, and saved and restored elsewhere, hold the same.
                            Step step = step_of({{1, 78, 1}}, 3, per_sequence, page_tokens);
                            std::vector<std::byte> page(shape.page_bytes()), other(page.size());
                            int32_t& first = step.pages[size_t(per_sequence)];
                            d.copy_page(*cache, first, shape.pages - 1);
                            d.read_page(*cache, first, page.data());
                            d.write_page(*cache, first, other.data());
                            first = shape.pages - 1;
                            int32_t& second = step.pages[size_t(per_sequence) + 1];
                            d.read_page(*cache, second, page.data());
                            d.write_page(*cache, second, other.data());
                            second = step.pages[0];  // of sequence 0, which is done
                            d.write_page(*cache, second, page.data());
                            const Rows k =
                                b.rows(random_floats(6, c.kv_heads * c.key_dim), 1, c.kv_heads * c.key_dim);
                            const Rows v = b.rows(random_floats(7, c.kv_heads * c.value_dim), 1,
                                                  c.kv_heads * c.value_dim);
                            const Rows q =
                                b.rows(random_floats(8, c.heads * c.key_dim), 1, c.heads * c.key_dim);
                            const Rows y = b.blank(1, c.heads * c.value_dim);
                            d.begin(step);
                            d.store_kv(*cache, 1, k, v, step);
                            d.attend(y, q, *cache, 1, a, step);
                            append(all, b.read(y));
                            return all;
                        };
                    };
                    const std::string name = fmt::format(
                        "{} of {} heads {} + {}, window {}, {}, {}, pages of {}", c.heads, c.kv_heads,
                        c.key_dim, c.value_dim, c.window, type_name(type), name_of(data), page_tokens);
                    const double bound = type == Type::Q8_0 ? bounds.attention_q8 : bounds.attention;
                    if (page_tokens == 64 && data != Data::normal) continue;
                    compare("attend " + name, bound, work(0));
                    if (data != Data::normal || page_tokens != 16) continue;
                    compare("norm_rope_store " + name, std::max(bound, 4 * bounds.rope), work(1));
                    agree("norm_rope_store " + name, type == Type::Q8_0 ? bound : bounds.fused, work(1),
                          work(2));
                }
}

void Conformance::convolution() {
    for (const int32_t channels : {1, 6, 33, 512})
        for (const int32_t taps : {1, 2, 3, 4})
            for (const Data data : {Data::normal, Data::outliers, Data::zeros})
                compare(fmt::format("convolve {} channels, {} taps, {}", channels, taps, name_of(data)),
                        bounds.elements, [=](Bench& b) {
                            StateShape shape;
                            shape.layers = {{3, 3, 1, 2, 2}, {channels, taps, 1, 1, 1}};
                            shape.slots = 4;
                            const auto states = b.device.make_states(shape);
                            const float* w = b.put(random_floats(1, channels * taps));
                            Floats all;
                            uint64_t seed = 5;
                            for (const auto& parts : {std::vector<Part>{{0, 0, 5, 3}, {1, 0, 1, 0}},
                                                      {{1, 1, 1, 0}},
                                                      {{1, 2, 2, 0}, {0, 5, 1, 3}, {2, 0, 7, 1}}}) {
                                const Step step = step_of(parts, 3);
                                const Rows x = b.rows(random_floats(++seed, step.rows() * channels, data),
                                                      step.rows(), channels, 2);
                                const Rows y = b.blank(step.rows(), channels, 4);
                                b.device.begin(step);
                                b.device.convolve(y, x, w, *states, 1, step);
                                append(all, b.read(y));
                            }
                            for (int32_t slot = 0; slot < 4; ++slot) {
                                Floats state(shape.slot_bytes() / sizeof(float));
                                b.device.read_state(*states, slot,
                                                    reinterpret_cast<std::byte*>(state.data()));
                                append(all, state);
                            }
                            return all;
                        });
}

void Conformance::delta() {
    for (const int32_t heads : {1, 9})
        for (const Data data : all_data)
            compare(fmt::format("delta_gates of {}, {}", heads, name_of(data)), bounds.elements,
                    [=](Bench& b) {
                        const Rows decay = b.rows(random_floats(1, 11 * heads, data, 4), 11, heads, 1);
                        const Rows beta = b.rows(random_floats(2, 11 * heads, data, 4), 11, heads, 1);
                        Floats a = random_floats(3, heads);
                        for (float& value : a) value = -std::exp(value);
                        b.device.delta_gates(decay, beta, b.put(random_floats(4, heads)), b.put(a));
                        Floats all = b.read(decay);
                        append(all, b.read(beta));
                        return all;
                    });
    struct Case {
        int32_t key_heads, value_heads, key_dim, value_dim;
        bool tiled;
    };
    for (const Case& c :
         {Case{2, 6, 128, 128, true}, {2, 4, 128, 128, false}, {1, 1, 16, 24, true}, {3, 3, 64, 32, false}})
        compare(fmt::format("delta_rule {} of {} heads, {} x {}", c.key_heads, c.value_heads, c.key_dim,
                            c.value_dim),
                bounds.delta, [&](Bench& b) {
                    StateShape shape;
                    shape.layers = {{4, 4, c.value_heads, c.key_dim, c.value_dim},
                                    {0, 1, c.value_heads, c.key_dim, c.value_dim}};
                    shape.slots = 3;
                    const auto states = b.device.make_states(shape);
                    DeltaRule rule{c.key_heads, c.value_heads, c.key_dim,
                                   c.value_dim, c.tiled,       1 / std::sqrt(float(c.key_dim))};
                    Floats all;
                    uint64_t seed = 20;
                    for (const auto& parts : {std::vector<Part>{{0, 0, 130, 2}, {1, 0, 1, 0}},
                                              {{1, 1, 1, 0}, {0, 130, 1, 2}},
                                              {{1, 2, 64, 0}, {0, 131, 7, 2}, {2, 0, 65, 1}}}) {
                        const Step step = step_of(parts, 3, 60);
                        const int64_t rows = step.rows();
                        // q, k and v are parts of the same rows, as after the convolution.
                        const int64_t keys = c.key_heads * c.key_dim, values = c.value_heads * c.value_dim;
                        const Rows qkv = b.rows(random_floats(++seed, rows * (2 * keys + values)), rows,
                                                2 * keys + values);
                        Rows q(qkv.data, rows, keys), k(qkv.data + keys, rows, keys),
                            v(qkv.data + 2 * keys, rows, values);
                        q.stride = k.stride = v.stride = qkv.stride;
                        Floats decays = random_floats(++seed, rows * c.value_heads, Data::outliers, 0.3f),
                               betas;
                        for (float& value : decays) value = -std::fabs(value);
                        for (size_t i = 0; i < decays.size(); ++i) betas.push_back(float(i % 8) / 7);
                        const Rows decay = b.rows(decays, rows, c.value_heads, 2),
                                   beta = b.rows(betas, rows, c.value_heads, 2);
                        const Rows y = b.blank(rows, values);
                        b.device.begin(step);
                        b.device.l2_norm(q, c.key_heads, 1e-6f);
                        b.device.l2_norm(k, c.key_heads, 1e-6f);
                        b.device.delta_rule(y, q, k, v, decay, beta, *states, 0, rule, step);
                        append(all, b.read(y));
                    }
                    b.device.copy_state(*states, 1, 0);
                    b.device.clear_state(*states, 1);
                    Floats state(shape.slot_bytes() / sizeof(float));
                    for (int32_t slot = 0; slot < 3; ++slot) {
                        b.device.read_state(*states, slot, reinterpret_cast<std::byte*>(state.data()));
                        append(all, state);
                    }
                    b.device.write_state(*states, 1, reinterpret_cast<const std::byte*>(state.data()));
                    b.device.read_state(*states, 1, reinterpret_cast<std::byte*>(state.data()));
                    append(all, state);
                    return all;
                });
}

}  // namespace coterie::test
