// Every function of the header called wrongly, after failures, and from several threads at once.
#include <atomic>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "catch.h"
#include "coterie/coterie.hpp"
#include "coterie/coterie_experimental.h"

namespace {

const char* const model_path = TEST_DATA "/golden/qwen3.gguf";

// A refusal with a sentence; and again without an error struct, and with one that is too small.
template <typename Function>
void refused(const char* what, Function&& function) {
    CAPTURE(what);
    coterie_error error = COTERIE_ERROR_INIT;
    const coterie_status status = function(&error);
    CHECK(status == COTERIE_INVALID_ARGUMENT);
    CHECK(error.status == status);
    CHECK(std::strlen(error.message) > 10);
    CHECK(function(nullptr) == status);
    coterie_error small;
    std::memset(&small, 0x5a, sizeof small);
    small.struct_size = 4;
    CHECK(function(&small) == status);
    CHECK(small.message[0] == 0x5a);
}

}  // namespace

TEST_CASE("a struct_size that ends within a field is refused") {
    coterie_plan_request request = COTERIE_PLAN_REQUEST_INIT;
    request.machine = "4x3090";
    request.struct_size = uint32_t(offsetof(coterie_plan_request, machine) + 4);
    refused("half a pointer", [&](coterie_error* e) {
        return coterie_plan(nullptr, &request, COTERIE_TEXT, nullptr, nullptr, 0, nullptr, e);
    });
    coterie_error error = COTERIE_ERROR_INIT;
    coterie_plan(nullptr, &request, COTERIE_TEXT, nullptr, nullptr, 0, nullptr, &error);
    CHECK(std::string(error.message).find("struct_size") != std::string::npos);
}

