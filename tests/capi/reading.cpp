// Embeddings, logits and likelihoods through the border, against transformers' hidden states and logits.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "catch.h"
#include "coterie/coterie.hpp"

namespace {

const std::string folder = TEST_DATA "/golden/";

struct Golden {
    nlohmann::json facts;
    std::vector<int32_t> prompt;
    std::vector<double> logits, hidden;
    size_t vocabulary;
    explicit Golden(const std::string& name)
        : facts(nlohmann::json::parse(std::ifstream(folder + name + ".json"))),
          prompt(facts.at("prompt").get<std::vector<int32_t>>()),
          logits(doubles(name + ".logits.bin")),
          hidden(doubles(name + ".hidden.bin")),
          vocabulary(facts.at("n_vocab").get<size_t>()) {}

  private:
    static std::vector<double> doubles(const std::string& name) {
        std::ifstream file(folder + name, std::ios::binary);
        const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        std::vector<double> values(bytes.size() / sizeof(double));
        std::memcpy(values.data(), bytes.data(), values.size() * sizeof(double));
        return values;
    }
};

coterie::Engine exact_engine(const coterie::Model& model, const char* devices = "reference",
                             int32_t parallel = 1, int32_t step_rows = 0) {
    coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
    o.devices = devices;
    o.key_type = o.value_type = "f32";
    o.context_tokens = 256;
    o.parallel = parallel;
    o.step_rows = step_rows;
    return coterie::Engine(model, o);
}

coterie_input input_of(const std::vector<int32_t>& tokens) {
    return {nullptr, 0, tokens.data(), tokens.size()};
}

template <typename A, typename B>
double distance(const A& got, const B& want) {
    REQUIRE(got.size() == want.size());
    double difference = 0, size = 0;
    for (size_t i = 0; i < want.size(); ++i) {
        difference += (double(got[i]) - double(want[i])) * (double(got[i]) - double(want[i]));
        size += double(want[i]) * double(want[i]);
    }
    return difference / size;
}

std::vector<float> embed(coterie::Engine& engine, const std::vector<int32_t>& tokens, int32_t pooling,
                         size_t width, int32_t raw = 0, int32_t dimensions = 0) {
    coterie_reading_options o = COTERIE_READING_OPTIONS_INIT;
    o.pooling = pooling;
    o.raw = raw;
    o.dimensions = dimensions;
    const coterie_input input = input_of(tokens);
    std::vector<float> result(dimensions > 0 ? size_t(dimensions) : width);
    coterie::check([&](coterie_error* e) {
        return coterie_embed(engine.get(), &input, 1, &o, result.data(), result.size(), nullptr, e);
    });
    return result;
}

std::vector<double> scaled(std::vector<double> v) {
    double square = 0;
    for (const double x : v) square += x * x;
    for (double& x : v) x /= std::sqrt(square);
    return v;
}

}  // namespace

TEST_CASE("embeddings are transformers' hidden states, pooled") {
    for (const char* name : {"llama-tied", "qwen3", "qwen3moe", "gemma3", "qwen35moe-a"})
        for (const char* devices : {"reference", "reference:2"}) {
            CAPTURE(name);
            CAPTURE(devices);
            const Golden g(name);
            const coterie::Model model(folder + name + ".gguf");
            const size_t width = size_t(model.info().embedding), rows = g.prompt.size();
            REQUIRE(g.hidden.size() == rows * width);
            std::vector<double> mean(width, 0.0);
            for (size_t i = 0; i < g.hidden.size(); ++i) mean[i % width] += g.hidden[i] / double(rows);
            const std::vector<double> first(g.hidden.begin(), g.hidden.begin() + long(width)),
                last(g.hidden.end() - long(width), g.hidden.end());
            coterie::Engine engine = exact_engine(model, devices, 1, 5);  // in chunks
            CHECK(distance(embed(engine, g.prompt, COTERIE_POOL_MEAN, width, 1), mean) < 1e-9);
            CHECK(distance(embed(engine, g.prompt, 0, width), scaled(mean)) < 1e-9);
            CHECK(distance(embed(engine, g.prompt, COTERIE_POOL_CLS, width), scaled(first)) < 1e-9);
            CHECK(distance(embed(engine, g.prompt, COTERIE_POOL_LAST, width), scaled(last)) < 1e-9);
            const std::vector<double> some(last.begin(), last.begin() + 8);
            CHECK(distance(embed(engine, g.prompt, COTERIE_POOL_LAST, width, 0, 8), scaled(some)) < 1e-9);
        }
}

