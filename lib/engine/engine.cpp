#include "engine/engine.h"

#include <algorithm>

#include "base/failure.h"
#include "engine/placement.h"

namespace coterie {
namespace {

constexpr int32_t page_tokens = 64;

int64_t pages_for(int64_t tokens) {
    return (tokens + page_tokens - 1) / page_tokens;
}

void set_defaults(EngineOptions& o, const Hyperparameters& h) {
    if (o.parallel <= 0) o.parallel = 1;
    if (o.context_tokens <= 0) o.context_tokens = std::min<int64_t>(h.context, default_context_tokens);
    if (o.step_rows <= 0) o.step_rows = 512;
    o.step_rows = std::min(o.step_rows, pages_for(o.context_tokens) * page_tokens);
    o.step_rows = std::max<int64_t>(o.step_rows, o.parallel);
    if (o.queue <= 0) o.queue = 64;
    if (o.checkpoints < 0) o.checkpoints = h.has_states() && o.reuse_prefixes ? 4 * o.parallel : 0;
}

}  // namespace

Engine::Engine(std::shared_ptr<const Model> model, std::shared_ptr<const text::Tokenizer> tokenizer,
               EngineOptions options, const ProgressCallback& progress)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)), options_(std::move(options)) {
    set_defaults(options_, model_->numbers());
    RunnerShape shape;
    shape.step_rows = options_.step_rows;
    shape.step_outputs = options_.parallel;
    shape.page_tokens = page_tokens;
    shape.pages = int32_t(pages_for(options_.context_tokens) * options_.parallel);
    shape.state_slots = options_.parallel + options_.checkpoints;
    shape.key_type = options_.key_type;
    shape.value_type = options_.value_type;
    shape.context_tokens = options_.context_tokens;
    runner_ = std::make_unique<Runner>(
        model_, place(*model_, {options_.devices, options_.isa, options_.threads}), shape, progress);
    for (int rank = 0; rank < runner_->ranks(); ++rank)
        log_line(options_.log, LogLevel::info,
                 fmt::format("rank {}: {}: {}", rank, runner_->device(rank).name(),
                             runner_->device(rank).description()));
    SchedulerOptions s;
    s.sequences = options_.parallel;
    s.context_tokens = options_.context_tokens;
    s.step_rows = options_.step_rows;
    s.checkpoints = options_.checkpoints;
    s.reuse_prefixes = options_.reuse_prefixes;
    scheduler_ = std::make_unique<Scheduler>(*runner_, *tokenizer_, s);
    thread_ = std::thread([this] { work(); });
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
        fail(Status::invalid_argument,
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
        if (lost_) throw *lost_;
        if (int64_t(inbox_.size()) + statistics_.waiting >= options_.queue)
            fail(Status::busy, "{} generations are waiting already, which is the limit; try again later",
                 options_.queue);
        inbox_.emplace_back(generation, std::move(request));
    }
    wake_.notify_all();
    return generation;
}

void Engine::work() {
    for (;;) {
        std::vector<std::pair<std::shared_ptr<Generation>, GenerationRequest>> arrived;
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [&] { return stop_ || !inbox_.empty() || !scheduler_->idle(); });
            if (stop_) {
                lock.unlock();
                scheduler_->fail_all(Failure(Status::cancelled, "the engine was destroyed"));
                for (auto& [generation, request] : inbox_)
                    generation->finish(FinishReason::failed, {},
                                       Failure(Status::cancelled, "the engine was destroyed"));
                return;
            }
            arrived.swap(inbox_);
        }
        for (auto& [generation, request] : arrived)
            scheduler_->submit(std::move(generation), std::move(request));
        try {
            scheduler_->step();
        } catch (const Failure& failure) {
            lose(failure);
        } catch (const std::exception& error) {
            lose(Failure(Status::internal, error.what()));
        }
        std::lock_guard lock(mutex_);
        statistics_ = scheduler_->statistics();
    }
}

// A step failed: what ran is over, and nothing new is taken.
void Engine::lose(const Failure& failure) {
    log_line(options_.log, LogLevel::error, failure.message());
    scheduler_->fail_all(failure);
    std::lock_guard lock(mutex_);
    state_ = EngineState::lost;
    lost_ = Failure(Status::device_lost,
                    fmt::format("the engine is lost ({}); create a new one", failure.message()));
}

EngineState Engine::state() const {
    std::lock_guard lock(mutex_);
    return state_;
}
std::string Engine::state_reason() const {
    std::lock_guard lock(mutex_);
    return lost_ ? lost_->message() : std::string();
}
SchedulerStatistics Engine::statistics() const {
    std::lock_guard lock(mutex_);
    return statistics_;
}

}  // namespace coterie
