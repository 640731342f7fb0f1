// One generation: what a caller asked for, and the stream that answers it. The scheduler writes, one reader
// reads; cancel() may come from any thread. Tokens that were produced are never lost, whatever ends the
// stream.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/failure.h"
#include "sample/sampler.h"

namespace coterie {

enum class FinishReason : int32_t {
    none = 0,         // still running
    end_token = 1,    // the model ended its answer
    stop_string = 2,  // one of the caller's stop strings came
    token_limit = 3,  // max_tokens reached
    context_full = 4,
    cancelled = 5,
    time_limit = 6,
    failed = 7,  // see the failure
};

// What happens when a sequence reaches the context limit.
enum class ContextPolicy { stop, shift };

// Which tokens may come next; the structured-output machinery implements it. One per generation.
class TokenConstraint {
  public:
    virtual ~TokenConstraint() = default;
    // Bit i set: token i is allowed. False: everything is allowed, the bits were not touched.
    virtual bool mask(std::span<uint32_t> bits) = 0;
    virtual void accept(int32_t token) = 0;
};

// Instead of an answer: the prompt's rows from `first` on, each handed over once, in order. On one of the
// engine's threads, before the generation finishes; must not throw.
struct RowReading {
    bool hidden = false;  // what the output head is given, instead of logits
    int64_t first = 0;
    std::function<void(int64_t row, std::span<const float> values)> take;
};

struct GenerationRequest {
    std::vector<int32_t> prompt;
    SamplingOptions sampling;
    int64_t max_tokens = -1;  // -1: until the context is full
    std::vector<std::string> stop;
    bool ignore_end = false;                  // go on after end tokens
    bool special_text = false;                // give the text of control tokens
    int32_t logprobs = -1;                    // alternatives per token; -1: none
    bool want_logits = false;                 // of every generated token
    int32_t priority = 0;                     // higher goes first
    int32_t drafts = 0;                       // guessed tokens per step; 0: as many as the engine's; -1: none
    std::chrono::milliseconds time_limit{0};  // 0: none
    ContextPolicy context_policy = ContextPolicy::stop;
    std::unique_ptr<TokenConstraint> constraint;
    std::optional<RowReading> reading;
    bool prefill_progress = false;  // pieces that tell how much of the prompt is computed
};

struct Piece {
    int32_t token = -1;    // -1: only tells of the prompt's progress
    int64_t computed = 0;  // tokens of the prompt
    std::string text;      // whole characters that became certain with this token; may be empty
    std::optional<TokenLogprobs> logprobs;
    std::vector<float> logits;
};

struct GenerationStatistics {
    int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
    int64_t computed_tokens = 0;                          // of the prompt, the cached ones among them
    int64_t queue_us = 0, prefill_us = 0, decode_us = 0;  // waiting, until the first token, after it
    int32_t preemptions = 0;
    int64_t drafted_tokens = 0, accepted_tokens = 0;  // guessed; of these, found right
};

class Generation {
  public:
    enum class Next { piece, finished, timeout };
    // Waits for the next piece. timeout < 0: for ever.
    Next next(Piece& piece, std::chrono::milliseconds timeout);
    // Asks the scheduler to stop; seen within one step.
    void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

    FinishReason reason() const;
    std::string stop_string() const;         // which one matched
    std::optional<Failure> failure() const;  // why it failed
    GenerationStatistics statistics() const;
    // What the model has seen and said: the prompt, and the answer from answer_begin() on. A context shift
    // takes its middle out.
    std::vector<int32_t> tokens() const;
    int64_t answer_begin() const;
    // The text of the answer that came before a fork.
    std::string earlier_text() const;

    // For the scheduler.
    void set_tokens(std::vector<int32_t> tokens, int64_t answer_begin);
    void set_earlier_text(std::string text);
    void push(Piece piece);
    void push_progress(int64_t computed);  // takes the place of one that nobody took yet
    void finish(FinishReason reason, std::string stop_string = {}, std::optional<Failure> failure = {});
    // Finishes it with the failure: even when there is no memory for its sentence.
    void fail(const Failure& failure) noexcept;
    void set_statistics(const GenerationStatistics& statistics);
    bool cancel_wanted() const { return cancelled_.load(std::memory_order_relaxed); }

  private:
    std::atomic<bool> cancelled_{false};
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Piece> pieces_;
    FinishReason reason_ = FinishReason::none;
    std::string stop_string_;
    std::optional<Failure> failure_;
    GenerationStatistics statistics_;
    std::vector<int32_t> tokens_;
    int64_t answer_begin_ = 0;
    std::string earlier_text_;
};

}  // namespace coterie
