#include "bench_streams.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "commands.h"

namespace tool {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration d) {
    return std::chrono::duration<double, std::milli>(d).count();
}

// The smallest value that at least that share of the values does not exceed.
double quantile(std::vector<double> v, double share) {
    if (v.empty()) return 0;
    std::sort(v.begin(), v.end());
    const size_t rank = size_t(std::ceil(share * double(v.size())));
    return v[std::min(v.size(), std::max<size_t>(rank, 1)) - 1];
}

std::vector<int32_t> random_tokens(int64_t n, int32_t vocabulary, std::mt19937& random) {
    std::uniform_int_distribution<int32_t> any(0, vocabulary - 1);
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < n; ++i) tokens.push_back(any(random));
    return tokens;
}

coterie_generation_options greedy(int64_t tokens) {
    coterie_generation_options o = COTERIE_GENERATION_OPTIONS_INIT;
    o.flags = COTERIE_GREEDY | COTERIE_IGNORE_END;
    o.max_tokens = tokens;
    return o;
}

struct Measured {
    std::vector<double> aggregate, first_ms, gap_ms;
};

// n answers that begin together, each read by a thread of its own.
void run(coterie::Engine& engine, int32_t vocabulary, int64_t n, int64_t prompt, int64_t answer,
         std::mt19937& random, Measured& m) {
    std::vector<std::vector<int32_t>> prompts;
    for (int64_t i = 0; i < n; ++i) prompts.push_back(random_tokens(prompt, vocabulary, random));
    std::vector<coterie::Generation> running;
    std::vector<std::vector<Clock::time_point>> times(static_cast<size_t>(n));
    const Clock::time_point begin = Clock::now();
    for (const auto& tokens : prompts) running.push_back(engine.generate(tokens, greedy(answer)));
    std::vector<std::thread> readers;
    for (size_t i = 0; i < running.size(); ++i)
        readers.emplace_back([&, i] {
            coterie_event event = COTERIE_EVENT_INIT;
            while (coterie_generation_next(running[i].get(), &event, -1, nullptr) == COTERIE_OK &&
                   event.kind == COTERIE_EVENT_TOKEN)
                times[i].push_back(Clock::now());
        });
    for (std::thread& reader : readers) reader.join();
    // All together while all decode: from the last first token to the first last one.
    Clock::time_point from = begin, to = Clock::time_point::max();
    for (const auto& t : times) {
        if (t.empty()) throw std::runtime_error("a stream gave no tokens");
        from = std::max(from, t.front());
        to = std::min(to, t.back());
        m.first_ms.push_back(milliseconds(t.front() - begin));
        for (size_t i = 1; i < t.size(); ++i) m.gap_ms.push_back(milliseconds(t[i] - t[i - 1]));
    }
    int64_t tokens = 0;
    for (const auto& t : times)
        tokens += std::count_if(t.begin(), t.end(), [&](auto at) { return at > from && at <= to; });
    if (to > from) m.aggregate.push_back(double(tokens) * 1e3 / milliseconds(to - from));
}

double first_token_ms(coterie::Engine& engine, const std::vector<int32_t>& prompt) {
    const Clock::time_point begin = Clock::now();
    coterie::Generation g = engine.generate(prompt, greedy(1));
    coterie_event event;
    g.next(event);
    const double ms = milliseconds(Clock::now() - begin);
    while (event.kind != COTERIE_EVENT_FINISHED) g.next(event);
    return ms;
}

nlohmann::ordered_json measure_warm_prefix(const BenchEngine& b, const coterie::Model& model, int64_t tokens,
                                           int repeat) {
    coterie_engine_options o = b.options();
    o.context_tokens = tokens + 64;
    o.parallel = 1;
    coterie::Engine engine(model, o);
    settle(engine);
    const int32_t vocabulary = model.info().vocabulary;
    std::mt19937 random{2};
    first_token_ms(engine, random_tokens(64, vocabulary, random));  // warm up
    std::vector<double> cold, warm;
    for (int i = 0; i < repeat; ++i) {
        const std::vector<int32_t> prompt = random_tokens(tokens, vocabulary, random);
        cold.push_back(first_token_ms(engine, prompt));
        warm.push_back(first_token_ms(engine, prompt));
    }
    return {{"n_prompt", tokens},
            {"cold_ttft_ms_p50", quantile(cold, 0.5)},
            {"warm_ttft_ms_p50", quantile(warm, 0.5)},
            {"warm_over_cold", quantile(warm, 0.5) / quantile(cold, 0.5)}};
}

}  // namespace

