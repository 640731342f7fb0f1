// Memory that runs out at each allocation of whatever the C interface offers: a status, and the next call
// works. COTERIE_EVERY=1 takes every allocation in turn, minutes instead of seconds.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "catch.h"
#include "coterie/coterie.hpp"
#include "coterie/coterie_experimental.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#if defined(SANITIZED)
TEST_CASE("memory that runs out is a status, not an end", "[memory]") {
    WARN("skipped: a sanitizer's allocator can't be made to fail");
}
#else

namespace {

std::atomic<int64_t> countdown{0};  // allocations until one fails
std::atomic<bool> armed{false}, from_then_on{false};
std::atomic<int64_t> asked{0};

bool fails() {
    asked.fetch_add(1, std::memory_order_relaxed);
    if (!armed.load(std::memory_order_relaxed)) return false;
    const int64_t left = countdown.fetch_sub(1, std::memory_order_relaxed);
    if (left > 0) return false;
    if (from_then_on.load(std::memory_order_relaxed)) {
        countdown.store(0, std::memory_order_relaxed);
        return true;
    }
    return left == 0;
}

}  // namespace

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* malloc(size_t size) {
    return fails() ? nullptr : __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
    return fails() ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) {
    return fails() ? nullptr : __libc_realloc(block, size);
}
}

namespace {

const char* const model_path = TEST_DATA "/golden/qwen3moe.gguf";

struct Open {
    coterie_model* model = nullptr;
    coterie_engine* engine = nullptr;
    coterie_generation* generation = nullptr;
    coterie_error error = COTERIE_ERROR_INIT;
    std::vector<float> logits = std::vector<float>(2048);

