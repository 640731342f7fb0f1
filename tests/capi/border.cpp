// The C border: what it exports, how it refuses, and a generation through it.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "catch.h"
#include "coterie/coterie.hpp"
#include "coterie/coterie_experimental.h"

namespace {

const char* const model_path = TEST_DATA "/golden/llamacpp/nano-qwen3moe-f32.gguf";

nlohmann::json golden() {
    std::ifstream file(TEST_DATA "/golden/llamacpp/nano-qwen3moe-f32.json");
    return nlohmann::json::parse(file);
}

std::string output_of(const std::string& command) {
    std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    std::string text;
    std::array<char, 4096> buffer;
    while (pipe && std::fgets(buffer.data(), int(buffer.size()), pipe.get())) text += buffer.data();
    return text;
}

coterie_generation_options greedy(int64_t tokens) {
    coterie_generation_options o = COTERIE_GENERATION_OPTIONS_INIT;
    o.flags = COTERIE_GREEDY | COTERIE_IGNORE_END;
    o.max_tokens = tokens;
    return o;
}

}  // namespace

TEST_CASE("the shared library exports what capi/exports.txt lists, and nothing else") {
    const std::string got = output_of("nm -D --defined-only '" COTERIE_LIBRARY
                                      "' | awk '$2 != \"A\" {print $3}' | sed 's/@.*//' | LC_ALL=C sort -u");
    std::ifstream file(SOURCE_ROOT "/capi/exports.txt");
    const std::string want((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    REQUIRE(!want.empty());
    CHECK(got == want);
}

TEST_CASE("the library doesn't import what would end its host") {
    // From its own objects: the C++ runtime that is linked dynamically has its own abort.
    const std::string imports =
        output_of("nm -D --undefined-only '" COTERIE_LIBRARY "' | awk '{print $2}' | sed 's/@.*//'");
    REQUIRE(!imports.empty());
    for (const char* name : {"abort", "exit", "_exit", "__assert_fail", "quick_exit"}) {
        CAPTURE(name);
        CHECK(("\n" + imports).find(std::string("\n") + name + "\n") == std::string::npos);
    }
}

TEST_CASE("null pointers, wrong sizes and unknown options are refused with a sentence") {
    coterie_error error = COTERIE_ERROR_INIT;
    coterie_model* model = nullptr;
    CHECK(coterie_model_open(nullptr, nullptr, &model, &error) == COTERIE_INVALID_ARGUMENT);
    CHECK(std::strlen(error.message) > 10);
    CHECK(coterie_model_open(model_path, nullptr, nullptr, &error) == COTERIE_INVALID_ARGUMENT);
    CHECK(coterie_model_open("/nowhere/model.gguf", nullptr, &model, &error) == COTERIE_NOT_FOUND);
    CHECK(std::string(error.message).find("/nowhere/model.gguf") != std::string::npos);
    CHECK(coterie_model_open("/nowhere", nullptr, &model, nullptr) == COTERIE_NOT_FOUND);  // without an error
    CHECK(model == nullptr);

    struct Newer {
        coterie_model_options known;
        uint64_t unknown;
    } newer{COTERIE_MODEL_OPTIONS_INIT, 0};
    newer.known.struct_size = sizeof(newer);
    REQUIRE(coterie_model_open(model_path, &newer.known, &model, &error) ==
            COTERIE_OK);  // an unknown tail of zeros
    coterie_model_destroy(model);
    newer.unknown = 1;
    CHECK(coterie_model_open(model_path, &newer.known, &model, &error) == COTERIE_INVALID_ARGUMENT);
    CHECK(std::string(error.message).find("offset 24") != std::string::npos);

    coterie_engine* engine = nullptr;
    coterie_generation* generation = nullptr;
    coterie_event event = COTERIE_EVENT_INIT;
    CHECK(coterie_engine_create(nullptr, nullptr, &engine, &error) == COTERIE_INVALID_ARGUMENT);
    CHECK(coterie_generate(nullptr, nullptr, 0, nullptr, &generation, &error) == COTERIE_INVALID_ARGUMENT);
    CHECK(coterie_complete(nullptr, "x", nullptr, &generation, &error) == COTERIE_INVALID_ARGUMENT);
    CHECK(coterie_chat(nullptr, "[]", nullptr, nullptr, nullptr, &generation, &error) ==
          COTERIE_INVALID_ARGUMENT);
    CHECK(coterie_generation_next(nullptr, &event, 0, &error) == COTERIE_INVALID_ARGUMENT);
    CHECK(coterie_tokenize(nullptr, "x", 1, 0, nullptr, 0, nullptr, &error) == COTERIE_INVALID_ARGUMENT);
    CHECK(coterie_engine_state(nullptr) == COTERIE_LOST);
    CHECK(coterie_token_is_end(nullptr, 1) == 0);
    coterie_model_destroy(nullptr);
    coterie_engine_destroy(nullptr);
    coterie_generation_destroy(nullptr);
    coterie_generation_cancel(nullptr);
}

TEST_CASE("an engine refuses devices it doesn't know instead of taking others") {
    const coterie::Model model(model_path);
    coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
    o.devices = "cuda:7";
    coterie_error error = COTERIE_ERROR_INIT;
    coterie_engine* engine = nullptr;
    const coterie_status status = coterie_engine_create(model.get(), &o, &engine, &error);
    CHECK((status == COTERIE_INVALID_ARGUMENT || status == COTERIE_UNSUPPORTED));
    CHECK(engine == nullptr);
    CHECK(std::string(error.message).find("cuda") != std::string::npos);
    o = COTERIE_ENGINE_OPTIONS_INIT;
    o.key_type = "q2_k";
    CHECK(coterie_engine_create(model.get(), &o, &engine, &error) == COTERIE_INVALID_ARGUMENT);
}

TEST_CASE("a generation through the border gives llama.cpp's greedy tokens") {
    const coterie::Model model(model_path);
    CHECK(model.info().experts == 8);
    CHECK(model.metadata("general.architecture") == "qwen3moe");
    coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
    o.key_type = o.value_type = "f32";
    coterie::Engine engine(model, o);
    const auto prompt = golden().at("prompt").get<std::vector<int32_t>>();
    coterie_generation_options options = greedy(32);
    options.flags |= COTERIE_LOGPROBS;
    options.top_logprobs = 3;
    coterie::Generation generation = engine.generate(prompt, options);
    std::vector<int32_t> tokens;
    coterie_event event;
    while (generation.next(event) && event.kind != COTERIE_EVENT_FINISHED) {
        REQUIRE(event.kind == COTERIE_EVENT_TOKEN);
        REQUIRE(event.top_count == 3);
        CHECK(event.top[0].token == event.token);  // greedy
        CHECK(event.top[0].logprob == event.logprob);
        CHECK(event.logprob <= 0.0f);
        tokens.push_back(event.token);
    }
    CHECK(tokens == golden().at("greedy").get<std::vector<int32_t>>());
    CHECK(event.finish_reason == COTERIE_FINISH_LENGTH);
    CHECK(generation.statistics().generated_tokens == 32);
    CHECK(generation.statistics().prompt_tokens == int64_t(prompt.size()));
    CHECK(generation.next(event));  // again
    CHECK(event.kind == COTERIE_EVENT_FINISHED);
}

TEST_CASE("the engine outlives its handle while a generation runs, and cancel is seen") {
    auto engine = std::make_unique<coterie::Engine>(coterie::Model(model_path));
    coterie::Generation generation = engine->generate({1, 2, 3}, greedy(0));
    engine.reset();
    coterie_event event;
    REQUIRE(generation.next(event));
    std::thread([&] { generation.cancel(); }).join();
    while (generation.next(event) && event.kind != COTERIE_EVENT_FINISHED) continue;
    CHECK(event.finish_reason == COTERIE_FINISH_CANCELLED);
}

TEST_CASE("a chat is rendered, and constrained to a schema") {
    const coterie::Model model(model_path);
    const std::string messages = R"([{"role":"user","content":"Hi"}])";
    CHECK(model.render(messages).find("Hi") != std::string::npos);
    coterie::Engine engine(model);
    coterie_generation_options o = COTERIE_GENERATION_OPTIONS_INIT;
    o.json_schema =
        R"({"type":"object","properties":{"n":{"enum":[1,2]}},"required":["n"],"additionalProperties":false})";
    o.seed = 7;
    coterie::Generation generation = engine.chat(messages, {}, COTERIE_CHAT_OPTIONS_INIT, o);
    const nlohmann::json answer = nlohmann::json::parse(generation.text());
    CHECK((answer.at("n") == 1 || answer.at("n") == 2));
}

TEST_CASE("a tool choice is enforced") {
    const coterie::Model model(model_path);
    coterie::Engine engine(model);
    const std::string messages = R"([{"role":"user","content":"Weather?"}])";
    const std::string tools =
        R"([{"type":"function","function":{"name":"a","parameters":{"type":"object","properties":{}}}},
            {"type":"function","function":{"name":"b","parameters":{"type":"object","properties":
             {"x":{"enum":[1,2]}},"required":["x"],"additionalProperties":false}}}])";
    coterie_generation_options o = COTERIE_GENERATION_OPTIONS_INIT;
    o.tool_choice = "b";
    o.seed = 3;
    o.max_tokens = 400;
    coterie::Generation generation = engine.chat(messages, tools, COTERIE_CHAT_OPTIONS_INIT, o);
    std::string name, arguments;
    coterie_event event;
    while (generation.next(event) && event.kind != COTERIE_EVENT_FINISHED) {
        if (event.kind == COTERIE_EVENT_TOOL_CALL && name.empty()) name = event.name;
        if (event.kind == COTERIE_EVENT_ARGUMENTS && event.call == 0)
            arguments.append(event.text, event.length);
    }
    CHECK(name == "b");
    const nlohmann::json parsed = nlohmann::json::parse(arguments);
    CHECK((parsed.at("x") == 1 || parsed.at("x") == 2));
    CHECK_THROWS_AS(engine.chat(messages, {}, COTERIE_CHAT_OPTIONS_INIT, o), coterie::Error);
}

