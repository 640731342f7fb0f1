// Engines: placing a model, state, statistics.
#include "engine/engine.h"

#include "base/json.h"
#include "coterie/coterie_experimental.h"
#include "engine/crew.h"
#include "engine/placement.h"
#include "guard.h"
#include "handles.h"

using namespace coterie;
using namespace coterie::capi;

namespace {

Type cache_type(const char* name, const char* option) {
    if (!name) return Type::F16;
    const std::optional<Type> type = type_named(name);
    if (!type || (*type != Type::F16 && *type != Type::Q8_0 && *type != Type::F32))
        fail(Status::invalid_argument, "{} is '{}'; f16, q8_0 and f32 are known", option, name);
    return *type;
}

EngineOptions engine_options(const coterie_engine_options& o) {
    EngineOptions result;
    if (o.threads < 0 || o.context_tokens < 0 || o.parallel < 0 || o.step_rows < 0 || o.queue < 0 ||
        o.draft_tokens < 0)
        fail(Status::invalid_argument,
             "threads, context_tokens, parallel, step_rows, queue and draft_tokens can't be negative");
    if (o.context_tokens > INT32_MAX / 2 || o.parallel > 4096 || o.step_rows > 1 << 20 || o.threads > 4096)
        fail(Status::invalid_argument,
             "context_tokens, parallel, step_rows or threads is larger than any machine can use");
    if (o.devices) result.devices = o.devices;
    if (o.isa) result.isa = o.isa;
    if (o.mode) result.mode = mode_named(o.mode);
    result.threads = o.threads;
    result.context_tokens = o.context_tokens;
    result.parallel = o.parallel;
    result.step_rows = o.step_rows;
    result.key_type = cache_type(o.key_type, "key_type");
    result.value_type = cache_type(o.value_type, "value_type");
    if (o.draft_tokens > most_drafts)
        fail(Status::invalid_argument, "draft_tokens is {}; {} at most can be checked in a step",
             o.draft_tokens, most_drafts);
    result.drafts = o.draft_tokens;
    result.host_experts = o.host_experts != 0;
    result.device_bytes = o.device_memory_bytes;
    result.queue = o.queue;
    result.reuse_prefixes = o.no_prefix_reuse == 0;
    if (o.log)
        result.log = [function = o.log, user = o.log_user](LogLevel level, std::string_view line) {
            function(user, int32_t(level), std::string(line).c_str());
        };
    if (o.events)
        result.events = [function = o.events, user = o.events_user](const EngineEvent& e) {
            coterie_engine_event event{};
            event.struct_size = sizeof event;
            event.kind = int32_t(e.kind);
            event.state = int32_t(e.state);
            event.message = e.message.c_str();
            function(user, &event);
        };
    return result;
}

// Loading is told to whoever listens to it, as progress or as an event; either may cancel.
ProgressCallback loading_progress(const coterie_engine_options& o) {
    if (!o.events) return progress_of(o.progress, o.progress_user);
    return [progress = progress_of(o.progress, o.progress_user), function = o.events, user = o.events_user](
               const char* what, uint64_t done, uint64_t total) {
        coterie_engine_event event{};
        event.struct_size = sizeof event;
        event.kind = COTERIE_ENGINE_PROGRESS;
        event.message = what;
        event.done = done;
        event.total = total;
        return function(user, &event) == 0 && (!progress || progress(what, done, total));
    };
}

PlanRequest plan_request(const coterie_plan_request& o, const Machine& machine) {
    PlanRequest result;
    result.context_tokens = o.context_tokens;
    result.parallel = o.parallel == 0 ? 1 : o.parallel;
    result.step_rows = o.step_rows;
    result.key_type = cache_type(o.key_type, "key_type");
    result.value_type = cache_type(o.value_type, "value_type");
    if (o.mode) result.mode = mode_named(o.mode);
    result.host_experts = o.host_experts != 0;
    result.limits.assign(machine.devices.size(), o.device_memory_bytes);
    return result;
}

const char* state_name(EngineState state) {
    switch (state) {
        case EngineState::ready:
            return "ready";
        case EngineState::degraded:
            return "degraded";
        case EngineState::lost:
            break;
    }
    return "lost";
}

Json describe(const Engine& engine) {
    Json ranks = Json::array();
    const std::vector<RankMemory> memory = engine.runner().memory();
    for (size_t i = 0; i < memory.size(); ++i) {
        const RankMemory& m = memory[i];
        ranks.push_back({{"device", m.device},
                         {"description", engine.runner().device(int(i)).description()},
                         {"weights_bytes", m.weights},
                         {"kv_bytes", m.cache},
                         {"state_bytes", m.states},
                         {"scratch_bytes", m.scratch},
                         {"comm_bytes", m.comm},
                         {"total_bytes", m.weights + m.cache + m.states + m.scratch + m.comm}});
    }
    return {{"model", engine.model().file().path()},
            {"context_tokens", engine.options().context_tokens},
            {"parallel", engine.options().parallel},
            {"mode", mode_name(engine.plan().mode)},
            {"state", state_name(engine.state())},
            {"state_reason", engine.state_reason()},
            {"ranks", std::move(ranks)}};
}

std::string describe_text(const Engine& engine) {
    std::string text = fmt::format("{} tokens of context for {} at once\n", engine.options().context_tokens,
                                   engine.options().parallel);
    if (engine.state() != EngineState::ready)
        text += fmt::format("{}: {}\n", state_name(engine.state()), engine.state_reason());
    const std::vector<RankMemory> memory = engine.runner().memory();
    const auto mib = [](uint64_t bytes) { return double(bytes) / (1 << 20); };
    for (size_t i = 0; i < memory.size(); ++i) {
        const RankMemory& m = memory[i];
        text += fmt::format(
            "rank {}: {}: weights {:.1f} MiB, cache {:.1f} MiB, states {:.1f} MiB, scratch {:.1f} MiB\n", i,
            engine.runner().device(int(i)).description(), mib(m.weights), mib(m.cache), mib(m.states),
            mib(m.scratch));
    }
    return text;
}

}  // namespace

