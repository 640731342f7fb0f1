// Experts left on the host: computed there by the CPU device while the rest of the model is elsewhere, here
// on reference devices with too little memory; and the engine's options that ask for it.
#include "catch.h"
#include "engine/engine.h"
#include "model/golden.h"
#include "text/tokenizer.h"

using namespace coterie;

namespace {

std::vector<int32_t> answer(Engine& engine, const std::vector<int32_t>& prompt) {
    GenerationRequest request;
    request.prompt = prompt;
    request.sampling.temperature = 0;
    request.max_tokens = 12;
    request.ignore_end = true;
    const auto generation = engine.submit(std::move(request));
    std::vector<int32_t> tokens;
    Piece piece;
    while (generation->next(piece, std::chrono::milliseconds(-1)) == Generation::Next::piece)
        tokens.push_back(piece.token);
    return tokens;
}

}  // namespace

TEST_CASE("experts that don't fit are computed on the host") {
    for (const char* name : {"qwen3moe", "qwen35moe-a", "gpt-oss-a"})
        for (const char* devices : {"reference", "reference:2", "cpu:2"}) {
            CAPTURE(name, devices);
            const golden::Case c = golden::load(name);
            const auto model = Model::open(c.path);
            const auto tokenizer =
                std::make_shared<text::Tokenizer>(text::Tokenizer::from_gguf(model->file()));
            EngineOptions options;
            options.devices = devices;
            options.threads = 1;
            options.context_tokens = 64;
            options.key_type = options.value_type = Type::F32;
            options.mode = Mode::tensor;
            const uint64_t whole = [&] {
                const Engine engine(model, tokenizer, options);
                CHECK(engine.plan().host_experts == 0);
                return engine.plan().ranks[0].total_bytes();
            }();
            options.device_bytes = whole - 1;
            CHECK_THROWS_AS(Engine(model, tokenizer, options), Failure);
            options.host_experts = true;
            Engine engine(model, tokenizer, options);
            const Plan& plan = engine.plan();
            CHECK(plan.host_experts > 0);
            CHECK(plan.host_experts < model->numbers().router.experts);
            CHECK(plan.ranks.back().device == "host");
            CHECK(plan.ranks.back().kind == DeviceKind::cpu);
            CHECK(engine.runner().device(engine.runner().ranks() - 1).name() == "cpu");
            for (size_t r = 0; r + 1 < plan.ranks.size(); ++r) CHECK(plan.ranks[r].total_bytes() < whole);
            const std::vector<int32_t> tokens = answer(engine, c.prompt);
            REQUIRE(tokens.size() == 12);
            CHECK(std::equal(tokens.begin(), tokens.end(), c.greedy.begin()));
        }
}
