// The continuous batch: admits generations, builds steps (decode rows first, then prefill chunks), runs them,
// samples, and hands pages and state slots around. Owned by the engine's thread; nothing here locks.
// Order is by priority, then by arrival: the first in order is never driven out by another, so it always gets
// on. Invariant: a sequence has computed [0, computed) of its tokens, and holds pages for at least those.
#pragma once
#include <array>
#include <chrono>
#include <list>
#include <memory>
#include <vector>

#include "engine/checkpoint_pool.h"
#include "engine/draft.h"
#include "engine/page_pool.h"
#include "engine/sequence.h"
#include "execute/runner.h"

namespace coterie {

struct SchedulerOptions {
    int32_t sequences = 1;             // running at once
    int64_t context_tokens = 4096;     // of one sequence
    int64_t step_rows = 512;           // rows of a step
    int64_t mixed_rows = 128;          // prefill rows of a step that also decodes
    int32_t checkpoints = 0;           // of recurrent states, besides one slot per sequence
    int64_t checkpoint_tokens = 1024;  // least distance of checkpoints in a long prompt
    int32_t drafts = 0;                // most guessed tokens of a sequence in a step
    Drafter drafter = look_up_draft;
    bool reuse_prefixes = true;
};

struct SchedulerStatistics {
    int64_t running = 0, waiting = 0;
    int64_t pages = 0, pages_held = 0, pages_cached = 0;
    int64_t state_slots = 0, state_slots_used = 0;  // of running sequences and of checkpoints
    int64_t checkpoints = 0, checkpoint_hits = 0;
    int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
    int64_t steps = 0, step_us = 0, preemptions = 0;
    int64_t drafted_tokens = 0, accepted_tokens = 0;  // guessed; of these, found right
    // Of the last steps, at most 256.
    int64_t step_us_p50 = 0, step_us_p99 = 0;
    double tokens_per_second = 0;  // generated
};

// What a sequence can be continued from later: its tokens, and of as many of its first pages as are at hand
// the keys and values; for models with recurrent states also the state after the last of these pages.
struct SavedSequence {
    std::vector<int32_t> tokens;
    int64_t page_count = 0;
    std::vector<std::byte> pages, state;
};

class Scheduler {
  public:
    Scheduler(Runner& runner, const text::Tokenizer& tokenizer, const SchedulerOptions& options);
    ~Scheduler();

    // Takes a generation in; it runs when its turn comes.
    void submit(std::shared_ptr<Generation> generation, GenerationRequest request);
    // As submit, with all tokens of `parent` as the prompt (request.prompt is ignored), sharing what is
    // computed of them: at once when a place is free; together with the parent's first token when its prompt
    // is still being computed. A constraint is first given the answer so far. May throw what it throws.
    void fork(const Generation& parent, std::shared_ptr<Generation> generation, GenerationRequest request);
    SavedSequence save(const Generation& generation);
    // Puts the pages, as far as there is room, where prompts that begin with these tokens find them.
    void load(const SavedSequence& saved);

    // Runs one step. False when there was nothing to run.
    bool step();
    // Ends everything with this failure.
    void fail_all(const Failure& failure);
    bool idle() const { return running_.empty() && waiting_.empty(); }
    SchedulerStatistics statistics() const;
    // Throws internal if pages or slots are lost or held twice. Debug builds call it after every step.
    void check() const;

  private:
    using Clock = Sequence::Clock;
    using SequenceList = std::list<std::unique_ptr<Sequence>>;
    struct Part {  // of a step
        Sequence* sequence;
        int64_t rows;  // drafts included
    };
    struct Timing {  // of a step
        int64_t us = 0, generated = 0;
    };

    // Of a sequence's rows: whole, or where they are all that is needed the best of each.
    struct Logits {
        std::span<float> whole;
        std::span<const Ranked> best;
        Logits row(size_t index, size_t rows) const {
            const size_t w = whole.size() / rows, n = best.size() / rows;
            return {whole.subspan(index * w, w), best.subspan(index * n, n)};
        }
    };

    // scheduler.cpp: whose turn it is
    std::unique_ptr<Sequence> arrive(std::shared_ptr<Generation> generation, GenerationRequest request);
    void queue(std::unique_ptr<Sequence> sequence);
    void drop_cancelled();
    void admit();
    bool start(Sequence& s);
    void started(Sequence& s);
    bool reads_next();
    std::vector<Part> plan(bool reading);
    int64_t chunk(const Sequence& s, int64_t budget) const;
    void fill(const std::vector<Part>& parts);
    void requeue();
    void sweep();
    void run(const std::vector<Part>& parts);
    void run_step(const std::vector<Part>& parts);
    static size_t wanted_rows(const Part& part);
    void read(const std::vector<Part>& parts);
    // scheduler_memory.cpp: pages, slots and checkpoints
    int64_t pages_for(int64_t tokens) const;
    void match_prefix(Sequence& s);
    int64_t room() const;  // pages left when those that run have all their known tokens need
    bool has_room(const Sequence& s) const;
    bool reserve(Sequence& s, int64_t tokens);  // pages for that many tokens; may preempt others
    int64_t active() const;                     // that run and were not driven out just now
    bool preempt_for(const Sequence& s);
    bool displace_for(const Sequence& s);
    void give_way(Sequence& s);
    void preempt(Sequence& s);
    void release(Sequence& s);
    void resume_state(Sequence& s);
    void advance(Sequence& s, int64_t rows);
    int64_t checkpoint_interval(const Sequence& s) const;
    void checkpoint(Sequence& s);
    // scheduler_drafts.cpp: several tokens of a sequence in one step
    void draft(std::vector<Part>& parts, int64_t& budget);
    int32_t snapshot_slot(const Sequence& s) const;
    void verify(Sequence& s, const Logits& logits);
    // scheduler_answer.cpp: from logits to the stream
    void sample(Sequence& s, const Logits& logits);
    void sample_forks(const Sequence& s, const Logits& logits);
    static int64_t best_needed(const Sequence& s);
    void shift_context(Sequence& s);
    void finish(Sequence& s, FinishReason reason, std::string stop = {}, std::optional<Failure> failure = {});
    void tell_progress(Sequence& s);
    // scheduler_sequences.cpp: fork, save, load
    bool split(const Sequence& parent, Sequence& child);
    std::vector<int32_t> hold_prefix(std::span<const int32_t> tokens, std::vector<uint64_t>& ids);

    Runner& runner_;
    const text::Tokenizer& tokenizer_;
    SchedulerOptions options_;
    bool has_states_, has_cache_;
    CheckpointPool checkpoints_;  // by page id
    PagePool pages_;
    std::vector<int32_t> free_sequences_;
    SequenceList running_, waiting_;  // waiting_ in order
    uint64_t arrivals_ = 0;
    bool read_last_ = false;             // the last step was of readings
    const Sequence* blocked_ = nullptr;  // found that much room too little
    int64_t blocked_room_ = 0;
    Step step_;
    std::vector<float> logits_, fork_logits_;
    BestLogits best_;
    std::vector<Candidate> candidates_;
    std::vector<uint32_t> mask_;
    SchedulerStatistics totals_;
    std::array<Timing, 256> timings_;
};

}  // namespace coterie
