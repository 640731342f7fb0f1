// A model placed on devices, serving generations: owns the runner, the scheduler and the thread that drives
// them. Any thread may submit, cancel and read statistics.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/progress.h"
#include "engine/scheduler.h"
#include "engine/sequence_file.h"
#include "plan/planner.h"

namespace coterie {

// Of one sequence in one step.
constexpr int32_t most_drafts = 64;
enum class EngineState : int32_t { ready = 0, degraded = 1, lost = 2 };

// What an engine tells of itself, on a thread of its own or the one that creates it; never under a lock.
struct EngineEvent {
    enum class Kind : int32_t { state = 2, warning = 3 };  // the numbers of coterie.h
    Kind kind = Kind::warning;
    EngineState state = EngineState::ready;
    std::string message;
};

struct EngineOptions {
    std::string devices;         // "" = "cpu"; "cpu:4" = four CPU ranks; "reference"
    std::string isa;             // of the CPU device; "" = the best there is
    int32_t threads = 0;         // 0: all usable cores
    int64_t context_tokens = 0;  // of one sequence; 0: what fits, at most default_context_tokens
    int32_t parallel = 0;        // sequences at once; 0: 1
    int64_t step_rows = 0;       // 0: 512
    Type key_type = Type::F16, value_type = Type::F16;
    int32_t queue = 0;         // waiting generations before busy; 0: 64
    int32_t drafts = 0;        // most guessed tokens of a sequence that a step checks; 0: none
    int32_t checkpoints = -1;  // of recurrent states; -1: chosen
    bool reuse_prefixes = true;
    Mode mode = Mode::automatic;  // how the model is cut between several ranks
    bool host_experts = false;    // experts that don't fit may stay on the host and be computed there
    uint64_t device_bytes = 0;    // most to use of each device; 0: all that is free
    Log log;
    std::function<void(const EngineEvent&)> events;
};

class Engine {
  public:
    // Places and loads the model. Throws what planning and loading throw.
    Engine(std::shared_ptr<const Model> model, std::shared_ptr<const text::Tokenizer> tokenizer,
           EngineOptions options, const ProgressCallback& progress = {});
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // Throws invalid_argument (an empty or too long prompt, a token outside the vocabulary), busy, or
    // device_lost.
    std::shared_ptr<Generation> submit(GenerationRequest request);

    // A new generation that continues from all tokens `parent` has now, sharing what is computed of them;
    // request.prompt is ignored. Waits for the step that runs. Throws as submit does.
    std::shared_ptr<Generation> fork(const Generation& parent, GenerationRequest request);
    // Writes the tokens of a generation, and what is at hand of their keys, values and states.
    void save(const Generation& generation, const std::string& path);
    // The tokens of a saved generation; a prompt that begins with them finds what was saved of their
    // computation. Throws not_found, invalid_argument (another model, another kind of engine) or bad_model
    // (damaged).
    std::vector<int32_t> restore(const std::string& path);

    const Model& model() const { return *model_; }
    const text::Tokenizer& tokenizer() const { return *tokenizer_; }
    const EngineOptions& options() const { return options_; }
    const Runner& runner() const { return *runner_; }
    const Plan& plan() const { return plan_; }
    EngineState state() const;
    std::string state_reason() const;
    SchedulerStatistics statistics() const;

  private:
    void work();
    void look();
    void check_queue() const;  // throws busy or what the engine was lost by; needs the lock
    SequenceBinding binding() const;
    // Runs a task on the engine's thread, between steps, and waits for it.
    void between_steps(std::function<void()> task);
    void lose(const Failure& failure);
    void tell(EngineEvent event) const;

    std::shared_ptr<const Model> model_;
    std::shared_ptr<const text::Tokenizer> tokenizer_;
    EngineOptions options_;
    Plan plan_;
    std::unique_ptr<Runner> runner_;
    std::unique_ptr<Scheduler> scheduler_;

    mutable std::mutex mutex_;
    std::condition_variable wake_;
    std::vector<std::pair<std::shared_ptr<Generation>, GenerationRequest>> inbox_;
    std::vector<std::packaged_task<void()>> tasks_;
    SchedulerStatistics statistics_;
    EngineState state_ = EngineState::ready;
    std::optional<Failure> lost_;
    std::string degraded_;             // why
    int cpu_threads_ = 0, cores_ = 0;  // of the CPU's ranks together; granted when the engine was made
    std::chrono::steady_clock::time_point next_look_;
    // Made beforehand: the end must not fail for want of memory.
    const Failure destroyed_{Status::cancelled, "the engine was destroyed"};
    bool stop_ = false;
    std::thread thread_;
};

}  // namespace coterie
