#include "engine/scheduler.h"

#include <algorithm>

#include "base/failure.h"

namespace coterie {
namespace {

int64_t microseconds(std::chrono::steady_clock::duration d) {
    return std::chrono::duration_cast<std::chrono::microseconds>(d).count();
}

// Where a conversation may be taken up again: after the first message (often a system prompt that many share)
// and after the last two.
std::vector<int64_t> find_message_ends(const std::vector<int32_t>& tokens, const text::Tokenizer& tokenizer,
                                       int64_t page_tokens) {
    std::vector<int64_t> ends;
    const int64_t last = (int64_t(tokens.size()) - 1) / page_tokens * page_tokens;
    for (size_t i = 0; i < tokens.size(); ++i)
        if (tokenizer.is_end(tokens[i])) {
            const int64_t end = int64_t(i + 1) / page_tokens * page_tokens;
            if (end > 0 && end < last && (ends.empty() || end > ends.back())) ends.push_back(end);
        }
    if (ends.size() > 3) ends.erase(ends.begin() + 1, ends.end() - 2);
    return ends;
}

}  // namespace

Scheduler::Scheduler(Runner& runner, const text::Tokenizer& tokenizer, const SchedulerOptions& options)
    : runner_(runner),
      tokenizer_(tokenizer),
      options_(options),
      has_states_(runner.model().numbers().has_states()),
      has_cache_(runner.page_bytes() > 0),
      checkpoints_(options.sequences, has_states_ ? options.checkpoints : 0),
      pages_(runner.shape().pages, runner.shape().page_tokens,
             [this](uint64_t id) { checkpoints_.drop(id); }) {
    COTERIE_CHECK(options.step_rows <= runner.shape().step_rows && options.mixed_rows > 0 &&
                  options.drafts >= 0);
    const int64_t outputs = int64_t(options.sequences) * (1 + options.drafts);
    COTERIE_CHECK(outputs <= runner.shape().step_outputs && outputs <= options.step_rows);
    best_.whole.reserve(size_t(outputs));  // a step allocates nothing
    best_.ranked.reserve(size_t(outputs) * size_t(runner.most_best()));
    const int32_t snapshots = options.drafts > 0 ? options.sequences : 0;
    COTERIE_CHECK(!has_states_ ||
                  options.sequences + options.checkpoints + snapshots <= runner.shape().state_slots);
    for (int32_t i = options.sequences - 1; i >= 0; --i) free_sequences_.push_back(i);
    step_.page_tokens = runner.shape().page_tokens;
    step_.pages_per_sequence = int32_t(pages_for(options.context_tokens));
    step_.pages.assign(size_t(options.sequences) * size_t(step_.pages_per_sequence), 0);
    const size_t vocabulary = size_t(runner.model().numbers().vocabulary);
    logits_.resize(size_t(outputs) * vocabulary);
    mask_.resize((vocabulary + 31) / 32);
}

Scheduler::~Scheduler() = default;

std::unique_ptr<Sequence> Scheduler::arrive(std::shared_ptr<Generation> generation,
                                            GenerationRequest request) {
    auto s = std::make_unique<Sequence>(std::move(generation), std::move(request), tokenizer_);
    s->number = ++arrivals_;
    s->statistics.prompt_tokens = s->prompt;
    const int32_t drafts = s->request.drafts;
    s->most_drafts = drafts < 0 ? 0 : drafts == 0 ? options_.drafts : std::min(drafts, options_.drafts);
    s->next_drafts = (s->most_drafts + 1) / 2;
    if (has_states_ && checkpoints_.slots() > 0)
        s->message_ends = find_message_ends(s->tokens, tokenizer_, step_.page_tokens);
    s->generation->set_tokens(s->tokens, s->answer_begin);
    s->generation->set_statistics(s->statistics);
    return s;
}

void Scheduler::submit(std::shared_ptr<Generation> generation, GenerationRequest request) {
    queue(arrive(std::move(generation), std::move(request)));
}

void Scheduler::queue(std::unique_ptr<Sequence> s) {
    auto place = waiting_.begin();
    while (place != waiting_.end() && (*place)->before(*s)) ++place;
    waiting_.insert(place, std::move(s));
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

// The first in the queue holds up those behind it, or long prompts would never find room; forks that wait for
// their parent's prompt don't. One of higher priority drives out who runs with a lower one.
void Scheduler::admit() {
    for (auto it = waiting_.begin(); it != waiting_.end();) {
        const auto here = it++;
        if ((*here)->origin) continue;
        while (free_sequences_.empty() || !start(**here))
            if (!displace_for(**here)) return;
        running_.splice(running_.end(), waiting_, here);
    }
}

bool Scheduler::start(Sequence& s) {
    if (blocked_ == &s && active() > 0 && room() <= blocked_room_) return false;
    blocked_ = nullptr;
    match_prefix(s);
    if (!has_room(s)) {
        release(s);
        blocked_ = &s;
        blocked_room_ = room();
        return false;
    }
    s.index = free_sequences_.back();
    free_sequences_.pop_back();
    resume_state(s);
    started(s);
    return true;
}

void Scheduler::started(Sequence& s) {
    if (s.started != Clock::time_point{}) return;  // it was driven out and is back
    s.started = Clock::now();
    s.statistics.queue_us = microseconds(s.started - s.submitted);
    s.statistics.cached_tokens = s.statistics.computed_tokens = s.computed;
    totals_.prompt_tokens += s.prompt;
    totals_.cached_tokens += s.computed;
    s.generation->set_statistics(s.statistics);
}

// Rows of a prefill chunk. With recurrent states it ends where a checkpoint belongs.
int64_t Scheduler::chunk(const Sequence& s, int64_t budget) const {
    int64_t rows = std::min(s.pending(), budget);
    if (checkpoints_.slots() == 0) return rows;
    const auto stop_at = [&](int64_t stop) {
        if (stop > s.computed && stop < s.computed + rows) rows = stop - s.computed;
    };
    const int64_t n = step_.page_tokens, interval = checkpoint_interval(s);
    stop_at((int64_t(s.tokens.size()) - 1) / n * n);
    stop_at((s.computed / interval + 1) * interval);
    for (const int64_t end : s.message_ends) stop_at(end);
    return rows;
}

// Readings and answers don't share a step; they take turns.
bool Scheduler::reads_next() {
    bool readings = false, answers = false;
    for (const auto& s : running_)
        if (s->running()) (s->request.reading ? readings : answers) = true;
    return read_last_ = readings && (!answers || !read_last_);
}

std::vector<Scheduler::Part> Scheduler::plan(bool reading) {
    std::vector<Part> parts;
    const auto drop_preempted = [&] {
        std::erase_if(parts, [](const Part& p) { return !p.sequence->running(); });
    };
    std::vector<Sequence*> ready;
    for (const auto& s : running_)
        if (s->running() && bool(s->request.reading) == reading) ready.push_back(s.get());
    std::sort(ready.begin(), ready.end(), [](const Sequence* a, const Sequence* b) { return a->before(*b); });
    int64_t budget = options_.step_rows;
    for (Sequence* s : ready) {
        if (!s->running() || !s->decodes() || reading) continue;
        if (!reserve(*s, int64_t(s->tokens.size()))) {
            give_way(*s);
            continue;
        }
        parts.push_back({s, s->pending()});
        budget -= s->pending();
    }
    drop_preempted();
    draft(parts, budget);
    if (!parts.empty()) budget = std::min(budget, options_.mixed_rows);
    // Then prefill, in turns among those of the same priority.
    std::stable_sort(ready.begin(), ready.end(), [](const Sequence* a, const Sequence* b) {
        return a->request.priority != b->request.priority ? a->request.priority > b->request.priority
                                                          : a->filled_at < b->filled_at;
    });
    for (Sequence* s : ready) {
        if (budget <= 0) break;
        if (!s->running() || (s->decodes() && !reading)) continue;
        if (reading && !parts.empty() &&
            parts.front().sequence->request.reading->hidden != s->request.reading->hidden)
            continue;
        const int64_t rows = chunk(*s, budget);
        if (!reserve(*s, s->computed + rows)) {
            give_way(*s);
            continue;
        }
        s->filled_at = totals_.steps + 1;
        parts.push_back({s, rows});
        budget -= rows;
    }
    drop_preempted();
    requeue();
    return parts;
}

// Those driven out take their place in the queue again.
void Scheduler::requeue() {
    for (auto it = running_.begin(); it != running_.end();) {
        const auto here = it++;
        if ((*here)->index >= 0 || (*here)->done) continue;
        queue(std::move(*here));
        running_.erase(here);
    }
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
            step_.tokens.push_back(i < s.pending() ? s.tokens[size_t(s.computed + i)]
                                                   : s.drafts[size_t(i - s.pending())]);
            step_.positions.push_back(int32_t(s.computed + i));
            step_.span_of.push_back(span);
        }
        const int64_t last = s.computed + part.rows;
        int64_t wanted = s.request.reading ? std::max(s.read, s.computed) : int64_t(s.tokens.size()) - 1;
        for (; wanted < last; ++wanted) step_.outputs.push_back(first + int32_t(wanted - s.computed));
        if (!s.drafts.empty() && has_states_) runner_.copy_state(s.index, snapshot_slot(s));
        std::copy(s.pages.begin(), s.pages.end(),
                  step_.pages.begin() + int64_t(s.index) * step_.pages_per_sequence);
    }
}

