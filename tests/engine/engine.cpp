// The engine on tiny models and the reference device: greedy answers equal those others computed; many at
// once equal each alone.
#include "engine/engine.h"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "catch.h"
#include "model/golden.h"

using namespace coterie;
using namespace std::chrono_literals;

namespace {

std::string path(const std::string& name) {
    return std::string(TEST_DATA "/golden/llamacpp/") + name;
}

struct Loaded {
    std::shared_ptr<const Model> model;
    std::shared_ptr<const text::Tokenizer> tokenizer;
    nlohmann::json golden;
    explicit Loaded(const std::string& name)
        : model(Model::open(path(name + ".gguf"))),
          tokenizer(std::make_shared<const text::Tokenizer>(text::Tokenizer::from_gguf(model->file()))) {
        std::ifstream file(path(name + ".json"));
        golden = nlohmann::json::parse(file);
    }
    std::vector<int32_t> tokens(const char* key) const { return golden.at(key).get<std::vector<int32_t>>(); }
};

EngineOptions exact(int32_t parallel = 1) {
    EngineOptions o;
    o.devices = "reference";
    o.key_type = o.value_type = Type::F32;
    o.parallel = parallel;
    o.context_tokens = 512;
    return o;
}

GenerationRequest greedy(std::vector<int32_t> prompt, int64_t tokens) {
    GenerationRequest r;
    r.prompt = std::move(prompt);
    r.sampling.temperature = 0.0f;
    r.max_tokens = tokens;
    r.ignore_end = true;
    return r;
}

std::vector<int32_t> drain(Generation& g) {
    std::vector<int32_t> tokens;
    Piece piece;
    while (g.next(piece, -1ms) == Generation::Next::piece) tokens.push_back(piece.token);
    return tokens;
}

}  // namespace

TEST_CASE("greedy answers equal llama.cpp's") {
    for (const char* name : {"nano-llama-f32", "nano-qwen3-f32", "nano-qwen3moe-f32", "nano-qwen35moe-f32"}) {
        CAPTURE(name);
        const Loaded l(name);
        Engine engine(l.model, l.tokenizer, exact());
        const auto g = engine.submit(greedy(l.tokens("prompt"), 32));
        CHECK(drain(*g) == l.tokens("greedy"));
        CHECK(g->reason() == FinishReason::token_limit);
        CHECK(g->statistics().generated_tokens == 32);
        const auto longer = engine.submit(greedy(l.tokens("long_prompt"), 8));
        CHECK(drain(*longer) == l.tokens("long_greedy"));
        // The same prompt again begins with pages that are there.
        const auto again = engine.submit(greedy(l.tokens("long_prompt"), 8));
        CHECK(drain(*again) == l.tokens("long_greedy"));
        CHECK(again->statistics().cached_tokens >= 256);
    }
}

TEST_CASE("several generations at once equal each alone") {
    const Loaded l("nano-qwen35moe-f32");
    const std::vector<int32_t> all = l.tokens("long_prompt");
    std::vector<std::vector<int32_t>> prompts, alone;
    for (const size_t n : {3u, 64u, 65u, 130u, 17u, 200u})
        prompts.emplace_back(all.begin() + long(n) / 2, all.begin() + long(n / 2 + n / 2 + 1));
    for (const auto& prompt : prompts) {
        Engine engine(l.model, l.tokenizer, exact());
        alone.push_back(drain(*engine.submit(greedy(prompt, 20))));
    }
    Engine engine(l.model, l.tokenizer, exact(3));
    std::vector<std::shared_ptr<Generation>> running;
    for (const auto& prompt : prompts) running.push_back(engine.submit(greedy(prompt, 20)));
    for (size_t i = 0; i < running.size(); ++i) {
        CAPTURE(i);
        CHECK(drain(*running[i]) == alone[i]);
    }
}