TEST_CASE("every function refuses NULL with a sentence") {
    const auto text = [](auto function) {
        return [function](coterie_error* e) { return function(nullptr, size_t(0), nullptr, e); };
    };
    using Buffer = char*;
    using Needed = size_t*;
    using Error = coterie_error*;
    refused("open", [](Error e) { return coterie_model_open(nullptr, nullptr, nullptr, e); });
    refused("info", [](Error e) { return coterie_model_get_info(nullptr, nullptr, e); });
    refused("metadata", text([](Buffer b, size_t c, Needed n, Error e) {
                return coterie_model_metadata(nullptr, "k", b, c, n, e);
            }));
    refused("defaults", text([](Buffer b, size_t c, Needed n, Error e) {
                return coterie_model_sampling_defaults(nullptr, b, c, n, e);
            }));
    refused("tokenize",
            [](Error e) { return coterie_tokenize(nullptr, nullptr, 5, 0, nullptr, 0, nullptr, e); });
    refused("detokenize",
            [](Error e) { return coterie_detokenize(nullptr, nullptr, 5, 0, nullptr, 0, nullptr, e); });
    refused("render", text([](Buffer b, size_t c, Needed n, Error e) {
                return coterie_chat_render(nullptr, nullptr, nullptr, nullptr, b, c, n, e);
            }));
    refused("plan", text([](Buffer b, size_t c, Needed n, Error e) {
                return coterie_plan(nullptr, nullptr, COTERIE_TEXT, nullptr, b, c, n, e);
            }));
    refused("devices", [](Error e) { return coterie_devices(COTERIE_TEXT, nullptr, 7, nullptr, e); });
    refused("create", [](Error e) { return coterie_engine_create(nullptr, nullptr, nullptr, e); });
    refused("statistics", [](Error e) { return coterie_engine_get_statistics(nullptr, nullptr, e); });
    refused("describe", text([](Buffer b, size_t c, Needed n, Error e) {
                return coterie_engine_describe(nullptr, COTERIE_TEXT, b, c, n, e);
            }));
    refused("generate", [](Error e) { return coterie_generate(nullptr, nullptr, 3, nullptr, nullptr, e); });
    refused("complete", [](Error e) { return coterie_complete(nullptr, nullptr, nullptr, nullptr, e); });
    refused("chat",
            [](Error e) { return coterie_chat(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, e); });
    refused("next", [](Error e) { return coterie_generation_next(nullptr, nullptr, 0, e); });
    refused("generation statistics",
            [](Error e) { return coterie_generation_get_statistics(nullptr, nullptr, e); });
    refused("tokens", [](Error e) { return coterie_generation_tokens(nullptr, nullptr, 0, nullptr, e); });
    refused("fork", [](Error e) { return coterie_generation_fork(nullptr, nullptr, nullptr, e); });
    refused("save", [](Error e) { return coterie_generation_save(nullptr, nullptr, e); });
    refused("restore", [](Error e) { return coterie_engine_restore(nullptr, nullptr, nullptr, nullptr, e); });
    refused("embed",
            [](Error e) { return coterie_embed(nullptr, nullptr, 1, nullptr, nullptr, 0, nullptr, e); });
    refused("logits",
            [](Error e) { return coterie_read_logits(nullptr, nullptr, 1, 0, nullptr, nullptr, 0, e); });
    refused("score", [](Error e) {
        return coterie_score(nullptr, nullptr, 1, nullptr, nullptr, 0, nullptr, nullptr, e);
    });
    refused("inspect", text([](Buffer b, size_t c, Needed n, Error e) {
                return coterie_inspect(nullptr, COTERIE_TEXT, b, c, n, e);
            }));
    refused("verify", text([](Buffer b, size_t c, Needed n, Error e) {
                return coterie_verify(nullptr, 1, COTERIE_TEXT, nullptr, nullptr, nullptr, b, c, n, e);
            }));
    refused("quantize",
            [](Error e) { return coterie_quantize(nullptr, nullptr, nullptr, 1, 0, nullptr, nullptr, e); });
    refused("upcycle",
            [](Error e) { return coterie_upcycle(nullptr, nullptr, 2, 1, 1, nullptr, nullptr, e); });
    refused("synthesise", [](Error e) {
        return coterie_synthesise(nullptr, nullptr, 0, nullptr, 1, 0, nullptr, nullptr, e);
    });
    refused("experimental logits", [](Error e) {
        return coterie_logits(nullptr, nullptr, nullptr, 1, nullptr, 0, 0, 0, nullptr, e);
    });
    refused("parse", text([](Buffer b, size_t c, Needed n, Error e) {
                return coterie_parse_answer(nullptr, nullptr, nullptr, 0, b, c, n, e);
            }));
    refused("template", text([](Buffer b, size_t c, Needed n, Error e) {
                return coterie_render_template(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, b, c, n,
                                               e);
            }));
    refused("show", text([](Buffer b, size_t c, Needed n, Error e) {
                return coterie_store_show(nullptr, nullptr, b, c, n, e);
            }));
    refused("list", [](Error e) { return coterie_store_list(TEST_DATA, nullptr, 7, nullptr, e); });
    refused("hashes", text([](Buffer b, size_t c, Needed n, Error e) {
                return coterie_store_verify(nullptr, nullptr, nullptr, nullptr, nullptr, b, c, n, e);
            }));
    refused("serve", [](Error e) { return coterie_serve(nullptr, nullptr, nullptr, e); });
    // These have no way to refuse: nothing is there to be ended, and nothing works.
    coterie_generation_cancel(nullptr);
    coterie_generation_destroy(nullptr);
    coterie_engine_destroy(nullptr);
    coterie_model_destroy(nullptr);
    CHECK(coterie_engine_state(nullptr) == COTERIE_LOST);
    CHECK(coterie_token_is_end(nullptr, 0) == 0);
    CHECK(std::string(coterie_version()).find('.') != std::string::npos);
    CHECK(std::string(coterie_status_name(12345)).size() > 0);
    CHECK(std::string(coterie_status_name(-1)).size() > 0);
}