bool Scheduler::step() {
    drop_cancelled();
    admit();
    const bool reading = reads_next();
    const std::vector<Part> parts = plan(reading);
    sweep();
    if (parts.empty()) return false;
    fill(parts);
    const Clock::time_point begin = Clock::now();
    const int64_t generated = totals_.generated_tokens;
    if (reading)
        read(parts);
    else
        run(parts);
    sweep();
    const int64_t us = microseconds(Clock::now() - begin);
    timings_[size_t(totals_.steps) % timings_.size()] = {us, totals_.generated_tokens - generated};
    totals_.step_us += us;
    ++totals_.steps;
#ifndef NDEBUG
    check();
#endif
    return true;
}

// Runs the step. Of rows whose sequences, and those forked from them meanwhile, need no more than their best
// logits, only these are brought from the device.
void Scheduler::run_step(const std::vector<Part>& parts) {
    const int64_t most = runner_.most_best();
    best_.count = 0;
    if (most == 0) return runner_.run(step_, logits_);
    best_.whole.clear();
    for (const Part& part : parts) {
        const Sequence& s = *part.sequence;
        bool whole = false;
        const auto count_in = [&](const Sequence& one) {
            const int64_t needed = best_needed(one);
            whole = whole || needed == 0 || needed > most;
            if (!whole) best_.count = std::max(best_.count, int32_t(needed));
        };
        count_in(s);
        if (s.generated == 0)
            for (const auto& child : waiting_)
                if (child->origin == &s) count_in(*child);
        best_.whole.insert(best_.whole.end(), wanted_rows(part), whole);
    }
    if (std::find(best_.whole.begin(), best_.whole.end(), false) != best_.whole.end())
        return runner_.run(step_, logits_, best_);
    best_.count = 0;
    runner_.run(step_, logits_);
}

