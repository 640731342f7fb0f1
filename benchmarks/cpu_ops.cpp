// Speed of the CPU device's operations at the shapes of Qwen3-30B-A3B: 2048 wide, 128 experts of 768, 8 used.
//   cpu_ops [--threads=N] [--isa=NAME] [Google Benchmark's own options]
// Counters: GB/s of weights (or keys and values) and its share of the read bandwidth, or GMAC/s and its share
// of the 8-bit multiply peak; both ceilings are measured before each benchmark.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "ceilings.h"
#include "device/cpu/cpu_device.h"
#include "quant/encode.h"

using namespace coterie;

namespace {

CpuOptions options;

CpuDevice& device() {
    static CpuDevice one(options);
    return one;
}
ThreadTeam& team() {
    static ThreadTeam one(options.threads);
    return one;
}

// Rows of random weights, repeated every 64: enough for speed, quick to make.
struct File {
    std::vector<std::byte> bytes;
    WeightSource source;
    File(Type type, int64_t in, int64_t out, int64_t experts)
        : bytes(row_bytes(type, uint64_t(in)) * uint64_t(out)) {
        std::mt19937 random(1);
        std::normal_distribution<float> normal(0, 0.02f);
        std::vector<float> values(size_t(in * 64));
        for (float& v : values) v = normal(random);
        const size_t row = row_bytes(type, uint64_t(in)), part = row * 64;
        if (type == Type::F32)
            std::memcpy(bytes.data(), values.data(), std::min(part, bytes.size()));
        else
            quant::encode(type, values.data(), bytes.data(), in * std::min<int64_t>(64, out));
        for (size_t at = part; at < bytes.size(); at += part)
            std::memcpy(&bytes[at], bytes.data(), std::min(part, bytes.size() - at));
        source.name = "weights";
        source.type = type;
        source.file_in = in;
        source.file_out = out;
        source.matrices.assign(size_t(experts), bytes.data());
        source.rows = {{0, out}};
        source.columns = {{0, in}};
    }
};

struct Floats {
    std::unique_ptr<Buffer> buffer;
    Rows rows;
    Floats(int64_t r, int64_t w) : buffer(device().allocate(uint64_t(r * w) * 4)) {
        rows = Rows(static_cast<float*>(buffer->data()), r, w);
        std::mt19937 random(2);
        std::normal_distribution<float> normal;
        for (int64_t i = 0; i < r * w; ++i) rows.data[i] = normal(random);
    }
};

void report_bytes(benchmark::State& state, double bytes, double ceiling) {
    state.counters["GB/s"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
    state.counters["of_read"] =
        benchmark::Counter(bytes / ceiling, benchmark::Counter::kIsIterationInvariantRate);
}
void report_products(benchmark::State& state, double products, double ceiling) {
    state.counters["GMAC/s"] =
        benchmark::Counter(products * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
    if (ceiling > 0)
        state.counters["of_peak"] =
            benchmark::Counter(products / ceiling, benchmark::Counter::kIsIterationInvariantRate);
}

// As many matrices as exceed any cache, used in turn.
void linear(benchmark::State& state, Type type, int64_t in, int64_t out, int64_t rows) {
    const File file(type, in, out, 1);
    std::vector<std::unique_ptr<Weight>> weights;
    const int64_t copies =
        rows > 16 ? 2 : std::max<int64_t>(1, (int64_t(256) << 20) / int64_t(file.bytes.size()));
    for (int64_t i = 0; i < copies; ++i) weights.push_back(device().prepare(file.source));
    const Floats x(rows, in), y(rows, out);
    const double read = read_bandwidth(team()), peak = multiply_adds(team(), device().isa());
    size_t at = 0;
    for (auto _ : state) device().linear(y.rows, *weights[at++ % weights.size()], x.rows, nullptr);
    report_bytes(state, double(weights[0]->bytes()), read);
    report_products(state, double(in) * double(out) * double(rows), peak);
}

// Every step chooses other experts.
void experts(benchmark::State& state, Type type, int64_t rows) {
    const int32_t width = 2048, inner = 768, count = 128, used = 8;
    const File in(type, width, inner, count), out(type, inner, width, count);
    const auto gate = device().prepare(in.source), up = device().prepare(in.source),
               down = device().prepare(out.source);
    const Floats x(rows, width), y(rows, width), e(rows * used, inner), other(rows * used, inner),
        outs(rows * used, width);
    std::mt19937 random(3);
    std::vector<std::vector<int32_t>> chosen;
    double distinct = 0;
    for (int step = 0; step < 16; ++step) {
        std::vector<int32_t> all;
        std::vector<bool> seen(size_t(count), false);
        for (int64_t r = 0; r < rows; ++r) {
            std::vector<int32_t> deck(size_t(count), 0);
            for (int32_t i = 0; i < count; ++i) deck[size_t(i)] = i;
            std::shuffle(deck.begin(), deck.end(), random);
            for (int j = 0; j < used; ++j)
                all.push_back(deck[size_t(j)]), seen[size_t(deck[size_t(j)])] = true;
        }
        for (bool s : seen) distinct += s ? 1.0 / 16 : 0;
        chosen.push_back(all);
    }
    std::vector<float> weights(size_t(rows * used), 0.125f);
    const auto step = [&](size_t i) {
        Routing routing;
        routing.experts = chosen[i % 16].data();
        routing.weights = weights.data();
        routing.rows = rows;
        routing.used = used;
        device().expert_gate_up(e.rows, {gate.get(), nullptr, 0}, {up.get(), nullptr, 0}, x.rows, routing,
                                Activation::silu, other.rows);
        device().expert_down_combine(y.rows, {down.get(), nullptr, 0}, e.rows, routing, outs.rows);
    };
    for (size_t i = 0; i < 16; ++i) step(i);  // packs
    const double read = read_bandwidth(team()), peak = multiply_adds(team(), device().isa());
    size_t i = 0;
    for (auto _ : state) step(i++);
    report_bytes(state, distinct / count * double(gate->bytes() + up->bytes() + down->bytes()), read);
    report_products(state, 3.0 * width * inner * used * double(rows), peak);
}

// rows at the end of a context of `tokens`, 32 heads over 4 kv heads of 128.
void attention(benchmark::State& state, Type type, int32_t tokens, int32_t rows) {
    Attention a;
    a.heads = 32, a.kv_heads = 4, a.key_dim = a.value_dim = 128, a.scale = 0.088f;
    CacheShape shape;
    shape.layers = {{4, 128, 128}};
    shape.key_type = shape.value_type = type;
    shape.page_tokens = 64;
    shape.pages = (tokens + 63) / 64;
    const auto cache = device().make_cache(shape);
    const auto step_at = [&](int32_t position, int32_t n) {
        Step s;
        s.page_tokens = 64;
        s.pages_per_sequence = shape.pages;
        for (int32_t p = 0; p < shape.pages; ++p) s.pages.push_back(p);
        s.spans.push_back({0, -1, 0, n, position});
        for (int32_t i = 0; i < n; ++i)
            s.tokens.push_back(0), s.positions.push_back(position + i), s.span_of.push_back(0);
        return s;
    };
    for (int32_t p = 0; p < tokens; p += 512) {
        const int32_t n = std::min(512, tokens - p);
        const Floats k(n, 512), v(n, 512);
        device().store_kv(*cache, 0, k.rows, v.rows, step_at(p, n));
    }
    const Floats q(rows, 4096), y(rows, 4096);
    const Step step = step_at(tokens - rows, rows);
    const double read = read_bandwidth(team());
    for (auto _ : state) device().attend(y.rows, q.rows, *cache, 0, a, step);
    report_bytes(state, double(shape.page_bytes()) / 64 * tokens, read);
    report_products(state, 2.0 * 128 * 32 * rows * (double(tokens) - rows / 2.0), 0);
}

void delta(benchmark::State& state, int32_t rows) {
    DeltaRule rule;
    rule.key_heads = 16, rule.value_heads = 32, rule.key_dim = rule.value_dim = 128,
    rule.query_scale = 0.088f;
    StateShape shape;
    shape.layers = {{8192, 4, 32, 128, 128}};
    shape.slots = 1;
    const auto states = device().make_states(shape);
    Step step;
    step.spans.push_back({0, 0, 0, rows, 0});
    for (int32_t i = 0; i < rows; ++i)
        step.tokens.push_back(0), step.positions.push_back(i), step.span_of.push_back(0);
    const Floats q(rows, 2048), k(rows, 2048), v(rows, 4096), y(rows, 4096), decay(rows, 32), beta(rows, 32);
    device().l2_norm(k.rows, 16, 1e-6f);
    for (int64_t i = 0; i < decay.rows.rows * 32; ++i) decay.rows.data[i] = -0.1f, beta.rows.data[i] = 0.5f;
    const double read = read_bandwidth(team());
    for (auto _ : state)
        device().delta_rule(y.rows, q.rows, k.rows, v.rows, decay.rows, beta.rows, *states, 0, rule, step);
    report_bytes(state, double(shape.slot_bytes()), read);
    report_products(state, 3.0 * 32 * 128 * 128 * rows, 0);
}

template <typename Function>
void add(const std::string& name, Function function) {
    benchmark::RegisterBenchmark(name.c_str(), function)
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond)
        ->MinTime(0.3);
}

void add_all() {
    for (Type type : {Type::Q4_K, Type::Q6_K, Type::Q8_0, Type::Q5_K, Type::Q5_0, Type::IQ4_NL}) {
        const std::string of = std::string("/") + type_name(type);
        for (int64_t rows : {1, 2, 4, 8, 16, 512})
            add("linear" + of + "/2048x4096/rows:" + std::to_string(rows),
                [=](benchmark::State& s) { linear(s, type, 2048, 4096, rows); });
    }
    add("linear/Q6_K/2048x151936/rows:1",
        [](benchmark::State& s) { linear(s, Type::Q6_K, 2048, 151936, 1); });
    add("linear/F32/2048x128/rows:512", [](benchmark::State& s) { linear(s, Type::F32, 2048, 128, 512); });
    for (Type type : {Type::Q4_K, Type::Q6_K})
        for (int64_t rows : {1, 2, 4, 8, 16, 128, 512})
            add(std::string("experts/") + type_name(type) + "/rows:" + std::to_string(rows),
                [=](benchmark::State& s) { experts(s, type, rows); });
    for (Type type : {Type::F16, Type::Q8_0})
        for (int32_t tokens : {512, 4096, 16384})
            add(std::string("attention/") + type_name(type) + "/tokens:" + std::to_string(tokens) + "/rows:1",
                [=](benchmark::State& s) { attention(s, type, tokens, 1); });
    for (int32_t tokens : {512, 4096})
        add("attention/F16/tokens:" + std::to_string(tokens) + "/rows:512",
            [=](benchmark::State& s) { attention(s, Type::F16, tokens, 512); });
    for (int32_t rows : {1, 64})
        add("delta/rows:" + std::to_string(rows), [=](benchmark::State& s) { delta(s, rows); });
}

}  // namespace

int main(int argc, char** argv) {
    int kept = 1;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word.starts_with("--threads="))
            options.threads = std::atoi(word.c_str() + 10);
        else if (word.starts_with("--isa="))
            options.isa = word.substr(6);
        else
            argv[kept++] = argv[i];
    }
    argc = kept;
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    try {
        benchmark::AddCustomContext("device", device().description());
        add_all();
        benchmark::RunSpecifiedBenchmarks();
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "%s\n", failure.what());
        return 1;
    }
}