coterie_status coterie_plan(const coterie_model* model, const coterie_plan_request* request, int32_t format,
                            int32_t* fits, char* buffer, size_t capacity, size_t* needed,
                            coterie_error* error) {
    return guard(error, [&] {
        const coterie_plan_request o = read_options(request, "request");
        if (o.machine && o.devices)
            fail(Status::invalid_argument, "give a machine or devices of this one, not both");
        DeviceRequest devices;
        if (o.devices) devices.devices = o.devices;
        const Machine machine = o.machine ? find_machine(o.machine) : machine_for(devices);
        const Plan plan = make_plan(*need(model, "model").data->model, machine, plan_request(o, machine));
        if (fits) *fits = plan.fits;
        write_text(format == COTERIE_JSON ? plan_json(plan) + "\n" : plan_text(plan), buffer, capacity,
                   needed);
    });
}

coterie_status coterie_engine_create(coterie_model* model, const coterie_engine_options* options,
                                     coterie_engine** engine, coterie_error* error) {
    return guard(error, [&] {
        need(engine, "engine") = nullptr;
        const coterie_engine_options o = read_options(options, "options");
        auto data = std::make_shared<EngineData>();
        data->model = need(model, "model").data;
        data->engine = std::make_unique<Engine>(data->model->model, data->model->tokenizer, engine_options(o),
                                                loading_progress(o));
        *engine = new coterie_engine{std::move(data)};
    });
}

void coterie_engine_destroy(coterie_engine* engine) {
    delete engine;
}

int32_t coterie_engine_state(const coterie_engine* engine) {
    return engine ? int32_t(engine->data->engine->state()) : COTERIE_LOST;
}

coterie_status coterie_engine_get_statistics(const coterie_engine* engine,
                                             coterie_engine_statistics* statistics, coterie_error* error) {
    return guard(error, [&] {
        const Engine& e = *need(engine, "engine").data->engine;
        const SchedulerStatistics s = e.statistics();
        coterie_engine_statistics result{};
        result.running = int32_t(s.running);
        result.waiting = int32_t(s.waiting);
        result.parallel = e.options().parallel;
        result.context_tokens = e.options().context_tokens;
        result.pages = s.pages;
        result.pages_held = s.pages_held;
        result.pages_cached = s.pages_cached;
        result.prompt_tokens = s.prompt_tokens;
        result.cached_tokens = s.cached_tokens;
        result.generated_tokens = s.generated_tokens;
        result.steps = s.steps;
        result.step_us = s.step_us;
        result.preemptions = s.preemptions;
        result.queue = e.options().queue;
        result.state_slots = int32_t(s.state_slots);
        result.state_slots_used = int32_t(s.state_slots_used);
        result.checkpoints = int32_t(s.checkpoints);
        result.checkpoint_hits = s.checkpoint_hits;
        result.prefix_hit_rate = s.prompt_tokens > 0 ? double(s.cached_tokens) / double(s.prompt_tokens) : 0;
        result.step_us_p50 = s.step_us_p50;
        result.step_us_p99 = s.step_us_p99;
        result.tokens_per_second = s.tokens_per_second;
        result.drafted_tokens = s.drafted_tokens;
        result.accepted_tokens = s.accepted_tokens;
        for (int rank = 0; rank < e.runner().ranks(); ++rank)
            result.pending_bytes += int64_t(e.runner().device(rank).pending_bytes());
        write_result(statistics, result, "statistics");
    });
}

coterie_status coterie_engine_describe(const coterie_engine* engine, int32_t format, char* buffer,
                                       size_t capacity, size_t* needed, coterie_error* error) {
    return guard(error, [&] {
        const Engine& e = *need(engine, "engine").data->engine;
        write_text(format == COTERIE_JSON ? describe(e).dump(2) : describe_text(e), buffer, capacity, needed);
    });
}

coterie_status coterie_serve(coterie_log_fn log, void* log_user, int32_t* served, coterie_error* error) {
    return guard(error, [&] {
        need(served, "served") = 0;
        join_processes();
        const std::shared_ptr<Processes> crew = processes();
        if (!crew || crew->rank() == 0) return;
        Log lines;
        if (log)
            lines = [log, log_user](LogLevel level, std::string_view line) {
                log(log_user, int32_t(level), std::string(line).c_str());
            };
        serve(crew, lines);
        *served = 1;
    });
}