TEST_CASE("no exported function is forgotten here") {
    std::ifstream exports(SOURCE_ROOT "/capi/exports.txt"), itself(SOURCE_ROOT "/tests/capi/misuse.cpp");
    const std::string tests{std::istreambuf_iterator<char>(itself), std::istreambuf_iterator<char>()};
    int count = 0;
    for (std::string name; std::getline(exports, name); ++count) {
        CAPTURE(name);
        CHECK(tests.find(name + "(") != std::string::npos);
    }
    CHECK(count > 40);
}

TEST_CASE("results of the wrong size are refused, smaller ones filled as far as they go") {
    const coterie::Model model(model_path);
    coterie_model_info info = COTERIE_MODEL_INFO_INIT;
    info.struct_size = 3;
    coterie_error error = COTERIE_ERROR_INIT;
    CHECK(coterie_model_get_info(model.get(), &info, &error) == COTERIE_INVALID_ARGUMENT);
    info = COTERIE_MODEL_INFO_INIT;
    info.struct_size = offsetof(coterie_model_info, experts);
    info.experts = -77;
    CHECK(coterie_model_get_info(model.get(), &info, &error) == COTERIE_OK);
    CHECK(info.layers > 0);
    CHECK(info.experts == -77);
    CHECK(info.struct_size == offsetof(coterie_model_info, experts));
}

TEST_CASE("after a failure the same objects go on working") {
    const coterie::Model model(model_path);
    coterie::Engine engine(model);
    for (int i = 0; i < 3; ++i) {
        CHECK_THROWS_AS(engine.generate({}), coterie::Error);
        CHECK_THROWS_AS(engine.generate({1 << 29}), coterie::Error);
        CHECK_THROWS_AS(engine.chat("{"), coterie::Error);
        CHECK_THROWS_AS(engine.restore("/nowhere/saved"), coterie::Error);
        CHECK_THROWS_AS(model.metadata("no.such.key"), coterie::Error);
        coterie_generation_options o = COTERIE_GENERATION_OPTIONS_INIT;
        o.max_tokens = 2;
        o.flags = COTERIE_IGNORE_END;
        coterie::Generation generation = engine.generate({1, 2}, o);
        generation.text();
        CHECK(generation.statistics().generated_tokens == 2);
        CHECK(engine.embed({"a text"}).size() == 1);
    }
}

TEST_CASE("several engines, models and threads at once", "[threads]") {
    std::atomic<int> failures{0};
    const coterie::Model shared(model_path);
    coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
    o.threads = 1;
    o.parallel = 2;
    o.context_tokens = 128;
    coterie::Engine engine(shared, o);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            try {
                coterie_generation_options g = COTERIE_GENERATION_OPTIONS_INIT;
                g.flags = COTERIE_IGNORE_END | COTERIE_SHIFT_CONTEXT | COTERIE_PREFILL;
                for (int i = 0; i < 4; ++i) {
                    failures += shared.detokenize(shared.tokenize("some text", 0)) != "some text";
                    shared.render(R"([{"role":"user","content":"Hi"}])");
                    coterie::Generation generation = engine.generate({1, 2, 3, t}, g);
                    coterie_event event;
                    for (int n = 0; n < 5; ++n) generation.next(event);
                    std::thread stop([&] { generation.cancel(); });
                    while (generation.next(event) && event.kind != COTERIE_EVENT_FINISHED) continue;
                    stop.join();
                    failures += event.finish_reason != COTERIE_FINISH_CANCELLED;
                    engine.statistics();
                    engine.describe();
                    failures += engine.embed({"one", "two"}).size() != 2;
                    if (t < 2) {
                        const coterie::Model another(model_path);
                        coterie::Engine own(t == 0 ? shared : another, o);
                        coterie::Generation dropped = own.generate({1}, g);
                        dropped.next(event);
                    }
                }
            } catch (const std::exception&) {
                ++failures;
            }
        });
    for (std::thread& thread : threads) thread.join();
    CHECK(failures == 0);
}