    coterie_status open() { return coterie_model_open(model_path, nullptr, &model, &error); }
    coterie_status create() {
        coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
        o.threads = 2;
        o.context_tokens = 512;
        o.isa = "portable";
        return coterie_engine_create(model, &o, &engine, &error);
    }
    // A whole answer, and an embedding.
    coterie_status answer() {
        coterie_generation_options o = COTERIE_GENERATION_OPTIONS_INIT;
        const char* const stop = "never said";
        o.max_tokens = 4;
        o.flags = COTERIE_IGNORE_END | COTERIE_LOGPROBS;
        o.top_logprobs = 2;
        o.stop = &stop;
        o.stop_count = 1;
        coterie_status status = coterie_complete(engine, "a text", &o, &generation, &error);
        coterie_event event = COTERIE_EVENT_INIT;
        while (status == COTERIE_OK && event.kind != COTERIE_EVENT_FINISHED)
            status = coterie_generation_next(generation, &event, -1, &error);
        coterie_generation_destroy(generation);
        generation = nullptr;
        if (status != COTERIE_OK) return status;
        float embedding[64];
        const coterie_input input{"a text", 6, nullptr, 0};
        return coterie_embed(engine, &input, 1, nullptr, embedding, 64, nullptr, &error);
    }
    // Texts and structs that tell about things.
    coterie_status tell() {
        char text[1 << 12];
        size_t needed = 0;
        int32_t tokens[64], fits = 0;
        coterie_model_info info = COTERIE_MODEL_INFO_INIT;
        coterie_plan_request request = COTERIE_PLAN_REQUEST_INIT;
        request.machine = "4x3090";
        return first_of(
            [&] { return coterie_model_get_info(model, &info, &error); },
            [&] { return coterie_model_metadata(model, "general.architecture", text, 64, &needed, &error); },
            [&] { return coterie_model_sampling_defaults(model, text, sizeof text, &needed, &error); },
            [&] { return coterie_tokenize(model, "some text", 9, 0, tokens, 64, &needed, &error); },
            [&] { return coterie_detokenize(model, tokens, 3, 0, text, sizeof text, &needed, &error); },
            [&] {
                coterie_chat_options o = chat_options();
                o.variables_json = R"({"a": [1, {"b": null}]})";
                return coterie_chat_render(model, messages, tools, &o, text, sizeof text, &needed, &error);
            },
            [&] { return coterie_plan(model, &request, COTERIE_TEXT, &fits, text, 64, &needed, &error); },
            [&] { return coterie_plan(model, &request, COTERIE_JSON, &fits, text, 64, &needed, &error); },
            [&] { return coterie_devices(COTERIE_TEXT, text, sizeof text, &needed, &error); },
            [&] { return coterie_devices(COTERIE_JSON, text, sizeof text, &needed, &error); },
            [&] { return coterie_inspect(model_path, COTERIE_JSON, text, sizeof text, &needed, &error); },
            [&] { return coterie_parse_answer(model, call, tools, 0, text, sizeof text, &needed, &error); },
            [&] { return coterie_engine_describe(engine, COTERIE_JSON, text, 64, &needed, &error); },
            [&] {
                coterie_engine_statistics s = COTERIE_ENGINE_STATISTICS_INIT;
                return coterie_engine_get_statistics(engine, &s, &error);
            });
    }
    // Answers that follow schemas, calls of tools, grammars.
    coterie_status follow() {
        coterie_generation_options o = COTERIE_GENERATION_OPTIONS_INIT;
        o.max_tokens = 3;
        o.flags = COTERIE_IGNORE_END;
        const coterie_chat_options c = chat_options();
        coterie_generation_options by_schema = o, by_call = o, by_grammar = o;
        by_schema.json_schema = schema;
        by_call.tool_choice = "required";
        by_grammar.grammar = "root ::= [a-z]+ (\" \" root)?";
        return first_of(
            [&] { return finish(coterie_complete(engine, "a", &by_schema, &generation, &error)); },
            [&] { return finish(coterie_chat(engine, messages, tools, &c, &by_call, &generation, &error)); },
            [&] { return finish(coterie_complete(engine, "a", &by_grammar, &generation, &error)); },
            [&] { return finish(coterie_chat(engine, messages, tools, &c, &o, &generation, &error)); });
    }
    // Generations that are forked, saved and restored; logits and likelihoods.
    coterie_status keep() {
        coterie_generation_options o = COTERIE_GENERATION_OPTIONS_INIT;
        o.max_tokens = 2;
        o.flags = COTERIE_IGNORE_END;
        const int32_t tokens[] = {1, 2, 3};
        const coterie_input input{nullptr, 0, tokens, 3};
        int32_t all[16];
        size_t needed = 0;
        coterie_generation* fork = nullptr;
        const coterie_status status =
            first_of([&] { return coterie_generate(engine, tokens, 3, &o, &generation, &error); },
                     [&] { return coterie_generation_fork(generation, &o, &fork, &error); },
                     [&] { return drain(fork); }, [&] { return drain(generation); },
                     [&] { return coterie_generation_tokens(generation, all, 16, &needed, &error); },
                     [&] { return coterie_generation_save(generation, saved, &error); },
                     [&] { return coterie_engine_restore(engine, saved, &o, nullptr, &error); },
                     [&] {
                         return coterie_read_logits(engine, tokens, 3, 2, nullptr, logits.data(),
                                                    logits.size(), &error);
                     },
                     [&] {
                         return coterie_score(engine, &input, 1, nullptr, logits.data(), logits.size(),
                                              nullptr, nullptr, &error);
                     });
        coterie_generation_destroy(fork);
        coterie_generation_destroy(generation);
        generation = nullptr;
        return status;
    }

  private:
    static constexpr const char* saved = COTERIE_SCRATCH "/out_of_memory.sequence";
    static constexpr const char* messages =
        R"([{"role": "user", "content": "hello", "extra": {"a": [1, 2.5, true, null]}}])";
    static constexpr const char* call =
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": [1, {\"y\": \"z\"}]}}\n</tool_call>";
    static constexpr const char* tools = R"([{"type": "function", "function": {"name": "f", "parameters":
        {"type": "object", "properties": {"x": {"anyOf": [{"type": "array", "items": {"$ref": "#/properties/y"}},
         {"type": "integer", "minimum": 3, "maximum": 77}]}, "y": {"enum": ["p", "q"]}},
         "required": ["x"]}}}])";
    static constexpr const char* schema = R"({"$defs": {"n": {"type": "object", "properties":
        {"next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}, "date": {"format": "date"},
         "word": {"type": "string", "pattern": "^[a-z]{2,5}$"}}}},
        "allOf": [{"$ref": "#/$defs/n"}, {"properties": {"n": {"type": "number", "minimum": 0.5}}}]})";

    static coterie_chat_options chat_options() {
        coterie_chat_options o = COTERIE_CHAT_OPTIONS_INIT;
        o.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools | tojson if tools }}";
        return o;
    }

    template <typename... Steps>
    static coterie_status first_of(const Steps&... steps) {
        coterie_status status = COTERIE_OK;
        static_cast<void>((((status = steps()) == COTERIE_OK) && ...));
        return status;
    }
    coterie_status drain(coterie_generation* g) {
        coterie_event event = COTERIE_EVENT_INIT;
        coterie_status status = COTERIE_OK;
        while (status == COTERIE_OK && event.kind != COTERIE_EVENT_FINISHED)
            status = coterie_generation_next(g, &event, -1, &error);
        return status;
    }
    coterie_status finish(coterie_status started) {
        const coterie_status status = started == COTERIE_OK ? drain(generation) : started;
        coterie_generation_destroy(generation);
        generation = nullptr;
        return status;
    }

  public:
    ~Open() {
        coterie_generation_destroy(generation);
        coterie_engine_destroy(engine);
        coterie_model_destroy(model);
    }
};

