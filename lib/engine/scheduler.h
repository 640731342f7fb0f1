// The continuous batch: admits generations, builds steps (decode rows first, then prefill chunks), runs them,
// samples, and hands pages and state slots around. Owned by the engine's thread; nothing here locks.
// Invariant: a sequence has computed [0, computed) of its tokens, and holds pages for at least those.
#pragma once
#include <chrono>
#include <deque>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/generation.h"
#include "engine/page_pool.h"
#include "execute/runner.h"
#include "sample/stop_matcher.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace coterie {

struct SchedulerOptions {
    int32_t sequences = 1;             // running at once
    int64_t context_tokens = 4096;     // of one sequence
    int64_t step_rows = 512;           // rows of a step
    int64_t mixed_rows = 128;          // prefill rows of a step that also decodes
    int32_t checkpoints = 0;           // of recurrent states, besides one slot per sequence
    int64_t checkpoint_tokens = 1024;  // distance of checkpoints in a long prompt
    bool reuse_prefixes = true;
};

struct SchedulerStatistics {
    int64_t running = 0, waiting = 0;
    int64_t pages = 0, pages_held = 0, pages_cached = 0;
    int64_t state_slots = 0, checkpoints = 0;
    int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
    int64_t steps = 0, step_us = 0, preemptions = 0;
};

class Scheduler {
  public:
    Scheduler(Runner& runner, const text::Tokenizer& tokenizer, const SchedulerOptions& options);
    ~Scheduler();

    // Takes a generation in; it runs when its turn comes.
    void submit(std::shared_ptr<Generation> generation, GenerationRequest request);
    // Runs one step. False when there was nothing to do.
    bool step();
    // Ends everything with this failure.
    void fail_all(const Failure& failure);
    bool idle() const { return running_.empty() && waiting_.empty(); }
    SchedulerStatistics statistics() const;
    // Throws internal if pages or slots are lost or held twice.
    void check() const;

  private:
    using Clock = std::chrono::steady_clock;
    struct Sequence;
    using SequenceList = std::list<std::unique_ptr<Sequence>>;
    struct Part {  // of a step
        Sequence* sequence;
        int64_t rows;
    };

    void drop_cancelled();
    void admit();
    bool start(Sequence& s);
    void match_prefix(Sequence& s);
    bool reserve(Sequence& s, int64_t tokens);  // pages for that many tokens; may preempt others
    bool preempt_for(const Sequence& s);
    void give_way(Sequence& s);
    void preempt(Sequence& s);
    void release(Sequence& s);
    std::vector<Part> plan();
    int64_t chunk(const Sequence& s, int64_t budget) const;
    void fill(const std::vector<Part>& parts);
    void advance(Sequence& s, int64_t rows);
    void checkpoint(Sequence& s);
    void drop_checkpoint(uint64_t id);
    void sample(Sequence& s, std::span<float> logits);
    void shift_context(Sequence& s);
    void finish(Sequence& s, FinishReason reason, std::string stop = {}, std::optional<Failure> failure = {});
    void sweep();

    Runner& runner_;
    const text::Tokenizer& tokenizer_;
    SchedulerOptions options_;
    bool has_states_, has_cache_;
    PagePool pages_;
    std::vector<int32_t> free_sequences_, free_checkpoints_;
    std::unordered_map<uint64_t, int32_t> checkpoints_;  // page id -> state slot after that page
    std::list<uint64_t> checkpoint_use_;                 // least recently used first
    SequenceList running_, waiting_;
    int64_t turn_ = 0;  // round robin of prefill
    Step step_;
    std::vector<float> logits_;
    std::vector<uint32_t> mask_;
    SchedulerStatistics totals_;
};

}  // namespace coterie