TEST_CASE("cancel, limits and refusals") {
    const Loaded l("nano-llama-f32");
    EngineOptions o = exact();
    o.context_tokens = 64;
    o.queue = 2;
    Engine engine(l.model, l.tokenizer, o);
    CHECK_THROWS_AS(engine.submit(greedy({}, 1)), Failure);
    CHECK_THROWS_AS(engine.submit(greedy({1 << 30}, 1)), Failure);
    CHECK_THROWS_AS(engine.submit(greedy(std::vector<int32_t>(65, 1), 1)), Failure);
    const auto full = engine.submit(greedy({1, 2, 3}, -1));
    CHECK(drain(*full).size() == 62);  // 3 of the prompt, 61 in the context, and one more that was sampled
    CHECK(full->reason() == FinishReason::context_full);

    GenerationRequest forever = greedy({1, 2, 3}, -1);
    forever.context_policy = ContextPolicy::shift;
    const auto endless = engine.submit(std::move(forever));
    Piece piece;
    for (int i = 0; i < 150; ++i) REQUIRE(endless->next(piece, -1ms) == Generation::Next::piece);
    endless->cancel();
    drain(*endless);
    CHECK(endless->reason() == FinishReason::cancelled);
}

TEST_CASE("a Q8_0 cache works with every architecture whose heads allow it, and is refused in words else") {
    for (const std::string& name : golden::names("")) {
        CAPTURE(name);
        const golden::Case c = golden::load(name);
        const auto model = Model::open(c.path);
        const auto tokenizer =
            std::make_shared<const text::Tokenizer>(text::Tokenizer::from_gguf(model->file()));
        EngineOptions o;
        o.threads = 1;
        o.context_tokens = 256;
        o.key_type = o.value_type = Type::Q8_0;
        if (model->numbers().key_dim % 32 == 0 && model->numbers().value_dim % 32 == 0) {
            Engine engine(model, tokenizer, o);
            const auto g = engine.submit(greedy(c.prompt, 8));
            CHECK(drain(*g).size() == 8);
            CHECK(g->reason() == FinishReason::token_limit);
        } else {
            try {
                Engine engine(model, tokenizer, o);
                FAIL("it was not refused");
            } catch (const Failure& failure) {
                CHECK(failure.status() == Status::unsupported);
                CHECK(failure.message().find("multiple of 32") != std::string::npos);
            }
        }
    }
}

TEST_CASE("many threads, forks, saves and cancels at once") {
    const Loaded l("nano-qwen35moe-f32");
    EngineOptions o = exact(3);
    o.devices = "cpu";
    o.threads = 1;
    Engine engine(l.model, l.tokenizer, o);
    const std::vector<int32_t> prompt = l.tokens("prompt"), want = l.tokens("greedy");
    std::vector<std::thread> threads;
    std::vector<int> wrong(6, 0);
    for (size_t t = 0; t < wrong.size(); ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 4; ++i) {
                const auto g = engine.submit(greedy(prompt, 12));
                if (t % 3 == 0) {
                    const auto child = engine.fork(*g, greedy({}, 6));
                    const size_t at = size_t(child->statistics().prompt_tokens) - prompt.size();
                    const std::vector<int32_t> got = drain(*child);
                    wrong[t] +=
                        got != std::vector<int32_t>(want.begin() + long(at), want.begin() + long(at + 6));
                }
                if (t % 3 == 1) engine.save(*g, "engine-threads-" + std::to_string(t) + ".sequence");
                if (t % 3 == 2 && i == 1) g->cancel();
                const std::vector<int32_t> got = drain(*g);
                if (g->reason() == FinishReason::token_limit)
                    wrong[t] += got != std::vector<int32_t>(want.begin(), want.begin() + 12);
                engine.statistics();
            }
        });
    for (std::thread& thread : threads) thread.join();
    for (const int w : wrong) CHECK(w == 0);
    for (const int t : {1, 4}) {
        const std::string path = "engine-threads-" + std::to_string(t) + ".sequence";
        const std::vector<int32_t> saved = engine.restore(path);
        CHECK(saved.size() >= prompt.size());
        std::remove(path.c_str());
    }
    CHECK(engine.statistics().pages_held == 0);
}
