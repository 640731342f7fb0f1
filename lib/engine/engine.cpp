#include "engine/engine.h"

#include <algorithm>

#include "base/failure.h"
#include "engine/crew.h"
#include "engine/placement.h"

namespace coterie {

PlanRequest plan_request(const EngineOptions& o, const Machine& machine) {
    PlanRequest r;
    r.context_tokens = o.context_tokens;
    r.parallel = std::max(o.parallel, 1);
    r.step_rows = o.step_rows;
    r.key_type = o.key_type;
    r.value_type = o.value_type;
    r.mode = o.mode;
    r.host_experts = o.host_experts;
    r.limits.assign(machine.devices.size(), o.device_bytes);
    r.reuse_prefixes = o.reuse_prefixes;
    r.drafts = o.drafts;
    r.checkpoints = o.checkpoints;
    return r;
}

RunnerShape runner_shape(const Plan& plan) {
    RunnerShape shape;
    shape.step_rows = plan.step_rows;
    shape.step_outputs = plan.step_outputs;
    shape.page_tokens = plan_page_tokens;
    shape.pages = plan.pages;
    shape.state_slots = plan.state_slots;
    shape.key_type = plan.key_type;
    shape.value_type = plan.value_type;
    shape.context_tokens = plan.context_tokens;
    shape.row_cost = plan.row_cost;
    return shape;
}

// What is being handled, as a Failure; without memory for its sentence, with a word that needs none.
static Failure current_failure() noexcept {
    try {
        try {
            throw;
        } catch (const Failure& failure) {
            return failure;
        } catch (const std::bad_alloc&) {
            return {Status::out_of_memory, "the host's memory is used up; ask for less or free something"};
        } catch (const std::exception& error) {
            return {Status::internal, error.what()};
        }
    } catch (...) {
    }
    return {Status::out_of_memory, "out of memory"};
}

Engine::Engine(std::shared_ptr<const Model> model, std::shared_ptr<const text::Tokenizer> tokenizer,
               EngineOptions options, const ProgressCallback& progress)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)), options_(std::move(options)) {
    if (const std::shared_ptr<Processes> crew = processes()) {
        CrewPlace place = lead(crew, model_, options_, progress);
        plan_ = std::move(place.plan);
        runner_ = std::move(place.runner);
    } else {
        const DeviceRequest devices{options_.devices, options_.isa, options_.threads, options_.mode};
        const Machine machine = machine_for(devices);
        plan_ = make_plan(*model_, machine, plan_request(options_, machine));
        runner_ =
            std::make_unique<Runner>(model_, place(*model_, plan_, devices), runner_shape(plan_), progress);
    }
    options_.context_tokens = plan_.context_tokens;
    options_.parallel = plan_.parallel;
    options_.step_rows = plan_.step_rows;
    const int32_t snapshots = options_.drafts > 0 ? plan_.parallel : 0;
    options_.checkpoints = std::max(plan_.state_slots - plan_.parallel - snapshots, 0);
    if (options_.queue <= 0) options_.queue = 64;
    log_line(options_.log, LogLevel::info, plan_text(plan_));
    for (int rank = 0; rank < runner_->ranks(); ++rank)
        log_line(options_.log, LogLevel::info,
                 fmt::format("rank {}: {}: {}", rank, runner_->device(rank).name(),
                             runner_->device(rank).description()));
    for (const std::string& note : plan_.notes) tell({EngineEvent::Kind::warning, EngineState::ready, note});
    if (options_.threads > usable_cores())
        tell({EngineEvent::Kind::warning, EngineState::ready,
              fmt::format("{} threads were asked for but {} cores are usable; they will wait for each other",
                          options_.threads, usable_cores())});
    cores_ = granted_cores();
    for (int rank = 0; rank < runner_->ranks(); ++rank)
        if (runner_->device(rank).name().rfind("cpu", 0) == 0)
            cpu_threads_ = options_.threads > 0 ? options_.threads : usable_cores();
    SchedulerOptions s;
    s.sequences = options_.parallel;
    s.context_tokens = options_.context_tokens;
    s.step_rows = options_.step_rows;
    s.checkpoints = options_.checkpoints;
    s.drafts = options_.drafts;
    s.reuse_prefixes = options_.reuse_prefixes;
    scheduler_ = std::make_unique<Scheduler>(*runner_, *tokenizer_, s);
    tell({EngineEvent::Kind::state, EngineState::ready, "the model is loaded"});
    thread_ = std::thread([this] { work(); });
}

