// Every kernel once at the largest dimensions of real models (Qwen3 to Qwen3.8, gpt-oss, Gemma 3), with few
// rows and few outputs, so that it stays quick: what the small shapes of the conformance suite can't show is
// an index that is too narrow, or shared memory that is too small.
#include <fake_runtime.h>

#include <cmath>

#include "../device/conformance.h"
#include "catch.h"
#include "cuda/cuda_device.h"

using namespace coterie;
using namespace coterie::test;

namespace {

Floats random_numbers(uint64_t seed, int64_t n) {
    Random random(seed);
    return numbers(random, n);
}
Rows random_rows(Bench& b, uint64_t seed, int64_t rows, int64_t width) {
    return b.rows(random_numbers(seed, rows * width), rows, width);
}

void products(Conformance& c, double bound) {
    for (const Type type : {Type::Q4_K, Type::Q6_K, Type::Q5_0, Type::MXFP4, Type::F16})
        for (const int64_t rows : {1, 33})
            c.compare(fmt::format("{} 25600 -> 40, {} rows", type_name(type), rows), bound, [=](Bench& b) {
                const TestWeight w(type, 25600, 40);
                const auto weight = b.device.prepare(w.source);
                const Rows y = b.blank(rows, 40);
                b.device.linear(y, *weight, random_rows(b, 1, rows, 25600), nullptr);
                return b.read(y);
            });
    c.compare("a head of 262144 rows", bound, [](Bench& b) {
        const TestWeight w(Type::F16, 32, 262144);
        const auto weight = b.device.prepare(w.source);
        const Rows y = b.blank(1, 262144);
        b.device.linear(y, *weight, random_rows(b, 2, 1, 32), nullptr);
        return b.read(y);
    });
    for (const int64_t rows : {1, 24})
        // Rounded twice.
        c.compare(fmt::format("10 of 512 experts, {} rows", rows), 2 * bound, [=](Bench& b) {
            const TestWeight gates(Type::Q4_K, 256, 64, 512, 1), ups(Type::Q4_K, 256, 64, 512, 2),
                downs(Type::Q8_0, 64, 256, 512, 3);
            const auto gate = b.device.prepare(gates.source), up = b.device.prepare(ups.source),
                       down = b.device.prepare(downs.source);
            Random random(4);
            std::vector<int32_t> chosen;
            for (int64_t r = 0; r < rows; ++r)
                for (int j = 0; j < 10; ++j) chosen.push_back(j * 51 + random.below(51) + (j == 9 ? 2 : 0));
            const Routing routing = b.routing(chosen, Floats(chosen.size(), 0.1f), 10);
            const Rows e = b.blank(rows * 10, 64), y = b.blank(rows, 256);
            b.device.expert_gate_up(e, {gate.get(), nullptr, 0}, {up.get(), nullptr, 0},
                                    random_rows(b, 5, rows, 256), routing, Activation::silu,
                                    b.blank(rows * 10, 64));
            b.device.expert_down_combine(y, {down.get(), nullptr, 0}, e, routing, b.blank(rows * 10, 256));
            return b.read(y);
        });
}

void attention(Conformance& c, const Bounds& bounds) {
    struct Case {
        int32_t heads, kv_heads, dim, context, window;
        Type type;
    };
    for (const Case& k : {Case{64, 8, 64, 2000, 128, Type::F16},
                          {32, 4, 128, 3000, 0, Type::Q8_0},
                          {32, 2, 256, 1500, 0, Type::F16}})
        c.compare(fmt::format("{} heads of {}, {} keys", k.heads, k.dim, k.context),
                  k.type == Type::Q8_0 ? bounds.attention_q8 : bounds.attention, [&](Bench& b) {
                      CacheShape shape;
                      shape.layers = {{k.kv_heads, k.dim, k.dim}};
                      shape.key_type = shape.value_type = k.type;
                      shape.page_tokens = 64;
                      shape.pages = 64;
                      const auto cache = b.device.make_cache(shape);
                      Attention a;
                      a.heads = k.heads, a.kv_heads = k.kv_heads, a.key_dim = a.value_dim = k.dim;
                      a.scale = 1 / std::sqrt(float(k.dim));
                      a.window = k.window;
                      const Step prompt = step_of({{0, 0, k.context}}, 1, 60, 64);
                      b.device.begin(prompt);
                      b.device.store_kv(*cache, 0, random_rows(b, 1, k.context, k.kv_heads * k.dim),
                                        random_rows(b, 2, k.context, k.kv_heads * k.dim), prompt);
                      Floats all;
                      for (const int32_t rows : {1, 9}) {  // of a longer prompt, and of decoding
                          const Step step = step_of({{0, k.context - rows, rows}}, 1, 60, 64);
                          b.device.begin(step);
                          const Rows y = b.blank(rows, k.heads * k.dim);
                          b.device.attend(y, random_rows(b, 3, rows, k.heads * k.dim), *cache, 0, a, step);
                          const Floats found = b.read(y);
                          all.insert(all.end(), found.begin(), found.end());
                      }
                      return all;
                  });
}

void recurrence(Conformance& c, const Bounds& bounds) {
    const int32_t keys = 16, values = 64, dim = 128, channels = (2 * keys + values) * dim;
    c.compare("a delta-net layer of 64 heads", bounds.delta, [=](Bench& b) {
        StateShape shape;
        shape.layers = {{channels, 4, values, dim, dim}};
        shape.slots = 2;
        const auto states = b.device.make_states(shape);
        Floats all;
        for (const Step& step : {step_of({{0, 0, 18}, {1, 0, 1}}, 2), step_of({{0, 18, 1}, {1, 1, 1}}, 2)}) {
            const int64_t rows = step.rows();
            b.device.begin(step);
            const Rows y = b.blank(rows, channels), out = b.blank(rows, values * dim),
                       decay = random_rows(b, 6, rows, values), beta = random_rows(b, 7, rows, values);
            b.device.convolve(y, random_rows(b, 8, rows, channels), b.put(random_numbers(9, channels * 4)),
                              *states, 0, step);
            Rows q(y.data, rows, keys * dim), k(y.data + keys * dim, rows, keys * dim),
                v(y.data + 2 * keys * dim, rows, values * dim);
            q.stride = k.stride = v.stride = channels;
            b.device.l2_norm(q, keys, 1e-6f);
            b.device.l2_norm(k, keys, 1e-6f);
            b.device.delta_gates(decay, beta, b.put(Floats(values, 0.1f)), b.put(Floats(values, -0.2f)));
            b.device.delta_rule(out, q, k, v, decay, beta, *states, 0,
                                {keys, values, dim, dim, true, 1 / std::sqrt(float(dim))}, step);
            const Floats found = b.read(out);
            all.insert(all.end(), found.begin(), found.end());
        }
        return all;
    });
}

void rows_of_a_step(Conformance& c, const Bounds& bounds) {
    c.compare("norms and sums of 20480", bounds.elements, [](Bench& b) {
        const Rows x = random_rows(b, 1, 3, 20480), h = b.blank(3, 20480);
        b.device.add_rms_norm(x, random_rows(b, 2, 3, 20480), h, b.put(random_numbers(3, 20480)), 1e-6f);
        b.device.activate(x, x, h, Activation::silu);
        return b.read(x);
    });
    c.compare("32 of 1024 experts", bounds.elements, [](Bench& b) {
        Router router;
        router.experts = 1024, router.used = 32;
        const Routing routing = b.routing(2, 32);
        Floats logits;
        for (int i = 0; i < 2048; ++i) logits.push_back(float(i * 389 % 1024) / 64 - 8);
        b.device.choose_experts(routing, b.rows(logits, 2, 1024), router);
        Floats all = b.read(Rows(routing.weights, 2, 32));
        for (const int32_t e : b.read(routing.experts, 64)) all.push_back(float(e) * 1e4f);
        return all;
    });
    c.compare("the best of 262144 logits", 0, [](Bench& b) {
        const auto best = b.device.allocate(256 * sizeof(Ranked));
        b.device.rank(static_cast<Ranked*>(best->data()), 256, random_rows(b, 3, 1, 262144));
        std::vector<Ranked> found(256);
        b.device.read(found.data(), best->data(), 256 * sizeof(Ranked));
        Floats all;
        for (const Ranked& r : found) all.insert(all.end(), {float(r.index), r.value});
        return all;
    });
}

}  // namespace

TEST_CASE("the largest dimensions of real models", "[dimensions]") {
    for (const int major : {7, 8}) {  // dp4a, int8 tensor cores
        CAPTURE(major);
        fake::Machine machine;
        machine.major = major;
        machine.memory_bytes = size_t(1) << 30;
        fake::reset(machine);
        Bounds bounds;
        {
            cuda::CudaOptions options;
            options.pack_threads = 3;
            cuda::CudaDevice device(options);
            Conformance c(device, bounds);
            products(c, 2e-4);
            if (major == 8) {  // nothing in these depends on it
                attention(c, bounds);
                recurrence(c, bounds);
                rows_of_a_step(c, bounds);
            }
            for (const std::string& failure : c.failures) FAIL_CHECK(failure);
            CHECK(c.tried >= 13);
        }
        for (const std::string& problem : fake::problems()) FAIL_CHECK(problem);
        CHECK(fake::leaks().none());
    }
    fake::reset({});
}
