#include "engine/scheduler.h"

#include <algorithm>

#include "base/failure.h"

namespace coterie {

struct Scheduler::Sequence {
    std::shared_ptr<Generation> generation;
    GenerationRequest request;
    Sampler sampler;
    text::Detokenizer detokenizer;
    StopMatcher stop;
    std::vector<int32_t> tokens;  // prompt and answer
    int64_t prompt = 0;           // how many of them are the prompt
    int64_t computed = 0;         // how many the pages and the state hold
    int64_t generated = 0;
    std::vector<int32_t> pages;
    std::vector<uint64_t> page_ids;  // of published pages, from the first on
    int32_t index = -1;              // row of the page table, and state slot
    bool done = false;
    GenerationStatistics statistics;
    Clock::time_point submitted = Clock::now(), started{}, first_token{};

    Sequence(std::shared_ptr<Generation> g, GenerationRequest r, const text::Tokenizer& tokenizer)
        : generation(std::move(g)),
          request(std::move(r)),
          sampler(request.sampling),
          detokenizer(tokenizer, request.special_text),
          stop(request.stop),
          tokens(request.prompt),
          prompt(int64_t(request.prompt.size())) {
        for (const int32_t token : tokens) sampler.accept(token);
    }
    int64_t pending() const { return int64_t(tokens.size()) - computed; }
};

namespace {

int64_t microseconds(std::chrono::steady_clock::duration d) {
    return std::chrono::duration_cast<std::chrono::microseconds>(d).count();
}

}  // namespace

Scheduler::Scheduler(Runner& runner, const text::Tokenizer& tokenizer, const SchedulerOptions& options)
    : runner_(runner),
      tokenizer_(tokenizer),
      options_(options),
      has_states_(runner.model().numbers().has_states()),
      has_cache_(runner.page_bytes() > 0),
      pages_(runner.shape().pages, runner.shape().page_tokens, [this](uint64_t id) { drop_checkpoint(id); }) {
    COTERIE_CHECK(options.step_rows <= runner.shape().step_rows &&
                  options.sequences <= runner.shape().step_outputs);
    for (int32_t i = options.sequences - 1; i >= 0; --i) free_sequences_.push_back(i);
    if (has_states_)
        for (int32_t i = 0; i < options.checkpoints; ++i) free_checkpoints_.push_back(options.sequences + i);
    step_.page_tokens = runner.shape().page_tokens;
    step_.pages_per_sequence = int32_t((options.context_tokens + step_.page_tokens - 1) / step_.page_tokens);
    step_.pages.assign(size_t(options.sequences) * size_t(step_.pages_per_sequence), 0);
    const size_t vocabulary = size_t(runner.model().numbers().vocabulary);
    logits_.resize(size_t(options.sequences) * vocabulary);
    mask_.resize((vocabulary + 31) / 32);
}

Scheduler::~Scheduler() = default;

void Scheduler::submit(std::shared_ptr<Generation> generation, GenerationRequest request) {
    auto sequence = std::make_unique<Sequence>(std::move(generation), std::move(request), tokenizer_);
    auto place = waiting_.begin();
    while (place != waiting_.end() && (*place)->request.priority >= sequence->request.priority) ++place;
    waiting_.insert(place, std::move(sequence));
}

void Scheduler::drop_cancelled() {
    const Clock::time_point now = Clock::now();
    for (SequenceList* list : {&running_, &waiting_})
        for (auto& s : *list) {
            if (s->generation->cancel_wanted())
                finish(*s, FinishReason::cancelled);
            else if (s->request.time_limit.count() > 0 && now - s->submitted >= s->request.time_limit)
                finish(*s, FinishReason::time_limit);
        }
    sweep();
}

void Scheduler::sweep() {
    const auto done = [](const std::unique_ptr<Sequence>& s) { return s->done; };
    running_.remove_if(done);
    waiting_.remove_if(done);
}

void Scheduler::admit() {
    while (!waiting_.empty() && !free_sequences_.empty()) {
        Sequence& s = *waiting_.front();
        if (!start(s)) return;
        running_.splice(running_.end(), waiting_, waiting_.begin());
    }
}

bool Scheduler::start(Sequence& s) {
    s.index = free_sequences_.back();
    match_prefix(s);
    // Room for the whole of what is known and one more, without driving anyone out: else wait.
    const int64_t need = has_cache_ ? (int64_t(s.tokens.size()) + step_.page_tokens) / step_.page_tokens : 0;
    if (need - int64_t(s.pages.size()) > pages_.available() && !running_.empty()) {
        release(s);
        return false;
    }
    free_sequences_.pop_back();
    if (has_states_ && s.computed == 0) runner_.clear_state(s.index);
    if (s.started == Clock::time_point{}) {
        s.started = Clock::now();
        s.statistics.queue_us = microseconds(s.started - s.submitted);
        s.statistics.prompt_tokens = s.prompt;
        s.statistics.cached_tokens = s.computed;
        totals_.prompt_tokens += s.prompt;
        totals_.cached_tokens += s.computed;
        s.generation->set_statistics(s.statistics);
    }
    return true;
}

// Takes over the pages of the longest known prefix; with recurrent states, up to the last page with a
// checkpoint. At least one token is left to compute, for its logits.
void Scheduler::match_prefix(Sequence& s) {
    s.computed = 0;
    if (!options_.reuse_prefixes || !has_cache_) return;
    const int64_t n = step_.page_tokens, most = (int64_t(s.tokens.size()) - 1) / n;
    std::vector<int32_t> found;
    std::vector<uint64_t> ids;
    size_t usable = 0;
    for (int64_t i = 0; i < most; ++i) {
        uint64_t id = 0;
        const int32_t page =
            pages_.find(ids.empty() ? 0 : ids.back(), {s.tokens.data() + i * n, size_t(n)}, &id);
        if (page < 0) break;
        found.push_back(page);
        ids.push_back(id);
        if (!has_states_ || checkpoints_.contains(id)) usable = found.size();
    }
    while (found.size() > usable) {
        pages_.release(found.back());
        found.pop_back();
        ids.pop_back();
    }
    if (found.empty()) return;
    if (has_states_) {
        const uint64_t id = ids.back();
        runner_.copy_state(checkpoints_.at(id), s.index);
        checkpoint_use_.remove(id);
        checkpoint_use_.push_back(id);
    }
    s.pages = std::move(found);
    s.page_ids = std::move(ids);
    s.computed = int64_t(s.pages.size()) * n;
}

bool Scheduler::reserve(Sequence& s, int64_t tokens) {
    if (!has_cache_) return true;
    const int64_t need = (tokens + step_.page_tokens - 1) / step_.page_tokens;
    while (int64_t(s.pages.size()) < need) {
        const int32_t page = pages_.take();
        if (page >= 0)
            s.pages.push_back(page);
        else if (!preempt_for(s))
            return false;
    }
    return true;
}

// Drives out the least important sequence, the youngest of equals; false when that would be s itself.
bool Scheduler::preempt_for(const Sequence& s) {
    Sequence* victim = nullptr;
    for (const auto& r : running_)
        if (!r->done && r->index >= 0 && (!victim || r->request.priority <= victim->request.priority))
            victim = r.get();
    if (!victim || victim == &s) return false;
    preempt(*victim);
    return true;
}

// No page is left that s may take: it waits for the others, or ends when there are none.
void Scheduler::give_way(Sequence& s) {
    const bool others = std::any_of(running_.begin(), running_.end(), [&](const auto& r) {
        return r.get() != &s && !r->done && r->index >= 0;
    });
    if (others)
        preempt(s);
    else
        finish(s, FinishReason::context_full);
}

void Scheduler::preempt(Sequence& s) {
    ++s.statistics.preemptions;
    ++totals_.preemptions;
    free_sequences_.push_back(s.index);
    release(s);
}

void Scheduler::release(Sequence& s) {
    // Last page first, so that of a kept prefix the end is forgotten before its beginning.
    while (!s.pages.empty()) {
        pages_.release(s.pages.back());
        s.pages.pop_back();
    }
    s.page_ids.clear();
    s.computed = 0;
    s.index = -1;
}

int64_t Scheduler::chunk(const Sequence& s, int64_t budget) const {
    int64_t rows = std::min(s.pending(), budget);
    if (!has_states_ || options_.checkpoints == 0) return rows;
    // End a chunk where a checkpoint belongs: at the last full page of the prompt, and at intervals.
    const int64_t n = step_.page_tokens, last = (int64_t(s.tokens.size()) - 1) / n * n;
    const int64_t interval = std::max<int64_t>(options_.checkpoint_tokens / n, 1) * n;
    for (const int64_t stop : {(s.computed / interval + 1) * interval, last})
        if (stop > s.computed && stop < s.computed + rows) rows = stop - s.computed;
    return rows;
}

std::vector<Scheduler::Part> Scheduler::plan() {
    std::vector<Part> parts;
    int64_t budget = options_.step_rows;
    // Decode rows first.
    for (const auto& s : running_) {
        if (s->pending() != 1 || s->index < 0 || budget == 0) continue;
        if (!reserve(*s, int64_t(s->tokens.size()))) {
            give_way(*s);
            continue;
        }
        parts.push_back({s.get(), 1});
        --budget;
    }
    // A preemption may have hit a sequence that was planned already.
    std::erase_if(parts, [](const Part& p) { return p.sequence->index < 0 || p.sequence->done; });
    if (!parts.empty()) budget = std::min(budget, options_.mixed_rows);
    // Then prefill, in turns.
    std::vector<Sequence*> filling;
    for (const auto& s : running_)
        if (s->pending() > 1 && s->index >= 0 && !s->done) filling.push_back(s.get());
    for (size_t i = 0; i < filling.size() && budget > 0; ++i) {
        Sequence* s = filling[(size_t(turn_) + i) % filling.size()];
        if (s->index < 0) continue;
        const int64_t rows = chunk(*s, budget);
        if (!reserve(*s, s->computed + rows)) {
            give_way(*s);
            continue;
        }
        parts.push_back({s, rows});
        budget -= rows;
    }
    std::erase_if(parts, [](const Part& p) { return p.sequence->index < 0 || p.sequence->done; });
    ++turn_;
    // Those driven out wait at the front of the queue.
    for (auto it = running_.begin(); it != running_.end();) {
        const auto here = it++;
        if ((*here)->index < 0 && !(*here)->done) waiting_.splice(waiting_.begin(), running_, here);
    }
    return parts;
}

void Scheduler::fill(const std::vector<Part>& parts) {
    step_.tokens.clear();
    step_.positions.clear();
    step_.span_of.clear();
    step_.spans.clear();
    step_.outputs.clear();
    for (const Part& part : parts) {
        Sequence& s = *part.sequence;
        const int32_t span = int32_t(step_.spans.size()), first = int32_t(step_.tokens.size());
        step_.spans.push_back(
            {s.index, has_states_ ? s.index : -1, first, int32_t(part.rows), int32_t(s.computed)});
        for (int64_t i = 0; i < part.rows; ++i) {
            step_.tokens.push_back(s.tokens[size_t(s.computed + i)]);
            step_.positions.push_back(int32_t(s.computed + i));
            step_.span_of.push_back(span);
        }
        if (part.rows == s.pending()) step_.outputs.push_back(first + int32_t(part.rows) - 1);
        std::copy(s.pages.begin(), s.pages.end(),
                  step_.pages.begin() + int64_t(s.index) * step_.pages_per_sequence);
    }
}

bool Scheduler::step() {
    drop_cancelled();
    admit();
    const std::vector<Part> parts = plan();
    sweep();
    if (parts.empty()) return false;
    fill(parts);
    const Clock::time_point begin = Clock::now();
    const size_t vocabulary = size_t(runner_.model().numbers().vocabulary);
    runner_.run(step_, logits_);
    totals_.step_us += microseconds(Clock::now() - begin);
    ++totals_.steps;
    size_t output = 0;
    for (const Part& part : parts) {
        Sequence& s = *part.sequence;
        const bool wanted = part.rows == s.pending();
        advance(s, part.rows);
        if (wanted) sample(s, {logits_.data() + output++ * vocabulary, vocabulary});
    }
    sweep();
    return true;
}

void Scheduler::advance(Sequence& s, int64_t rows) {
    s.computed += rows;
    if (!options_.reuse_prefixes || !has_cache_) return;
    const int64_t n = step_.page_tokens;
    while (int64_t(s.page_ids.size() + 1) * n <= s.computed) {
        const size_t i = s.page_ids.size();
        s.page_ids.push_back(pages_.publish(s.pages[i], s.page_ids.empty() ? 0 : s.page_ids.back(),
                                            {s.tokens.data() + int64_t(i) * n, size_t(n)}));
    }
    if (s.computed % n == 0) checkpoint(s);
}

// Keeps the state at the end of the sequence's last full page, if that is a place to resume from.
void Scheduler::checkpoint(Sequence& s) {
    if (!has_states_ || options_.checkpoints == 0) return;
    const int64_t n = step_.page_tokens, interval = std::max<int64_t>(options_.checkpoint_tokens / n, 1) * n;
    const bool near_end =
        int64_t(s.tokens.size()) - s.computed <= n;  // of the prompt, or any page of the answer
    if (!near_end && s.computed % interval != 0) return;
    const uint64_t id = s.page_ids.back();
    if (checkpoints_.contains(id)) return;
    if (free_checkpoints_.empty()) drop_checkpoint(checkpoint_use_.front());
    const int32_t slot = free_checkpoints_.back();
    free_checkpoints_.pop_back();
    runner_.copy_state(s.index, slot);
    checkpoints_.emplace(id, slot);
    checkpoint_use_.push_back(id);
}

void Scheduler::drop_checkpoint(uint64_t id) {
    const auto it = checkpoints_.find(id);
    if (it == checkpoints_.end()) return;
    free_checkpoints_.push_back(it->second);
    checkpoints_.erase(it);
    checkpoint_use_.remove(id);
}

void Scheduler::sample(Sequence& s, std::span<float> logits) {
    const Clock::time_point now = Clock::now();
    if (s.generated == 0) {
        s.first_token = now;
        s.statistics.prefill_us = microseconds(now - s.started);
    }
    if (s.request.max_tokens == 0) return finish(s, FinishReason::token_limit);
    Piece piece;
    try {
        if (s.request.want_logits) piece.logits.assign(logits.begin(), logits.end());
        const bool masked = s.request.constraint && s.request.constraint->mask(mask_);
        piece.token =
            s.sampler.sample(logits, masked ? std::span<const uint32_t>(mask_) : std::span<const uint32_t>{});
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

// Forgets the older half of what follows the prompt's first quarter and computes the rest anew.
void Scheduler::shift_context(Sequence& s) {
    const int64_t keep = std::min(s.prompt, options_.context_tokens / 4);
    const int64_t drop = (int64_t(s.tokens.size()) - keep) / 2;
    s.tokens.erase(s.tokens.begin() + keep, s.tokens.begin() + keep + drop);
    const int32_t index = s.index;
    release(s);
    s.index = index;
    if (has_states_) runner_.clear_state(index);
}

void Scheduler::finish(Sequence& s, FinishReason reason, std::string stop, std::optional<Failure> failure) {
    if (s.done) return;
    s.done = true;
    if (s.index >= 0) {
        free_sequences_.push_back(s.index);
        release(s);
    }
    s.generation->set_statistics(s.statistics);
    s.generation->finish(reason, std::move(stop), std::move(failure));
}

void Scheduler::fail_all(const Failure& failure) {
    for (SequenceList* list : {&running_, &waiting_})
        for (auto& s : *list) finish(*s, FinishReason::failed, {}, failure);
    sweep();
}

SchedulerStatistics Scheduler::statistics() const {
    SchedulerStatistics s = totals_;
    s.running = int64_t(running_.size());
    s.waiting = int64_t(waiting_.size());
    s.pages = pages_.pages();
    s.pages_held = pages_.held();
    s.pages_cached = pages_.cached();
    s.state_slots = has_states_ ? options_.sequences + options_.checkpoints : 0;
    s.checkpoints = int64_t(checkpoints_.size());
    return s;
}

void Scheduler::check() const {
    pages_.check();
    int64_t with_index = 0;
    for (const auto& s : running_) {
        with_index += s->index >= 0;
        COTERIE_CHECK(s->computed <= int64_t(s->tokens.size()));
        COTERIE_CHECK(!has_cache_ || s->computed <= int64_t(s->pages.size()) * step_.page_tokens);
    }
    COTERIE_CHECK(with_index + int64_t(free_sequences_.size()) == options_.sequences);
    COTERIE_CHECK(checkpoints_.size() == checkpoint_use_.size());
    COTERIE_CHECK(!has_states_ ||
                  checkpoints_.size() + free_checkpoints_.size() == size_t(options_.checkpoints));
}

}  // namespace coterie