// What went wrong, if anything.
enum Verdict { well = 0, not_a_status = 1, no_sentence = 2, not_usable_after = 3 };

bool is_refusal(coterie_status status) {
    return status == COTERIE_OUT_OF_MEMORY || status == COTERIE_DEVICE_LOST || status == COTERIE_INTERNAL ||
           status == COTERIE_NOT_FOUND || status == COTERIE_UNSUPPORTED ||
           status == COTERIE_INVALID_ARGUMENT || status == COTERIE_BAD_MODEL || status == COTERIE_CANCELLED;
}

template <typename Prepare, typename Act>
Verdict fail_at(int64_t n, bool all, const Prepare& prepare, const Act& act) {
    Open o;
    if (prepare(o) != COTERIE_OK) return not_usable_after;
    from_then_on = all;
    countdown = n;
    armed = true;
    const coterie_status status = act(o);
    armed = false;
    if (status == COTERIE_OK) return well;
    if (!is_refusal(status)) return not_a_status;
    if (o.error.status != status || !o.error.message[0]) return no_sentence;
    // The same call works now, but on an engine that was lost, which may show a little later.
    if (act(o) == COTERIE_OK) return well;
    return o.engine && coterie_engine_state(o.engine) == COTERIE_LOST ? well : not_usable_after;
}

// Every allocation of act() in turn, or COTERIE_EVERY of them unset: about `wanted`, spread evenly.
template <typename Prepare, typename Act>
void sweep(const char* what, int64_t wanted, const Prepare& prepare, const Act& act) {
    int64_t total = 0;
    {
        Open o;
        REQUIRE(prepare(o) == COTERIE_OK);
        const int64_t before = asked;
        const coterie_status status = act(o);
        INFO(what << ": " << o.error.message);
        REQUIRE(status == COTERIE_OK);
        total = asked - before;
    }
    REQUIRE(total > 10);
    if (std::getenv("COTERIE_EVERY"))
        std::printf("%s: %lld allocations\n", what, static_cast<long long>(total));
    const int64_t stride = std::getenv("COTERIE_EVERY") ? 1 : std::max<int64_t>(1, total / wanted);
    for (const bool all : {false, true})
        for (int64_t n = 0; n < total; n += stride) {
            INFO(what << ", allocation " << n << " of " << total << (all ? " and all after it" : ""));
            const Verdict verdict = fail_at(n, all, prepare, act);
            if (verdict != well) CHECK(int(verdict) == int(well));
        }
}

}  // namespace

TEST_CASE("memory that runs out is a status, not an end", "[memory]") {
    const auto nothing = [](Open&) { return COTERIE_OK; };
    const auto opened = [](Open& o) { return o.open(); };
    const auto created = [](Open& o) {
        const coterie_status status = o.open();
        return status == COTERIE_OK ? o.create() : status;
    };
    sweep("opening", 300, nothing, [](Open& o) { return o.open(); });
    sweep("creating", 300, opened, [](Open& o) { return o.create(); });
    sweep("answering", 300, created, [](Open& o) { return o.answer(); });
    sweep("telling", 100, created, [](Open& o) { return o.tell(); });
    sweep("following", 40, created, [](Open& o) { return o.follow(); });
    sweep("keeping", 60, created, [](Open& o) { return o.keep(); });
}
#endif
