// The device's kernels under the access checker: no race, nothing outside, nothing unwritten, and the traffic
// that decoding needs: every weight byte once, in whole sectors, without bank conflicts.
#include <access_checker.h>
#include <emulated_cuda.h>
#include <fake_runtime.h>

#include "../device/workbench.h"
#include "catch.h"
#include "cuda/cuda_device.h"
#include "read_share.h"

using namespace coterie;
using namespace coterie::test;

namespace {

void no_problems() {
    for (const std::string& problem : fake::problems()) FAIL_CHECK(problem);
    emulator::reports().clear();
}

Rows random_rows(Bench& b, int64_t rows, int64_t width) {
    Random random(uint64_t(rows * width));
    return b.rows(numbers(random, rows * width), rows, width);
}

}  // namespace

TEST_CASE("decode reads each weight byte once, in whole sectors") {
    fake::reset({});
    cuda::CudaDevice device;
    for (const Type type : {Type::Q4_K, Type::Q5_K, Type::Q6_K, Type::Q8_0, Type::Q4_0, Type::Q5_0,
                            Type::IQ4_NL, Type::MXFP4, Type::F16, Type::F32})
        for (const int64_t in : {768, 2048}) {
            CAPTURE(type_name(type), in);
            Bench b(device);
            const TestWeight matrix(type, in, 64, 1);
            const auto weight = device.prepare(matrix.source);
            const Rows x = random_rows(b, 1, in), y = b.blank(1, 64);
            emulator::watch_traffic(true);
            device.linear(y, *weight, x, nullptr);
            device.wait();
            const double share = read_share(*weight, 1);
            CHECK(share >= 1.0);
            CHECK(share <= 1.05);
            const emulator::Worst sectors = emulator::worst_sectors(), banks = emulator::worst_banks();
            CAPTURE(sectors.place, banks.place);
            CHECK(emulator::sectors_over_ideal() <= 1.25);
            // A byte of scale per group, of four rows at once: few bytes, in a sector each.
            CHECK(sectors.ratio <= 4.0);
            CHECK(banks.ratio <= 2.0);
            emulator::watch_traffic(false);
        }
    no_problems();
}

TEST_CASE("the experts of a token are read once each") {
    fake::reset({});
    cuda::CudaDevice device;
    Bench b(device);
    const int64_t width = 512, inner = 256;
    const int32_t used = 4;
    const TestWeight gates(Type::Q4_K, width, inner, 8), ups(Type::Q4_K, width, inner, 8),
        downs(Type::Q6_K, inner, width, 8);
    const auto gate = device.prepare(gates.source), up = device.prepare(ups.source),
               down = device.prepare(downs.source);
    const Routing routing = b.routing({6, 0, 3, 5}, {0.4f, 0.3f, 0.2f, 0.1f}, used);
    const Rows x = random_rows(b, 1, width), e = b.blank(used, inner), y = b.blank(1, width),
               s = b.blank(used, width);
    emulator::watch_traffic(true);
    const uint64_t before = emulator::counts().launches;
    device.expert_gate_up(e, {gate.get(), nullptr, 0}, {up.get(), nullptr, 0}, x, routing, Activation::silu,
                          e);
    device.expert_down_combine(y, {down.get(), nullptr, 0}, e, routing, s);
    device.wait();
    CHECK(emulator::counts().launches - before <= 4);
    for (const auto* weight : {gate.get(), up.get(), down.get()}) {
        CHECK(read_share(*weight, used) >= 1.0);
        CHECK(read_share(*weight, used) <= 1.05);
    }
    CHECK(emulator::worst_banks().ratio <= 2.0);
    CHECK(emulator::sectors_over_ideal() <= 1.25);
    emulator::watch_traffic(false);
    no_problems();
}

TEST_CASE("decode reads keys and values once per kv head") {
    fake::reset({});
    cuda::CudaDevice device;
    const int32_t context = 300;
    for (const auto& [type, dim] : {std::pair{Type::F16, 64}, {Type::F16, 128}, {Type::Q8_0, 256}}) {
        CAPTURE(type_name(type), dim);
        Bench b(device);
        CacheShape shape;
        shape.layers = {{2, dim, dim}};
        shape.key_type = shape.value_type = type;
        shape.page_tokens = 16;
        shape.pages = 40;
        const auto cache = device.make_cache(shape);
        Attention a;
        a.heads = 16, a.kv_heads = 2, a.key_dim = a.value_dim = dim;
        a.scale = 0.1f;
        const Step step = step_of({{0, context - 1, 1}}, 1, 20, 16);
        device.begin(step);
        const Rows q = random_rows(b, 1, 16 * dim), y = b.blank(1, 16 * dim);
        device.wait();
        emulator::watch_traffic(true);
        device.attend(y, q, *cache, 0, a, step);
        device.wait();
        uint64_t bytes = 0;
        for (const emulator::Traffic& t : emulator::traffic())
            if (!t.shared && !t.write && t.place.starts_with("cache_access.h")) bytes += t.ideal * 32;
        const double needed = double(context) / 16 * double(shape.page_bytes());
        CHECK(double(bytes) >= 0.95 * needed);
        CHECK(double(bytes) <= 1.5 * needed);  // page numbers and scales: a sector each time
        CHECK(emulator::worst_banks().ratio <= 2.0);
        emulator::watch_traffic(false);
    }
    no_problems();
}