TEST_CASE("zeros in the sampling options stand for the family's defaults") {
    const std::string text = coterie::text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_model_sampling_defaults(coterie::Model(model_path).get(), b, c, n, e);
    });
    const nlohmann::json defaults = nlohmann::json::parse(text);
    CHECK(defaults.at("top_k") == 20);  // qwen3moe
    CHECK(defaults.at("source") == "family");
}

TEST_CASE("texts come in pieces of any size") {
    const coterie::Model model(model_path);
    char small[4];
    size_t needed = 0;
    coterie_error error = COTERIE_ERROR_INIT;
    REQUIRE(coterie_model_metadata(model.get(), "general.architecture", small, sizeof small, &needed,
                                   &error) == COTERIE_OK);
    CHECK(std::string(small) == "qwe");
    CHECK(needed == 8);
    CHECK(coterie_model_metadata(model.get(), "no.such.key", small, sizeof small, &needed, &error) ==
          COTERIE_NOT_FOUND);
    const std::vector<int32_t> tokens = model.tokenize("Hello");
    CHECK(model.detokenize(tokens) == "Hello");
}

TEST_CASE("the README's program compiles and runs") {
    if (std::string(COTERIE_SANITIZERS) != "") {
        WARN("skipped: a program without the sanitizers' runtime can't load a library that needs it");
        return;
    }
    std::ifstream file(SOURCE_ROOT "/README.md");
    const std::string readme((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const size_t begin = readme.find("```c\n"), end = readme.find("```", begin + 5);
    REQUIRE(begin != std::string::npos);
    const std::string base = std::string(COTERIE_SCRATCH) + "/readme_program";
    std::ofstream(base + ".c") << readme.substr(begin + 5, end - begin - 5);
    const std::string build = "cc -std=c99 -Wall -Wextra -pedantic -Werror -I'" SOURCE_ROOT "/include' '" +
                              base + ".c' -o '" + base +
                              "' '" COTERIE_LIBRARY "' -Wl,-rpath,\"$(dirname '" COTERIE_LIBRARY "')\" 2>&1";
    const std::string messages = output_of(build + " && echo built");
    CAPTURE(messages);
    REQUIRE(messages.find("built") != std::string::npos);
    const std::string printed = output_of("'" + base + "' '" + model_path + "' 2>&1");
    CAPTURE(printed);
    CHECK(!printed.empty());
    CHECK(output_of("'" + base + "' /nowhere/x.gguf 2>&1").find("/nowhere/x.gguf") != std::string::npos);
}