TEST_CASE("logits of every row and of the last are transformers'") {
    for (const char* name : {"llama-tied", "qwen3moe", "qwen35moe-a", "gemma3"}) {
        CAPTURE(name);
        const Golden g(name);
        const coterie::Model model(folder + name + ".gguf");
        coterie::Engine engine = exact_engine(model, "reference", 3, 7);
        CHECK(distance(engine.logits(g.prompt), g.logits) < 1e-9);
        const std::vector<double> last(g.logits.end() - long(g.vocabulary), g.logits.end());
        CHECK(distance(engine.logits(g.prompt, g.prompt.size() - 1), last) < 1e-9);
    }
}

TEST_CASE("given tokens are scored, many at once") {
    const Golden g("qwen3moe");
    const coterie::Model model(folder + "qwen3moe.gguf");
    coterie::Engine engine = exact_engine(model, "reference", 2, 9);
    std::vector<double> want(1, 0.0);
    for (size_t i = 0; i + 1 < g.prompt.size(); ++i) {
        double sum = 0;
        const double* row = g.logits.data() + i * g.vocabulary;
        for (size_t t = 0; t < g.vocabulary; ++t) sum += std::exp(row[t]);
        want.push_back(row[size_t(g.prompt[i + 1])] - std::log(sum));
    }
    std::vector<coterie_input> inputs;
    std::vector<size_t> lengths;
    for (size_t n = 1; n <= g.prompt.size(); ++n) {
        inputs.push_back({nullptr, 0, g.prompt.data(), n});
        lengths.push_back(n);
    }
    std::vector<float> got(g.prompt.size() * (g.prompt.size() + 1) / 2);
    std::vector<size_t> ends(inputs.size());
    size_t needed = 0;
    coterie_error error = COTERIE_ERROR_INIT;
    REQUIRE(coterie_score(engine.get(), inputs.data(), inputs.size(), nullptr, nullptr, 0, ends.data(),
                          &needed, &error) == COTERIE_OK);
    CHECK(needed == got.size());
    REQUIRE(coterie_score(engine.get(), inputs.data(), inputs.size(), nullptr, got.data(), got.size(),
                          ends.data(), &needed, &error) == COTERIE_OK);
    for (size_t i = 0, begin = 0; i < inputs.size(); begin = ends[i++]) {
        REQUIRE(ends[i] - begin == lengths[i]);
        for (size_t t = 0; t < lengths[i]; ++t) CHECK(std::abs(double(got[begin + t]) - want[t]) < 2e-5);
    }
    CHECK(coterie_score(engine.get(), inputs.data(), inputs.size(), nullptr, got.data(), 5, nullptr, nullptr,
                        &error) == COTERIE_INVALID_ARGUMENT);
}

TEST_CASE("readings take turns with generations, and change nothing in them") {
    const Golden g("qwen35moe-a");
    const coterie::Model model(folder + "qwen35moe-a.gguf");
    coterie::Engine engine = exact_engine(model, "reference", 2);
    coterie_generation_options o = COTERIE_GENERATION_OPTIONS_INIT;
    o.flags = COTERIE_GREEDY | COTERIE_IGNORE_END;
    o.max_tokens = 16;
    for (int i = 0; i < 4; ++i) {
        coterie::Generation generation = engine.generate(g.prompt, o);
        const std::vector<float> logits = engine.logits(g.prompt);
        CHECK(distance(logits, g.logits) < 1e-9);
        std::vector<int32_t> tokens;
        coterie_event event;
        while (generation.next(event) && event.kind != COTERIE_EVENT_FINISHED) tokens.push_back(event.token);
        CHECK(tokens == g.facts.at("greedy").get<std::vector<int32_t>>());
    }
}