void Engine::tell(EngineEvent event) const {
    if (options_.events) options_.events(event);
}

Engine::~Engine() {
    {
        std::lock_guard lock(mutex_);
        stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
}

std::shared_ptr<Generation> Engine::submit(GenerationRequest request) {
    if (request.prompt.empty())
        fail(Status::invalid_argument, "the prompt is empty; give at least one token");
    if (int64_t(request.prompt.size()) > options_.context_tokens)
        fail(Status::too_long,
             "the prompt has {} tokens but the context holds {}; shorten it or create the engine with a "
             "larger context",
             request.prompt.size(), options_.context_tokens);
    for (const int32_t token : request.prompt)
        if (token < 0 || token >= model_->numbers().vocabulary)
            fail(Status::invalid_argument, "token {} is not in the vocabulary of {} tokens", token,
                 model_->numbers().vocabulary);
    request.sampling.check();
    auto generation = std::make_shared<Generation>();
    {
        std::lock_guard lock(mutex_);
        check_queue();
        inbox_.emplace_back(generation, std::move(request));
    }
    wake_.notify_all();
    return generation;
}

void Engine::check_queue() const {
    if (lost_) throw *lost_;
    if (int64_t(inbox_.size()) + statistics_.waiting + statistics_.running >=
        int64_t(options_.queue) + options_.parallel)
        fail(Status::busy, "{} generations are waiting already, which is the limit; try again later",
             options_.queue);
}

std::shared_ptr<Generation> Engine::fork(const Generation& parent, GenerationRequest request) {
    request.sampling.check();
    auto generation = std::make_shared<Generation>();
    between_steps([&] {
        {
            std::lock_guard lock(mutex_);
            check_queue();
        }
        scheduler_->fork(parent, generation, std::move(request));
    });
    return generation;
}

void Engine::save(const Generation& generation, const std::string& path) {
    SavedSequence saved;
    between_steps([&] { saved = scheduler_->save(generation); });
    write_sequence_file(path, binding(), saved);
}

std::vector<int32_t> Engine::restore(const std::string& path) {
    SavedSequence saved = read_sequence_file(path, binding());
    between_steps([&] { scheduler_->load(saved); });
    return std::move(saved.tokens);
}

// Layouts of cache and states differ between kinds of devices and numbers of ranks.
SequenceBinding Engine::binding() const {
    SequenceBinding b;
    b.model = model_fingerprint(*model_);
    b.page_tokens = plan_page_tokens;
    b.page_bytes = runner_->page_bytes();
    b.state_bytes = runner_->state_bytes();
    b.vocabulary = model_->numbers().vocabulary;
    const double original = model_->numbers().rope.scaling.original_context;
    b.layout = fmt::format("keys {}, values {}, {} context, {} mode, ranks", type_name(options_.key_type),
                           type_name(options_.value_type),
                           original > 0 && double(options_.context_tokens) > original ? "long" : "short",
                           mode_name(plan_.mode));
    for (int rank = 0; rank < runner_->ranks(); ++rank) b.layout += " " + runner_->device(rank).name();
    b.layout += fmt::format(", {} mode", mode_name(plan_.mode));
    return b;
}

void Engine::between_steps(std::function<void()> task) {
    std::packaged_task<void()> packaged(std::move(task));
    std::future<void> done = packaged.get_future();
    {
        std::lock_guard lock(mutex_);
        if (lost_) throw *lost_;
        if (stop_) fail(Status::cancelled, "the engine is being destroyed");
        tasks_.push_back(std::move(packaged));
    }
    wake_.notify_all();
    done.get();
}

void Engine::work() {
    const auto end = [](auto& generations, const Failure& failure) {
        for (auto& [generation, request] : generations) generation->fail(failure);
        generations.clear();
    };
    bool stalled = false;
    for (;;) {
        decltype(inbox_) arrived;
        decltype(tasks_) tasks;
        {
            std::unique_lock lock(mutex_);
            const auto something = [&] { return stop_ || !inbox_.empty() || !tasks_.empty(); };
            if (scheduler_->idle())
                wake_.wait(lock, something);
            else if (stalled)  // some wait and none can run: look again, but not all the time
                wake_.wait_for(lock, std::chrono::milliseconds(1), something);
            arrived.swap(inbox_);
            tasks.swap(tasks_);
            statistics_.waiting += int64_t(arrived.size());
            if (stop_) {
                lock.unlock();
                scheduler_->fail_all(destroyed_);
                end(arrived, destroyed_);
                return;  // tasks that nobody ran tell their callers by breaking their promise
            }
            if (lost_) end(arrived, *lost_);
        }
        look();
        for (auto& [generation, request] : arrived) try {
                scheduler_->submit(generation, std::move(request));
            } catch (...) {
                generation->finish(FinishReason::failed, {}, current_failure());
            }
        for (auto& task : tasks) task();
        try {
            stalled = !scheduler_->step();
        } catch (...) {
            lose(current_failure());
        }
        std::lock_guard lock(mutex_);
        statistics_ = scheduler_->statistics();
    }
}

// A step failed: what ran is over, and nothing new is taken.
void Engine::lose(const Failure& failure) {
    scheduler_->fail_all(failure);
    std::string reason = "engine is lost";  // short enough to need no memory
    try {
        reason = fmt::format("the engine is lost ({}); create a new one", failure.message());
    } catch (const std::bad_alloc&) {
    }
    Failure lost(Status::device_lost, std::move(reason));
    {
        std::lock_guard lock(mutex_);
        state_ = EngineState::lost;
        lost_ = std::move(lost);
    }
    try {
        log_line(options_.log, LogLevel::error, failure.message());
        tell({EngineEvent::Kind::state, EngineState::lost, state_reason()});
    } catch (const std::bad_alloc&) {
    }
}

// Whether the devices are well, and the cores still there that the engine was made for: a container's quota
// or a set of cores may shrink under it, and the threads then wait for each other in every step.
void Engine::look() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_look_) return;
    next_look_ = now + std::chrono::seconds(1);
    try {
        const int cores = granted_cores();
        std::string reason;
        for (int rank = 0; rank < runner_->ranks() && reason.empty(); ++rank)
            reason = runner_->device(rank).complaint();
        if (reason.empty() && cpu_threads_ > 0 && cores < std::min(cpu_threads_, cores_))
            reason = fmt::format(
                "{} threads of the CPU share {} cores, which were {} when the engine was made: steps take "
                "longer "
                "until they are given back, or the engine is created anew with fewer threads",
                cpu_threads_, cores, cores_);
        const EngineState state = reason.empty() ? EngineState::ready : EngineState::degraded;
        {
            std::lock_guard lock(mutex_);
            if (state_ == EngineState::lost || (state_ == state && degraded_ == reason)) return;
            state_ = state;
            degraded_ = reason;
        }
        if (reason.empty())
            reason = cpu_threads_ > 0 ? "the CPU has its cores again" : "the devices are well again";
        log_line(options_.log, LogLevel::warning, reason);
        tell({EngineEvent::Kind::state, state, reason});
    } catch (const std::bad_alloc&) {  // it will be looked at again
    }
}

EngineState Engine::state() const {
    std::lock_guard lock(mutex_);
    return state_;
}
std::string Engine::state_reason() const {
    std::lock_guard lock(mutex_);
    return lost_ ? lost_->message() : degraded_;
}
SchedulerStatistics Engine::statistics() const {
    std::lock_guard lock(mutex_);
    return statistics_;
}

}  // namespace coterie
