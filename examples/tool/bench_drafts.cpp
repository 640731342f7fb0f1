#include "bench_drafts.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.h"

namespace tool {
namespace {

using Clock = std::chrono::steady_clock;

struct Task {
    std::string name, prompt;
};

// One answer that repeats much of its prompt, and one that repeats nothing.
std::vector<Task> built_in_tasks() {
    const std::string code =
        "class Account:\n    def __init__(self, owner, balance):\n        self.owner = owner\n"
        "        self.balance = balance\n\n    def deposit(self, amount):\n        if amount <= 0:\n"
        "            raise ValueError(\"the amount must be positive\")\n        self.balance += amount\n\n"
        "    def withdraw(self, amount):\n        if amount > self.balance:\n"
        "            raise ValueError(\"not enough money\")\n        self.balance -= amount\n";
    return {
        {"edit",
         "Rename the class Account to Wallet and give the whole code again, otherwise unchanged.\n\n" + code},
        {"prose", "Tell a long story about a lighthouse keeper who finds a letter in a bottle."}};
}

struct Measured {
    std::vector<double> rates;
    int64_t generated = 0, drafted = 0, accepted = 0;
};

double median(std::vector<double> v) {
    if (v.empty()) return 0;
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

// Tokens per second of n answers together, from their first tokens on.
void run(coterie::Engine& engine, const std::vector<int32_t>& prompt, int64_t drafts, int64_t n,
         int64_t answer, Measured& m) {
    coterie_generation_options o = COTERIE_GENERATION_OPTIONS_INIT;
    o.flags = COTERIE_GREEDY | COTERIE_IGNORE_END;
    o.max_tokens = answer;
    o.draft_tokens = drafts > 0 ? int32_t(drafts) : -1;
    std::vector<coterie::Generation> running;
    coterie_event event;
    for (int64_t i = 0; i < n; ++i) running.push_back(engine.generate(prompt, o));
    for (auto& g : running) g.next(event);
    const Clock::time_point begin = Clock::now();
    for (auto& g : running)
        while (event = {}, g.next(event) && event.kind != COTERIE_EVENT_FINISHED) {
        }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    int64_t generated = 0;
    for (auto& g : running) {
        const coterie_generation_statistics s = g.statistics();
        generated += s.generated_tokens - 1;
        m.drafted += s.drafted_tokens;
        m.accepted += s.accepted_tokens;
    }
    m.generated += generated;
    m.rates.push_back(double(generated) / seconds);
}

}  // namespace

int bench_drafts(const BenchEngine& b, const std::vector<int64_t>& drafts,
                 const std::vector<int64_t>& streams, int64_t answer, const std::string& text, int repeat,
                 bool json) {
    const coterie::Model model(b.model);
    std::vector<Task> tasks = built_in_tasks();
    if (!text.empty()) tasks = {{"text", text}};
    std::vector<std::vector<int32_t>> prompts;
    size_t longest = 0;
    for (const Task& task : tasks) {
        std::string prompt = task.prompt;
        if (text.empty() && model.info().has_chat_template)
            prompt = model.render(nlohmann::json::array({{{"role", "user"}, {"content", prompt}}}).dump());
        prompts.push_back(model.tokenize(prompt, COTERIE_ADD_SPECIAL | COTERIE_PARSE_SPECIAL));
        longest = std::max(longest, prompts.back().size());
    }
    coterie_engine_options o = b.options();
    o.context_tokens = int64_t(longest) + answer + 64;
    o.parallel = int32_t(*std::max_element(streams.begin(), streams.end()));
    o.draft_tokens = int32_t(*std::max_element(drafts.begin(), drafts.end()));
    coterie::Engine engine(model, o);
    settle(engine);
    if (!json)
        std::printf("%8s %8s %8s %12s %8s %10s %10s\n", "text", "streams", "drafts", "tokens/s", "gain",
                    "guessed", "right");
    nlohmann::ordered_json results = nlohmann::ordered_json::array();
    for (size_t t = 0; t < tasks.size(); ++t)
        for (const int64_t n : streams) {
            double plain = 0;
            std::vector<int64_t> ways{0};
            for (const int64_t d : drafts)
                if (d > 0) ways.push_back(d);
            for (const int64_t d : ways) {
                Measured warm_up, m;
                run(engine, prompts[t], d, n, std::min<int64_t>(answer, 8), warm_up);
                for (int i = 0; i < repeat; ++i) run(engine, prompts[t], d, n, answer, m);
                const double rate = median(m.rates);
                if (d == 0) plain = rate;
                results.push_back({{"text", tasks[t].name},
                                   {"n_streams", n},
                                   {"draft_tokens", d},
                                   {"aggregate_tokens_per_second", rate},
                                   {"gain", rate / plain},
                                   {"generated_tokens", m.generated},
                                   {"drafted_tokens", m.drafted},
                                   {"accepted_tokens", m.accepted},
                                   {"samples", m.rates}});
                if (json) continue;
                std::printf("%8s %8lld %8lld %12.2f %7.2fx %10.3f %10.3f\n", tasks[t].name.c_str(),
                            static_cast<long long>(n), static_cast<long long>(d), rate, rate / plain,
                            double(m.drafted) / double(std::max<int64_t>(m.generated, 1)),
                            double(m.accepted) / double(std::max<int64_t>(m.generated, 1)));
                std::fflush(stdout);
            }
        }
    if (json) std::cout << nlohmann::ordered_json{{"results", std::move(results)}}.dump(2) << "\n";
    return 0;
}

}  // namespace tool