TEST_CASE("logits are ranked in one pass over them, without bank conflicts") {
    fake::reset({});
    cuda::CudaDevice device;
    Bench b(device);
    const Rows x = random_rows(b, 1, 8192);
    const auto best = device.allocate(64 * sizeof(Ranked));
    emulator::watch_traffic(true);
    device.rank(static_cast<Ranked*>(best->data()), 64, x);
    device.wait();
    CHECK(emulator::sectors_over_ideal() <= 1.25);
    const emulator::Worst banks = emulator::worst_banks();
    CAPTURE(banks.place);
    CHECK(banks.ratio <= 2.0);
    emulator::watch_traffic(false);
    no_problems();
}

TEST_CASE("a prompt's delta rule in chunks reads the state once, without bank conflicts or races") {
    fake::reset({});
    cuda::CudaDevice device;
    Bench b(device);
    StateShape shape;
    shape.layers = {{0, 1, 2, 128, 64}};
    shape.slots = 1;
    const auto states = device.make_states(shape);
    const Step step = step_of({{0, 0, 41}}, 1, 8, 16);
    device.begin(step);
    const Rows q = random_rows(b, 41, 128), k = random_rows(b, 41, 128), v = random_rows(b, 41, 128),
               y = b.blank(41, 128), decay = random_rows(b, 41, 2), beta = random_rows(b, 41, 2);
    device.delta_gates(decay, beta, b.put(Floats(2, 0.1f)), b.put(Floats(2, -0.1f)));
    emulator::watch_traffic(true);
    device.delta_rule(y, q, k, v, decay, beta, *states, 0, {1, 2, 128, 64, true, 0.1f}, step);
    device.wait();
    CHECK(emulator::sectors_over_ideal() <= 1.25);
    const emulator::Worst banks = emulator::worst_banks();
    CAPTURE(banks.place);
    CHECK(banks.ratio <= 2.0);
    emulator::watch_traffic(false);
    no_problems();
}

TEST_CASE("the kernels of a layer are free of races and stay inside") {
    for (const uint64_t seed : {1, 2, 3}) {
        fake::Machine machine;
        machine.seed = seed;
        fake::reset(machine);
        emulator::options().preempt = seed == 3 ? 50 : 0;
        cuda::CudaDevice device;
        Bench b(device);
        for (const Type type : {Type::F16, Type::Q8_0}) {
            CacheShape shape;
            shape.layers = {{2, 64, 64}};
            shape.key_type = shape.value_type = type;
            shape.page_tokens = 16;
            shape.pages = 16;
            const auto cache = device.make_cache(shape);
            Attention a;
            a.heads = 6, a.kv_heads = 2, a.key_dim = a.value_dim = 64;
            a.scale = 0.125f;
            a.sinks = b.put(Floats(6, 0.5f));
            Rope rope;
            rope.dimensions = 64;
            rope.frequencies = b.put(Floats(32, 0.01f));
            const float* gain = b.put(Floats(64, 1.0f));
            for (const std::vector<Part>& parts :
                 {std::vector<Part>{{0, 0, 37}}, {{0, 37, 1}, {1, 0, 3}}, {{0, 38, 1}}}) {
                const Step step = step_of(parts, 2, 8, 16);
                device.begin(step);
                const Rows q = random_rows(b, step.rows(), 6 * 64), k = random_rows(b, step.rows(), 2 * 64),
                           v = random_rows(b, step.rows(), 2 * 64), y = b.blank(step.rows(), 6 * 64);
                device.norm_rope_store(q, k, v, gain, gain, 1e-6f, rope, a, *cache, 0, step);
                device.attend(y, q, *cache, 0, a, step);
                (void)b.read(y);
            }
        }
        StateShape states_shape;
        states_shape.layers = {{96, 4, 2, 64, 64}};
        states_shape.slots = 2;
        const auto states = device.make_states(states_shape);
        const Step step = step_of({{0, 0, 5}, {1, 0, 1}}, 2, 8, 16);
        device.begin(step);
        const Rows x = random_rows(b, 6, 96), y = b.blank(6, 96);
        device.convolve(y, x, b.put(Floats(96 * 4, 0.1f)), *states, 0, step);
        const Rows q = random_rows(b, 6, 64), k = random_rows(b, 6, 64), v = random_rows(b, 6, 128),
                   out = b.blank(6, 128), decay = random_rows(b, 6, 2), beta = random_rows(b, 6, 2);
        device.delta_gates(decay, beta, b.put(Floats(2, 0.1f)), b.put(Floats(2, -0.1f)));
        device.l2_norm(q, 1, 1e-6f);
        device.delta_rule(out, q, k, v, decay, beta, *states, 0, {1, 2, 64, 64, true, 0.125f}, step);
        Router router;
        router.experts = 40, router.used = 5;
        const Routing routing = b.routing(6, 5);
        device.choose_experts(routing, random_rows(b, 6, 40), router);
        router.gating = Router::Gating::sigmoid;
        router.groups = 4, router.groups_used = 2;
        device.choose_experts(routing, random_rows(b, 6, 40), router);
        const auto best = device.allocate(2 * 40 * sizeof(Ranked));
        device.rank(static_cast<Ranked*>(best->data()), 40, random_rows(b, 2, 2100));
        const Rows h = b.blank(6, 2048);
        device.add_rms_norm(random_rows(b, 6, 2048), random_rows(b, 6, 2048), h, nullptr, 1e-6f);
        const TestWeight matrix(Type::Q5_K, 2048, 40, 1);
        const auto weight = device.prepare(matrix.source);
        device.linear(b.blank(6, 40), *weight, h, nullptr);
        device.wait();
        no_problems();
    }
    emulator::options().preempt = 0;
    fake::reset({});
}