TEST_CASE("texts are embedded and scored through the C++ header") {
    const coterie::Model model(folder + "qwen3.gguf");
    coterie::Engine engine = exact_engine(model);
    const auto embeddings = engine.embed({"one text", "another", "one text"});
    REQUIRE(embeddings.size() == 3);
    CHECK(embeddings[0] == embeddings[2]);
    CHECK(embeddings[0] != embeddings[1]);
    double square = 0;
    for (const float x : embeddings[1]) square += double(x) * double(x);
    CHECK(std::abs(square - 1.0) < 1e-6);
    const auto scores = engine.score({"one text", "another"});
    REQUIRE(scores.size() == 2);
    CHECK(scores[0].size() == model.tokenize("one text").size());
    CHECK(scores[0][0] == 0.0f);
    CHECK(scores[0][1] < 0.0f);
}

TEST_CASE("a reading is refused or cancelled with a sentence, and writes nothing afterwards") {
    const coterie::Model model(folder + "qwen3.gguf");
    coterie::Engine engine = exact_engine(model, "reference", 1, 2);
    const std::vector<int32_t> tokens(200, 7), long_tokens(300, 7), bad{1, 99999};
    const size_t width = size_t(model.info().embedding);
    std::vector<float> out(width);
    coterie_error error = COTERIE_ERROR_INIT;
    const auto try_with = [&](const coterie_input& input, const coterie_reading_options& o, size_t capacity) {
        return coterie_embed(engine.get(), &input, 1, &o, out.data(), capacity, nullptr, &error);
    };
    coterie_reading_options o = COTERIE_READING_OPTIONS_INIT;
    CHECK(try_with(input_of({}), o, width) == COTERIE_INVALID_ARGUMENT);
    CHECK(try_with(input_of(bad), o, width) == COTERIE_INVALID_ARGUMENT);
    CHECK(try_with(input_of(long_tokens), o, width) == COTERIE_TOO_LONG);
    CHECK(std::string(error.message).find("300") != std::string::npos);
    CHECK(try_with(input_of(tokens), o, width - 1) == COTERIE_INVALID_ARGUMENT);
    coterie_input both = input_of(tokens);
    both.text = "x";
    both.length = 1;
    CHECK(try_with(both, o, width) == COTERIE_INVALID_ARGUMENT);
    o.pooling = 9;
    CHECK(try_with(input_of(tokens), o, width) == COTERIE_INVALID_ARGUMENT);
    o.pooling = 0;
    o.dimensions = int32_t(width) + 1;
    CHECK(try_with(input_of(tokens), o, width + 1) == COTERIE_INVALID_ARGUMENT);
    o.dimensions = 0;
    o.truncate = 1;
    CHECK(try_with(input_of(long_tokens), o, width) == COTERIE_OK);
    CHECK(coterie_embed(nullptr, nullptr, 0, nullptr, nullptr, 0, nullptr, &error) ==
          COTERIE_INVALID_ARGUMENT);
    CHECK(coterie_embed(engine.get(), nullptr, 1, nullptr, out.data(), width, nullptr, &error) ==
          COTERIE_INVALID_ARGUMENT);
    CHECK(coterie_embed(engine.get(), nullptr, 0, nullptr, nullptr, 0, nullptr, &error) == COTERIE_OK);
    CHECK(coterie_read_logits(engine.get(), tokens.data(), 3, 3, nullptr, out.data(), width, &error) ==
          COTERIE_INVALID_ARGUMENT);
    CHECK(coterie_read_logits(engine.get(), nullptr, 3, 0, nullptr, out.data(), width, &error) ==
          COTERIE_INVALID_ARGUMENT);

    // After some progress the caller has enough; the engine goes on.
    uint64_t seen = 0;
    o = COTERIE_READING_OPTIONS_INIT;
    o.progress_user = &seen;
    o.progress = [](void* user, const char*, uint64_t done, uint64_t total) {
        *static_cast<uint64_t*>(user) = done;
        return done > total / 4 ? 1 : 0;
    };
    std::vector<coterie_input> many(40, input_of(tokens));
    std::vector<float> all(many.size() * width, 0.0f);
    CHECK(coterie_embed(engine.get(), many.data(), many.size(), &o, all.data(), all.size(), nullptr,
                        &error) == COTERIE_CANCELLED);
    CHECK(seen > 0);
    const std::vector<float> left = all;
    CHECK(try_with(input_of(tokens), COTERIE_READING_OPTIONS_INIT, width) == COTERIE_OK);
    CHECK(all == left);
    // The engine counts after it has told the caller.
    for (int i = 0; i < 200 && engine.statistics().running > 0; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    CHECK(engine.statistics().running == 0);
}

TEST_CASE("several threads read from one engine", "[threads]") {
    const Golden g("qwen3");
    const coterie::Model model(folder + "qwen3.gguf");
    coterie::Engine engine = exact_engine(model, "cpu", 2);
    const std::vector<float> want = engine.logits(g.prompt);
    std::vector<std::vector<float>> got[4];  // compared at the end: Catch's checks are for one thread
    std::vector<std::thread> threads;
    for (auto& mine : got)
        threads.emplace_back([&] {
            for (int j = 0; j < 4; ++j) mine.push_back(engine.logits(g.prompt));
        });
    for (std::thread& thread : threads) thread.join();
    for (const auto& mine : got)
        for (const std::vector<float>& logits : mine) CHECK(distance(logits, want) <= 1e-8);
}

TEST_CASE("an engine tells of its loading, its state and the progress of a prompt") {
    struct Told {
        std::vector<std::string> progress;
        std::vector<int32_t> states;
        std::vector<std::string> warnings;
    } told;
    const coterie::Model model(folder + "qwen3.gguf");
    coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
    o.devices = "cpu";
    o.step_rows = 16;
    o.threads = int32_t(std::thread::hardware_concurrency()) + 1;
    o.events_user = &told;
    o.events = [](void* user, const coterie_engine_event* event) {
        Told& t = *static_cast<Told*>(user);
        if (event->kind == COTERIE_ENGINE_PROGRESS) t.progress.emplace_back(event->message);
        if (event->kind == COTERIE_ENGINE_STATE) t.states.push_back(event->state);
        if (event->kind == COTERIE_ENGINE_WARNING) t.warnings.emplace_back(event->message);
        return 0;
    };
    coterie::Engine engine(model, o);
    CHECK(!told.progress.empty());
    CHECK(told.states == std::vector<int32_t>{COTERIE_READY});
    REQUIRE(!told.warnings.empty());
    CHECK(told.warnings.back().find("threads were asked for") != std::string::npos);
    CHECK(nlohmann::json::parse(engine.describe(COTERIE_JSON)).at("state") == "ready");

    coterie_generation_options g = COTERIE_GENERATION_OPTIONS_INIT;
    g.flags = COTERIE_PREFILL | COTERIE_GREEDY;
    g.max_tokens = 2;
    coterie::Generation generation = engine.generate(std::vector<int32_t>(100, 9), g);
    std::vector<int64_t> done;
    int tokens = 0;
    coterie_event event;
    while (generation.next(event) && event.kind != COTERIE_EVENT_FINISHED) {
        if (event.kind == COTERIE_EVENT_PREFILL) {
            CHECK(event.total == 100);
            done.push_back(event.done);
        }
        tokens += event.kind == COTERIE_EVENT_TOKEN;
    }
    REQUIRE(!done.empty());
    CHECK(std::is_sorted(done.begin(), done.end()));
    CHECK(done.back() == 100);
    CHECK(tokens == 2);
    CHECK(generation.statistics().computed_tokens == 100);

    o.events = [](void*, const coterie_engine_event* e) {
        return e->kind == COTERIE_ENGINE_PROGRESS ? 1 : 0;
    };
    coterie_engine* none = nullptr;
    coterie_error error = COTERIE_ERROR_INIT;
    CHECK(coterie_engine_create(model.get(), &o, &none, &error) == COTERIE_CANCELLED);
    CHECK(none == nullptr);
}
