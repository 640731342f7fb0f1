// Forks, saved generations and the statistics that grew, through the C border.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "coterie/coterie.hpp"

namespace {

std::vector<int32_t> drain(coterie::Generation& g) {
    std::vector<int32_t> tokens;
    coterie_event event;
    while (g.next(event) && event.kind != COTERIE_EVENT_FINISHED)
        if (event.kind == COTERIE_EVENT_TOKEN) tokens.push_back(event.token);
    return tokens;
}

}  // namespace

TEST_CASE("fork, save and restore through the C border") {
    std::ifstream golden_file(TEST_DATA "/golden/llamacpp/nano-qwen35moe-f32.json");
    const nlohmann::json golden = nlohmann::json::parse(golden_file);
    const auto prompt = golden.at("long_prompt").get<std::vector<int32_t>>();
    const auto greedy = golden.at("long_greedy").get<std::vector<int32_t>>();
    const std::string path = "capi-test.sequence";
    const coterie::Model model(TEST_DATA "/golden/llamacpp/nano-qwen35moe-f32.gguf");
    coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
    o.key_type = o.value_type = "f32";
    o.context_tokens = 512;
    o.parallel = 2;
    coterie_generation_options g = COTERIE_GENERATION_OPTIONS_INIT;
    g.flags = COTERIE_GREEDY | COTERIE_IGNORE_END;
    g.max_tokens = 4;
    {
        coterie::Engine engine(model, o);
        coterie::Generation first = engine.generate(prompt, g);
        CHECK(drain(first) == std::vector<int32_t>(greedy.begin(), greedy.begin() + 4));
        std::vector<int32_t> tokens = prompt;
        tokens.insert(tokens.end(), greedy.begin(), greedy.begin() + 4);
        CHECK(first.tokens() == tokens);
        coterie::Generation second = first.fork(g);
        CHECK(drain(second) == std::vector<int32_t>(greedy.begin() + 4, greedy.begin() + 8));
        CHECK(second.statistics().cached_tokens > 0);
        first.save(path);
        const coterie_engine_statistics s = engine.statistics();
        CHECK(s.queue == 64);
        CHECK(s.state_slots == 2 + 8);
        CHECK(s.checkpoints > 0);
        CHECK(s.checkpoint_hits > 0);
        CHECK(s.prefix_hit_rate > 0.4);
        CHECK(s.step_us_p50 > 0);
        CHECK(s.step_us_p99 >= s.step_us_p50);
        CHECK(s.tokens_per_second > 0);
        // An older caller's shorter struct is filled as far as it goes.
        coterie_engine_statistics old = COTERIE_ENGINE_STATISTICS_INIT;
        old.struct_size = 96;
        old.queue = -7;
        CHECK(coterie_engine_get_statistics(engine.get(), &old, nullptr) == COTERIE_OK);
        CHECK(old.steps == s.steps);
        CHECK(old.queue == -7);
    }
    coterie::Engine engine(model, o);
    coterie::Generation again = engine.restore(path, g);
    CHECK(drain(again) == std::vector<int32_t>(greedy.begin() + 4, greedy.begin() + 8));
    CHECK(again.statistics().cached_tokens >= int64_t(prompt.size()) - 64);
    CHECK(coterie_engine_restore(engine.get(), path.c_str(), nullptr, nullptr, nullptr) == COTERIE_OK);
    // The layout of another cache type is not this one's.
    o.key_type = "f16";
    coterie::Engine other(model, o);
    coterie_error error = COTERIE_ERROR_INIT;
    CHECK(coterie_engine_restore(other.get(), path.c_str(), nullptr, nullptr, &error) ==
          COTERIE_INVALID_ARGUMENT);
    CHECK(std::string(error.message).find("keys F32") != std::string::npos);
    std::remove(path.c_str());
}

TEST_CASE("a fork of a chat tells only what it adds") {
    const coterie::Model model(TEST_DATA "/golden/llamacpp/nano-qwen3moe-f32.gguf");
    coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
    o.parallel = 2;
    coterie::Engine engine(model, o);
    coterie_generation_options g = COTERIE_GENERATION_OPTIONS_INIT;
    g.flags = COTERIE_GREEDY | COTERIE_IGNORE_END;
    g.max_tokens = 12;
    const std::string messages = R"([{"role":"user","content":"Hello"}])";
    coterie_generation_options whole = g;
    whole.max_tokens = 24;
    const auto text_of = [](coterie::Generation& generation) {
        std::string text;
        coterie_event event;
        while (generation.next(event) && event.kind != COTERIE_EVENT_FINISHED)
            text.append(event.text, event.length);
        return text;
    };
    coterie::Generation all = engine.chat(messages, {}, COTERIE_CHAT_OPTIONS_INIT, whole);
    coterie::Generation first = engine.chat(messages, {}, COTERIE_CHAT_OPTIONS_INIT, g);
    const std::string expected = text_of(all), head = text_of(first);
    coterie::Generation second = first.fork(g);
    const std::string tail = text_of(second);
    CHECK(!tail.empty());
    CHECK(second.tokens() == all.tokens());
    // What the first flushed at its end may be cut inside a character; the rest is the same text.
    CHECK(expected.size() >= tail.size());
    CHECK(expected.substr(expected.size() - tail.size()) == tail);
}
