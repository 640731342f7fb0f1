// The CPU device against numbers that are not ours, and against the reference device, for every instruction
// set.
#include <cmath>

#include "base/half.h"
#include "catch.h"
#include "device/cpu/cpu_device.h"
#include "device/reference/reference_device.h"
#include "quant/encode.h"
#include "vectors.h"
#include "workbench.h"

using namespace coterie;
using namespace coterie::test;

namespace {

CpuOptions options(cpu::Isa isa, int threads) {
    CpuOptions o;
    o.threads = threads;
    o.isa = cpu::isa_name(isa);
    return o;
}

// The same calls on the reference device and on a CPU device.
template <typename Calls>
void compare(Device& device, double bound, const std::string& what, Calls calls) {
    ReferenceDevice reference;
    Bench expected(reference), found(device);
    const Floats x = calls(expected), y = calls(found);
    INFO(device.description() << ": " << what);
    CHECK(nmse(y, x) <= bound);
}

// Queries, keys and values of several sequences, some with a long past that is stored chunk by chunk.
Floats attend(Bench& b, Type type, Attention a, int32_t page_tokens,
              const std::vector<std::vector<Part>>& steps) {
    Random random(uint64_t(type) + 3);
    CacheShape shape;
    shape.layers = {{2, 32, 64}, {a.kv_heads, a.key_dim, a.value_dim}};
    shape.key_type = shape.value_type = type;
    shape.page_tokens = page_tokens;
    const int32_t each = 1700 / page_tokens + 1;
    shape.pages = 3 * each;
    const auto cache = b.device.make_cache(shape);
    if (a.sinks) a.sinks = b.put(Floats{0.5f, -1, 2, 0, 0, 1, 3, -3});
    Floats all;
    for (const auto& parts : steps) {
        const Step step = step_of(parts, 3, each, page_tokens);
        const Rows q =
            b.rows(numbers(random, step.rows() * a.heads * a.key_dim), step.rows(), a.heads * a.key_dim, 3);
        const Rows k = b.rows(numbers(random, step.rows() * a.kv_heads * a.key_dim), step.rows(),
                              a.kv_heads * a.key_dim, 5);
        const Rows v = b.rows(numbers(random, step.rows() * a.kv_heads * a.value_dim), step.rows(),
                              a.kv_heads * a.value_dim);
        const Rows y = b.blank(step.rows(), a.heads * a.value_dim, 2);
        b.device.begin(step);
        b.device.store_kv(*cache, 1, k, v, step);
        b.device.attend(y, q, *cache, 1, a, step);
        const Floats out = b.read(y);
        all.insert(all.end(), out.begin(), out.end());
    }
    return all;
}

}  // namespace

TEST_CASE("the CPU device gives what PyTorch and transformers give", "[cpu]") {
    for (cpu::Isa isa : cpu::usable_isas())
        for (int threads : {1, 2, 3}) {
            CpuDevice device(options(isa, threads));
            check_vectors(device, 1e-11);
        }
}

TEST_CASE("attention on the CPU is the reference device's", "[cpu]") {
    const std::vector<std::vector<Part>> steps = {{{0, 0, 70}, {1, 0, 3}},
                                                  {{1, 3, 1}, {0, 70, 1}, {2, 0, 33}},
                                                  {{0, 71, 1}},
                                                  {{0, 72, 65}, {1, 4, 40}}};
    for (cpu::Isa isa : cpu::usable_isas())
        for (Type type : {Type::F32, Type::F16, Type::Q8_0})
            for (int32_t page_tokens : {16, 64, 20}) {
                CpuDevice device(options(isa, 2));
                Attention a;
                a.heads = 8, a.kv_heads = 2, a.key_dim = 64, a.value_dim = 32, a.scale = 0.2f;
                // Q8_0 rounds half to even here and away from zero there: a key differs now and then by a
                // step.
                const double bound = type == Type::Q8_0 ? 1e-6 : 1e-11;
                compare(device, bound, "plain",
                        [&](Bench& b) { return attend(b, type, a, page_tokens, steps); });
                a.window = 50, a.softcap = 5;
                const float sinks = 0;
                a.sinks = &sinks;
                compare(device, bound, "window",
                        [&](Bench& b) { return attend(b, type, a, page_tokens, steps); });
                a = {};
                a.heads = 5, a.kv_heads = 2, a.key_dim = 32, a.value_dim = 64, a.group = 4,
                a.group_offset = 1;
                compare(device, bound, "part of a group",
                        [&](Bench& b) { return attend(b, type, a, page_tokens, steps); });
            }
}

TEST_CASE("attention over a long context is split over tokens and joined", "[cpu]") {
    const std::vector<std::vector<Part>> steps = {
        {{0, 0, 800}}, {{0, 800, 800}}, {{0, 1600, 1}, {1, 0, 1}}, {{0, 1601, 1}}};
    Attention a;
    a.heads = 2, a.kv_heads = 1, a.key_dim = 32, a.value_dim = 32, a.scale = 0.2f;
    for (int threads : {1, 3}) {
        CpuDevice device(options(cpu::best_isa(), threads));
        compare(device, 1e-11, "long", [&](Bench& b) { return attend(b, Type::F16, a, 16, steps); });
        a.window = 600;
        compare(device, 1e-11, "long, window", [&](Bench& b) { return attend(b, Type::F16, a, 16, steps); });
    }
}

