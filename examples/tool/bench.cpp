// bench: prompt and decode speed of a model, in the manner of llama-bench: every test several times, median
// and spread.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "bench_drafts.h"
#include "bench_streams.h"
#include "commands.h"

namespace tool {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments : BenchEngine {
    std::string prompts = "512", answers = "64", batches = "1", depths = "0", concurrency, drafts, text;
    int64_t warm_prefix = 0;
    int repeat = 5;
    bool json = false;
};

struct Result {
    int64_t prompt = 0, generated = 0, sequences = 1, context = 0;
    std::vector<double> samples;  // tokens per second
};

double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v.size() % 2 ? v[v.size() / 2] : (v[v.size() / 2 - 1] + v[v.size() / 2]) / 2;
}

class Bench {
  public:
    Bench(const Arguments& a, int64_t context, int64_t parallel) : model_(a.model) {
        coterie_engine_options o = a.options();
        o.context_tokens = context;
        o.parallel = int32_t(parallel);
        o.no_prefix_reuse = 1;
        const Clock::time_point begin = Clock::now();
        engine_ = std::make_unique<coterie::Engine>(model_, o);
        load_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        settle_seconds = settle(*engine_);
        vocabulary_ = model_.info().vocabulary;
    }

    double load_seconds = 0, settle_seconds = 0;

    // Tokens per second of `sequences` answers of n tokens after `depth` tokens each; with n == 0, of the
    // prompt.
    double run(int64_t prompt, int64_t n, int64_t sequences, int64_t depth) {
        coterie_generation_options o = COTERIE_GENERATION_OPTIONS_INIT;
        o.flags = COTERIE_GREEDY | COTERIE_IGNORE_END;
        o.max_tokens = n == 0 ? 1 : n + 1;
        std::vector<coterie::Generation> running;
        for (int64_t i = 0; i < sequences; ++i)
            running.push_back(engine_->generate(tokens(n == 0 ? prompt : depth + 1), o));
        // Decode is timed from the moment the last sequence has its first token.
        Clock::time_point begin = Clock::now(), end = begin;
        std::vector<int64_t> seen(running.size(), 0);
        int64_t counted = 0;
        bool started = false;
        for (bool open = true; open;) {
            open = false;
            for (size_t i = 0; i < running.size(); ++i) {
                coterie_event event;
                if (seen[i] > n) continue;
                open = true;
                if (!running[i].next(event)) continue;
                if (event.kind != COTERIE_EVENT_TOKEN) continue;
                ++seen[i];
                end = Clock::now();
                if (started)
                    ++counted;
                else if (std::all_of(seen.begin(), seen.end(), [](int64_t s) { return s > 0; })) {
                    started = true;
                    if (n > 0) begin = end;
                }
                if (n == 0) seen[i] = 1;
            }
            if (n == 0 && started) break;
        }
        if (n == 0) {
            const coterie_generation_statistics s = running[0].statistics();
            return double(prompt) * 1e6 / double(std::max<int64_t>(s.prefill_us, 1));
        }
        return double(counted) / std::chrono::duration<double>(end - begin).count();
    }

  private:
    std::vector<int32_t> tokens(int64_t n) {
        std::vector<int32_t> result;
        std::uniform_int_distribution<int32_t> any(0, vocabulary_ - 1);
        for (int64_t i = 0; i < n; ++i) result.push_back(any(random_));
        return result;
    }
    coterie::Model model_;
    std::unique_ptr<coterie::Engine> engine_;
    int32_t vocabulary_ = 0;
    std::mt19937 random_{1};
};

int64_t largest(const std::vector<int64_t>& v) {
    return v.empty() ? 0 : *std::max_element(v.begin(), v.end());
}

