// The text that /metrics answers.
#include "metrics.h"

#include <fmt/format.h>

#include <set>

#include "models.h"

namespace server {
namespace {

void put(std::string& text, const char* name, const char* kind, const char* help, double value) {
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help, kind, value);
}

std::string label(const std::string& value) {
    std::string text;
    for (const char c : value) {
        if (c == '\\' || c == '"') text += '\\';
        text += c == '\n' ? ' ' : c;
    }
    return text;
}

}  // namespace

void Metrics::count(const std::string& path, int status) {
    std::lock_guard lock(mutex_);
    ++requests_[{path, status}];
}

std::string Metrics::text(const ModelPool& pool) const {
    std::string text;
    const double prompt_s = double(prompt_us) / 1e6, generation_s = double(generation_us) / 1e6;
    put(text, "llamacpp:prompt_tokens_total", "counter", "Prompt tokens processed.", double(prompt_tokens));
    put(text, "llamacpp:prompt_seconds_total", "counter", "Time spent on prompts.", prompt_s);
    put(text, "llamacpp:tokens_predicted_total", "counter", "Tokens generated.", double(generated_tokens));
    put(text, "llamacpp:tokens_predicted_seconds_total", "counter", "Time spent generating.", generation_s);
    put(text, "llamacpp:prompt_tokens_seconds", "gauge", "Average prompt tokens per second.",
        prompt_s > 0 ? double(prompt_tokens) / prompt_s : 0);
    put(text, "llamacpp:predicted_tokens_seconds", "gauge", "Average generated tokens per second.",
        generation_s > 0 ? double(generated_tokens) / generation_s : 0);
    put(text, "coterie_cached_tokens_total", "counter", "Prompt tokens found in the cache.",
        double(cached_tokens));
    put(text, "coterie_cancelled_total", "counter", "Generations whose client went away.", double(cancelled));
    int64_t running = 0, waiting = 0;
    std::map<std::string, std::string> families;
    const auto add = [&](const char* family, const std::string& model, double value) {
        families[family] += fmt::format("{}{{model=\"{}\"}} {}\n", family, model, value);
    };
    std::set<const coterie::Engine*> counted;
    pool.visit([&](const LoadedModel& m) {
        const coterie_engine_statistics s = m.engine->statistics();
        if (counted.insert(m.engine.get()).second) {  // names of one file share it
            running += s.running;
            waiting += s.waiting;
        }
        const std::string name = label(m.facts.name);
        add("coterie_model_bytes", name, double(m.bytes));
        add("coterie_model_pages", name, double(s.pages));
        add("coterie_model_pages_held", name, double(s.pages_held));
        add("coterie_model_pages_cached", name, double(s.pages_cached));
        add("coterie_model_running", name, s.running);
        add("coterie_model_waiting", name, s.waiting);
        add("coterie_model_tokens_per_second", name, s.tokens_per_second);
        add("coterie_model_step_seconds_p99", name, double(s.step_us_p99) / 1e6);
        add("coterie_model_state", name, coterie_engine_state(m.engine->get()));
    });
    put(text, "llamacpp:requests_processing", "gauge", "Generations running.", double(running));
    put(text, "llamacpp:requests_deferred", "gauge", "Generations waiting.", double(waiting));
    for (const auto& [family, rows] : families) text += fmt::format("# TYPE {} gauge\n{}", family, rows);
    text += pool.health().metrics();
    text += "# HELP coterie_requests_total Requests answered.\n# TYPE coterie_requests_total counter\n";
    std::lock_guard lock(mutex_);
    for (const auto& [key, n] : requests_)
        text += fmt::format("coterie_requests_total{{path=\"{}\",status=\"{}\"}} {}\n", label(key.first),
                            key.second, n);
    return text;
}

}  // namespace server