size_t Scheduler::wanted_rows(const Part& part) {
    return size_t(std::max<int64_t>(part.rows - part.sequence->pending() + 1, 0));
}

void Scheduler::run(const std::vector<Part>& parts) {
    const size_t vocabulary = size_t(runner_.model().numbers().vocabulary);
    run_step(parts);
    const size_t ranked = size_t(best_.count);
    size_t output = 0;
    for (const Part& part : parts) {
        Sequence& s = *part.sequence;
        const size_t wanted = wanted_rows(part);
        Logits logits;
        if (wanted > 0 && (ranked == 0 || best_.whole[output]))
            logits.whole = {logits_.data() + output * vocabulary, wanted * vocabulary};
        else if (wanted > 0)
            logits.best = {best_.ranked.data() + output * ranked, wanted * ranked};
        output += wanted;
        if (!s.drafts.empty()) {
            verify(s, logits);
            continue;
        }
        s.repeated = 0;
        advance(s, part.rows);
        if (s.generated == 0) tell_progress(s);
        if (wanted == 0) continue;
        if (s.generated == 0) sample_forks(s, logits);
        sample(s, logits);
    }
}

void Scheduler::read(const std::vector<Part>& parts) {
    const Hyperparameters& h = runner_.model().numbers();
    const bool hidden = parts.front().sequence->request.reading->hidden;
    const size_t width = size_t(hidden ? h.embedding : h.vocabulary);
    runner_.read(step_, hidden, [&](int64_t first, std::span<const float> rows) {
        for (size_t i = 0; i * width < rows.size(); ++i) {
            const int32_t row = step_.outputs[size_t(first) + i];
            Sequence& s = *parts[size_t(step_.span_of[size_t(row)])].sequence;
            s.request.reading->take(step_.positions[size_t(row)], rows.subspan(i * width, width));
            s.read = step_.positions[size_t(row)] + 1;
        }
    });
    for (const Part& part : parts) {
        Sequence& s = *part.sequence;
        advance(s, part.rows);
        tell_progress(s);
        if (s.pending() == 0) finish(s, FinishReason::end_token);
    }
}

void Scheduler::fail_all(const Failure& failure) {
    for (SequenceList* list : {&running_, &waiting_})
        for (auto& s : *list) {
            s->generation->fail(failure);
            finish(*s, FinishReason::failed);
        }
    sweep();
}

SchedulerStatistics Scheduler::statistics() const {
    SchedulerStatistics s = totals_;
    s.running = int64_t(running_.size());
    s.waiting = int64_t(waiting_.size());
    s.pages = pages_.pages();
    s.pages_held = pages_.held();
    s.pages_cached = pages_.cached();
    if (has_states_) {
        s.state_slots = options_.sequences + checkpoints_.slots();
        s.state_slots_used = options_.sequences - int64_t(free_sequences_.size()) + checkpoints_.size();
    }
    s.checkpoints = checkpoints_.size();
    s.checkpoint_hits = checkpoints_.hits();
    const size_t n = size_t(std::min<int64_t>(totals_.steps, int64_t(timings_.size())));
    if (n == 0) return s;
    std::array<int64_t, std::tuple_size_v<decltype(timings_)>> times{};
    int64_t us = 0, generated = 0;
    for (size_t i = 0; i < n; ++i) {
        times[i] = timings_[i].us;
        us += timings_[i].us;
        generated += timings_[i].generated;
    }
    std::sort(times.begin(), times.begin() + long(n));
    s.step_us_p50 = times[n / 2];
    s.step_us_p99 = times[n * 99 / 100];
    s.tokens_per_second = us > 0 ? double(generated) * 1e6 / double(us) : 0;
    return s;
}

}  // namespace coterie