TEST_CASE("the recurrent operations on the CPU are the reference device's", "[cpu]") {
    for (cpu::Isa isa : cpu::usable_isas()) {
        CpuDevice device(options(isa, 2));
        for (bool tiled : {true, false})
            compare(device, 1e-10, "delta", [&](Bench& b) {
                Random random(7);
                DeltaRule rule;
                rule.key_heads = 2, rule.value_heads = 4, rule.key_dim = 40, rule.value_dim = 24,
                rule.tiled = tiled;
                rule.query_scale = 0.3f;
                StateShape shape;
                const int32_t channels = 2 * 2 * 40 + 4 * 24;
                shape.layers = {{8, 3, 1, 8, 8}, {channels, 4, 4, 40, 24}};
                shape.slots = 3;
                const auto states = b.device.make_states(shape);
                Floats all;
                for (const std::vector<Part>& parts :
                     {std::vector<Part>{{0, 0, 5}, {1, 0, 1}}, {{1, 1, 2}, {0, 5, 1}}, {{0, 6, 90}}}) {
                    const Step step = step_of(parts, 2, 64);
                    b.device.begin(step);
                    const int64_t n = step.rows();
                    const Rows x = b.rows(numbers(random, n * channels), n, channels),
                               c = b.blank(n, channels);
                    Random fixed(3);
                    b.device.convolve(c, x, b.put(numbers(fixed, channels * 4)), *states, 1, step);
                    Rows q(c.data, n, 80), k(c.data + 80, n, 80), v(c.data + 160, n, 96);
                    q.stride = k.stride = v.stride = channels;
                    Rows qk(c.data, n, 160);
                    qk.stride = channels;
                    b.device.l2_norm(qk, 4, 1e-6f);
                    const Rows decay = b.rows(numbers(random, n * 4), n, 4),
                               beta = b.rows(numbers(random, n * 4), n, 4);
                    b.device.delta_gates(decay, beta, b.put(Floats{0, 1, 2, -1}),
                                         b.put(Floats{-0.1f, -1, -0.5f, -2}));
                    const Rows y = b.blank(n, 96);
                    b.device.delta_rule(y, q, k, v, decay, beta, *states, 1, rule, step);
                    const Floats out = b.read(y);
                    all.insert(all.end(), out.begin(), out.end());
                }
                return all;
            });
    }
}

TEST_CASE("experts of quantised weights on the CPU stay within the rounding of activations", "[cpu]") {
    const int32_t experts = 6, used = 2, width = 256, inner = 96;
    Random random(11);
    for (Type type : {Type::Q8_0, Type::Q5_0, Type::F16, Type::Q4_0}) {
        // One file, three tensors, cut out of the middle of wider rows.
        const auto tensor = [&](int64_t in, int64_t out) {
            std::vector<std::vector<std::byte>> all;
            for (int e = 0; e < experts; ++e) {
                std::vector<std::byte> bytes(row_bytes(type, uint64_t(in)) * uint64_t(out));
                const Floats values = numbers(random, in * out, Data::normal, 0.05f);
                if (type == Type::F16)
                    for (size_t i = 0; i < values.size(); ++i) {
                        const uint16_t h = float_to_half(values[i]);
                        std::memcpy(&bytes[2 * i], &h, 2);
                    }
                else
                    quant::encode(type, values.data(), bytes.data(), in * out);
                all.push_back(bytes);
            }
            return all;
        };
        const auto gate = tensor(width, inner), up = tensor(width, inner), down = tensor(128, width);
        const auto source = [&](const std::vector<std::vector<std::byte>>& all, int64_t in, int64_t out,
                                Range columns) {
            WeightSource s;
            s.name = "experts";
            s.type = type;
            s.file_in = in, s.file_out = out;
            for (int e = 1; e < experts; ++e)
                s.matrices.push_back(all[size_t(e)].data());  // expert 0 lives elsewhere
            s.rows = {{0, out}};
            s.columns = {columns};
            return s;
        };
        for (int64_t rows : {1, 3, 40}) {
            const Floats x = numbers(random, rows * width);
            const Floats scores = numbers(random, rows * experts);
            for (cpu::Isa isa : cpu::usable_isas()) {
                CpuDevice device(options(isa, 2));
                compare(device, type == Type::F16 ? 1e-11 : 2e-4, type_name(type), [&](Bench& b) {
                    const auto g = b.device.prepare(source(gate, width, inner, {0, width}));
                    const auto u = b.device.prepare(source(up, width, inner, {0, width}));
                    const auto d = b.device.prepare(source(down, 128, width, {32, 128}));
                    Router router;
                    router.experts = experts, router.used = used;
                    const Routing routing = b.routing(rows, used);
                    b.device.choose_experts(routing, b.rows(scores, rows, experts), router);
                    const Rows e = b.blank(rows * used, inner), other = b.blank(rows * used, inner);
                    Floats all;
                    for (int again = 0; again < 2; ++again) {  // experts are packed the first time
                        b.device.expert_gate_up(e, {g.get(), nullptr, 1}, {u.get(), nullptr, 1},
                                                b.rows(x, rows, width), routing, Activation::silu, other);
                        const Rows y = b.blank(rows, width), outs = b.blank(rows * used, width);
                        b.device.expert_down_combine(y, {d.get(), nullptr, 1}, e, routing, outs);
                        for (Rows part : {e, y}) {
                            const Floats values = b.read(part);
                            all.insert(all.end(), values.begin(), values.end());
                        }
                    }
                    return all;
                });
            }
        }
    }
}
