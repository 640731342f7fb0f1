// An engine whose cores are taken away works on, says so, and says when they are back.
#include <dirent.h>
#include <sched.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "catch.h"
#include "coterie/coterie.hpp"

namespace {

// All threads of this process, as a container's set of cores does it.
void allow(const cpu_set_t& set) {
    DIR* folder = opendir("/proc/self/task");
    REQUIRE(folder != nullptr);
    while (const dirent* entry = readdir(folder))
        if (const pid_t thread = std::atoi(entry->d_name); thread > 0)
            sched_setaffinity(thread, sizeof set, &set);
    closedir(folder);
}

struct Told {
    std::mutex mutex;
    std::vector<int32_t> states;
    std::string last;
};

int tell(void* user, const coterie_engine_event* event) {
    Told& told = *static_cast<Told*>(user);
    std::lock_guard lock(told.mutex);
    if (event->kind == COTERIE_ENGINE_STATE) {
        told.states.push_back(event->state);
        told.last = event->message;
    }
    return 0;
}

// Answers until the engine is in that state; false after half a minute.
bool reaches(const coterie::Engine& engine, int32_t state) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    coterie_generation_options o = COTERIE_GENERATION_OPTIONS_INIT;
    o.max_tokens = 4;
    o.flags = COTERIE_IGNORE_END;
    const int32_t tokens[] = {1, 2, 3};
    while (coterie_engine_state(engine.get()) != state) {
        if (std::chrono::steady_clock::now() > end) return false;
        coterie_generation* g = nullptr;
        REQUIRE(coterie_generate(engine.get(), tokens, 3, &o, &g, nullptr) == COTERIE_OK);
        coterie_event event = COTERIE_EVENT_INIT;
        while (event.kind != COTERIE_EVENT_FINISHED)
            REQUIRE(coterie_generation_next(g, &event, -1, nullptr) == COTERIE_OK);
        coterie_generation_destroy(g);
    }
    return true;
}

}  // namespace

TEST_CASE("an engine whose cores are taken away is degraded until they are back") {
    cpu_set_t all, one;
    CPU_ZERO(&all);
    CPU_ZERO(&one);
    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    if (CPU_COUNT(&all) < 2) {
        WARN("skipped: there is one core only");
        return;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
        if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    Told told;
    coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
    o.threads = 2;
    o.context_tokens = 64;
    o.isa = "portable";
    o.events = tell;
    o.events_user = &told;
    const coterie::Model model(TEST_DATA "/golden/qwen3moe.gguf");
    const coterie::Engine engine(model, o);
    CHECK(coterie_engine_state(engine.get()) == COTERIE_READY);
    allow(one);
    const bool degraded = reaches(engine, COTERIE_DEGRADED);
    const auto described = nlohmann::json::parse(engine.describe(COTERIE_JSON));
    allow(all);
    REQUIRE(degraded);
    CHECK(described.at("state") == "degraded");
    CHECK(described.at("state_reason").get<std::string>().find("2 threads of the CPU share 1 cores") == 0);
    CHECK(reaches(engine, COTERIE_READY));
    CHECK(nlohmann::json::parse(engine.describe(COTERIE_JSON)).at("state_reason") == "");
    std::lock_guard lock(told.mutex);
    CHECK(told.states == std::vector<int32_t>{COTERIE_READY, COTERIE_DEGRADED, COTERIE_READY});
    CHECK(told.last == "the CPU has its cores again");
}