coterie_engine_options BenchEngine::options() const {
    coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
    o.threads = threads;
    if (!devices.empty()) o.devices = devices.c_str();
    if (!isa.empty()) o.isa = isa.c_str();
    if (!mode.empty()) o.mode = mode.c_str();
    if (!key_type.empty()) o.key_type = key_type.c_str();
    if (!value_type.empty()) o.value_type = value_type.c_str();
    o.host_experts = host_experts;
    o.device_memory_bytes = device_memory;
    o.progress = show_progress;
    return o;
}

double settle(const coterie::Engine& engine) {
    const Clock::time_point begin = Clock::now();
    Clock::time_point moved = begin;
    int64_t last = -1;
    while (const int64_t pending = engine.statistics().pending_bytes) {
        const Clock::time_point now = Clock::now();
        if (pending != last) last = pending, moved = now;
        if (now - moved > std::chrono::seconds(5)) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

int bench_streams(const BenchEngine& b, const std::vector<int64_t>& streams, int64_t prompt, int64_t answer,
                  int64_t warm_prefix, int repeat, bool json) {
    prompt = std::max<int64_t>(prompt, 1);
    answer = std::max<int64_t>(answer, 2);
    repeat = std::max(repeat, 1);
    const coterie::Model model(b.model);
    nlohmann::ordered_json report, results = nlohmann::ordered_json::array();
    if (!streams.empty()) {
        coterie_engine_options o = b.options();
        o.context_tokens = prompt + answer;
        o.parallel = int32_t(*std::max_element(streams.begin(), streams.end()));
        o.no_prefix_reuse = 1;
        coterie::Engine engine(model, o);
        settle(engine);
        std::mt19937 random{1};
        if (!json)
            std::printf("%8s %14s %14s %12s %14s %14s\n", "streams", "tokens/s", "each", "ttft ms",
                        "between p50 ms", "p99 ms");
        for (const int64_t n : streams) {
            if (n < 1) continue;
            Measured warm_up, m;
            run(engine, model.info().vocabulary, n, prompt, std::min<int64_t>(answer, 8), random, warm_up);
            for (int i = 0; i < repeat; ++i)
                run(engine, model.info().vocabulary, n, prompt, answer, random, m);
            const double all = quantile(m.aggregate, 0.5);
            results.push_back({{"n_streams", n},
                               {"n_prompt", prompt},
                               {"n_gen", answer},
                               {"aggregate_tokens_per_second", all},
                               {"per_stream_tokens_per_second", all / double(n)},
                               {"ttft_ms_p50", quantile(m.first_ms, 0.5)},
                               {"inter_token_ms_p50", quantile(m.gap_ms, 0.5)},
                               {"inter_token_ms_p99", quantile(m.gap_ms, 0.99)},
                               {"samples", m.aggregate}});
            if (json) continue;
            std::printf("%8lld %14.2f %14.2f %12.1f %14.2f %14.2f\n", static_cast<long long>(n), all,
                        all / double(n), quantile(m.first_ms, 0.5), quantile(m.gap_ms, 0.5),
                        quantile(m.gap_ms, 0.99));
            std::fflush(stdout);
        }
    }
    report["results"] = std::move(results);
    if (warm_prefix > 0) {
        const auto warm = measure_warm_prefix(b, model, warm_prefix, repeat);
        if (!json)
            std::printf("first token of %lld: new %.1f ms, repeated %.1f ms\n",
                        static_cast<long long>(warm_prefix), warm["cold_ttft_ms_p50"].get<double>(),
                        warm["warm_ttft_ms_p50"].get<double>());
        report["warm_prefix"] = warm;
    }
    if (json) std::cout << report.dump(2) << "\n";
    return 0;
}

}  // namespace tool