int bench(const Arguments& a) {
    if (!a.drafts.empty()) {
        const std::vector<int64_t> answers = read_numbers(a.answers);
        return bench_drafts(
            a, read_numbers(a.drafts), read_numbers(a.concurrency.empty() ? "1" : a.concurrency),
            answers.empty() ? 64 : std::max<int64_t>(answers[0], 2),
            a.text.empty() ? std::string() : read_file(a.text), std::max(a.repeat, 1), a.json);
    }
    if (!a.concurrency.empty() || a.warm_prefix > 0) {
        const std::vector<int64_t> prompts = read_numbers(a.prompts), answers = read_numbers(a.answers);
        return bench_streams(a, read_numbers(a.concurrency), prompts.empty() ? 0 : prompts[0],
                             answers.empty() ? 0 : answers[0], a.warm_prefix, a.repeat, a.json);
    }
    const std::vector<int64_t> prompts = read_numbers(a.prompts), answers = read_numbers(a.answers),
                               batches = read_numbers(a.batches), depths = read_numbers(a.depths);
    const int64_t parallel = std::max<int64_t>(1, largest(batches));
    Bench bench(a, std::max(largest(prompts), largest(depths) + largest(answers)) + 64, parallel);
    std::vector<Result> results;
    for (const int64_t depth : depths) {
        for (const int64_t p : prompts)
            if (p > 0 && depth == 0) results.push_back({p, 0, 1, 0, {}});
        for (const int64_t n : answers)
            for (const int64_t b : batches)
                if (n > 0 && b > 0) results.push_back({0, n, b, depth, {}});
    }
    if (!a.json)
        std::printf("loaded in %.2f s; experts packed after %.2f s more (it answers meanwhile)\n",
                    bench.load_seconds, bench.settle_seconds);
    if (!a.json)
        std::printf("%8s %8s %10s %8s %12s %12s %12s\n", "prompt", "decode", "sequences", "context",
                    "tokens/s", "least", "most");
    for (Result& r : results) {
        bench.run(r.prompt, std::min<int64_t>(r.generated, 8), r.sequences, r.context);  // warm up
        for (int i = 0; i < a.repeat; ++i)
            r.samples.push_back(bench.run(r.prompt, r.generated, r.sequences, r.context));
        if (!a.json)
            std::printf("%8lld %8lld %10lld %8lld %12.2f %12.2f %12.2f\n", static_cast<long long>(r.prompt),
                        static_cast<long long>(r.generated), static_cast<long long>(r.sequences),
                        static_cast<long long>(r.context), median(r.samples),
                        *std::min_element(r.samples.begin(), r.samples.end()),
                        *std::max_element(r.samples.begin(), r.samples.end()));
        std::fflush(stdout);
    }
    if (a.json) {
        nlohmann::ordered_json list = nlohmann::ordered_json::array();
        for (const Result& r : results)
            list.push_back({{"n_prompt", r.prompt},
                            {"n_gen", r.generated},
                            {"n_sequences", r.sequences},
                            {"n_context", r.context},
                            {"tokens_per_second", median(r.samples)},
                            {"samples", r.samples}});
        std::cout << nlohmann::ordered_json{{"load_seconds", bench.load_seconds},
                                            {"settle_seconds", bench.settle_seconds},
                                            {"results", std::move(list)}}
                         .dump(2)
                  << "\n";
    }
    return 0;
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
    auto a = std::make_shared<Arguments>();
    CLI::App* c = app.add_subcommand("bench", "Prompt and decode speed");
    c->add_option("model", a->model, "GGUF file")->required();
    c->add_option("-p,--prompt", a->prompts, "Prompt lengths: 128,512");
    c->add_option("-n,--gen", a->answers, "Answer lengths: 64");
    c->add_option("-b,--sequences", a->batches, "Sequences decoded at once: 1,2,4,8");
    c->add_option("-d,--depth", a->depths, "Tokens in the context before decoding: 0,4096");
    c->add_option("-c,--concurrency", a->concurrency,
                  "Streams at once: 1,2,4,8,16; their latency and tokens/s instead of the other tests");
    c->add_option("--warm-prefix", a->warm_prefix,
                  "Time to the first token of a prompt of so many tokens, new and repeated");
    c->add_option("--drafts", a->drafts,
                  "Guessed tokens per step: 4,8; what they gain on a text that repeats its prompt and on one "
                  "that doesn't");
    c->add_option("--text", a->text,
                  "File with a prompt to complete for --drafts instead of the built-in ones");
    c->add_option("-r,--repeat", a->repeat, "Runs of each test");
    c->add_option("-t,--threads", a->threads, "Threads (0: all usable cores)");
    c->add_option("--devices", a->devices, "cpu, cpu:N, cuda, cuda:0,1 or reference");
    c->add_option("--isa", a->isa, "Instruction set of the CPU: avx512, avx2, portable");
    add_cache_types(*c, a->key_type, a->value_type);
    add_host_options(*c, a->host_experts, a->device_memory);
    c->add_option("--mode", a->mode, "How ranks share the model: auto, tensor, expert or layer");
    c->add_flag("--json", a->json, "As JSON");
    c->callback([a, &action] { action = [a] { return bench(*a); }; });
}

}  // namespace tool
