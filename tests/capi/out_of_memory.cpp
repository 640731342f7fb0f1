// Memory that runs out at each allocation of opening a model, creating an engine, generating and embedding: a
// status, and the next call works. Not with JSON schemas: the destructors of nlohmann's values allocate, and
// end the process when they can't.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "catch.h"
#include "coterie/coterie.hpp"

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

    coterie_status open() { return coterie_model_open(model_path, nullptr, &model, &error); }
    coterie_status create() {
        coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
        o.threads = 2;
        o.context_tokens = 128;
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
        REQUIRE(act(o) == COTERIE_OK);
        total = asked - before;
    }
    REQUIRE(total > 10);
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
}
#endif
