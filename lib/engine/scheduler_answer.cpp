// The scheduler's way from logits to a generation's stream: sampling, text, and the reasons to end.
#include <algorithm>

#include "base/failure.h"
#include "engine/scheduler.h"

namespace coterie {
namespace {

int64_t microseconds(std::chrono::steady_clock::duration d) {
    return std::chrono::duration_cast<std::chrono::microseconds>(d).count();
}

}  // namespace

// How many of the best logits of its rows stand for all of them; 0: none do.
int64_t Scheduler::best_needed(const Sequence& s) {
    if (s.request.want_logits || s.request.constraint) return 0;
    return s.sampler.best_needed(int64_t(s.drafts.size()));
}

void Scheduler::sample(Sequence& s, const Logits& logits) {
    const Clock::time_point now = Clock::now();
    if (s.generated == 0) {
        s.first_token = now;
        s.statistics.prefill_us = microseconds(now - s.started);
    }
    if (s.request.max_tokens == 0) return finish(s, FinishReason::token_limit);
    Piece piece;
    try {
        if (!logits.whole.empty()) {
            if (s.request.want_logits) piece.logits.assign(logits.whole.begin(), logits.whole.end());
            const bool masked = s.request.constraint && s.request.constraint->mask(mask_);
            piece.token = s.sampler.sample(
                logits.whole, masked ? std::span<const uint32_t>(mask_) : std::span<const uint32_t>{});
        } else {
            candidates_.clear();
            for (const Ranked& r : logits.best)
                if (r.index >= 0) candidates_.push_back({r.index, r.value});
            piece.token = s.sampler.sample_best(candidates_);
        }
        if (s.request.logprobs >= 0) piece.logprobs = s.sampler.logprobs();
        if (s.request.constraint) s.request.constraint->accept(piece.token);
    } catch (const Failure& failure) {
        return finish(s, FinishReason::failed, {}, failure);
    }
    s.sampler.accept(piece.token);
    ++s.generated;
    ++totals_.generated_tokens;
    s.statistics.generated_tokens = s.generated;
    s.statistics.decode_us = microseconds(now - s.first_token);
    s.tokens.push_back(piece.token);
    s.generation->set_statistics(s.statistics);

    if (!s.request.ignore_end && tokenizer_.is_end(piece.token)) {
        piece.text = s.stop.push(s.detokenizer.flush()) + s.stop.flush();
        s.generation->push(std::move(piece));
        return finish(s, FinishReason::end_token);
    }
    piece.text = s.stop.push(s.detokenizer.push(piece.token));
    const bool stopped = s.stop.matched();
    const bool limited = s.request.max_tokens > 0 && s.generated >= s.request.max_tokens;
    const bool full = int64_t(s.tokens.size()) > options_.context_tokens;
    if (!stopped && (limited || (full && s.request.context_policy == ContextPolicy::stop)))
        piece.text += s.stop.push(s.detokenizer.flush()) + s.stop.flush();
    s.generation->push(std::move(piece));
    if (stopped) return finish(s, FinishReason::stop_string, s.stop.match());
    if (limited) return finish(s, FinishReason::token_limit);
    if (!full) return;
    if (s.request.context_policy == ContextPolicy::stop) return finish(s, FinishReason::context_full);
    shift_context(s);
}

void Scheduler::tell_progress(Sequence& s) {
    s.statistics.computed_tokens = std::min(s.computed, s.prompt);
    s.generation->set_statistics(s.statistics);
    if (s.request.prefill_progress) s.generation->push_progress(s.statistics.computed_tokens);
}

// Forgets the older half of what follows the beginning (the prompt, or a quarter of the context if that is
// less) and computes the rest anew, but for the pages of the beginning.
void Scheduler::shift_context(Sequence& s) {
    const int64_t keep = std::min(s.prompt, options_.context_tokens / 4);
    const int64_t drop = std::max<int64_t>(1, (int64_t(s.tokens.size()) - keep) / 2);
    s.tokens.erase(s.tokens.begin() + keep, s.tokens.begin() + keep + drop);
    s.answer_begin = s.answer_begin >= keep + drop ? s.answer_begin - drop : std::min(s.answer_begin, keep);
    s.message_ends.clear();
    s.generation->set_tokens(s.tokens, s.answer_begin);
    release(s);
    match_prefix(s);
    s.index = free_sequences_.back();
    free_sequences_.pop_back();
    resume_state(s);
}

void Scheduler::finish(Sequence& s, FinishReason reason, std::string stop, std::optional<Failure> failure) {
    if (s.done) return;
    s.done = true;
    release(s);
    if (blocked_ == &s) blocked_ = nullptr;
    for (auto& waiting : waiting_)
        if (waiting->origin == &s) waiting->origin = nullptr;
    s.generation->set_statistics(s.statistics);
    s.generation->finish(reason, std::move(stop), std::move(failure));
}

}  // namespace coterie
