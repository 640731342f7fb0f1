// The scheduler's hand on memory: pages and state slots of sequences, prefixes taken over, checkpoints made,
// sequences driven out.
#include <algorithm>

#include "base/failure.h"
#include "engine/scheduler.h"

namespace coterie {

int64_t Scheduler::pages_for(int64_t tokens) const {
    return (tokens + step_.page_tokens - 1) / step_.page_tokens;
}

// Takes over the pages of the longest known prefix; with recurrent states, up to the last page with a
// checkpoint. At least one token is left to compute, for its logits.
void Scheduler::match_prefix(Sequence& s) {
    s.computed = 0;
    if (!options_.reuse_prefixes || !has_cache_) return;
    // A token is left to compute for its logits; of a reading, all those that are to be read.
    const int64_t left = s.request.reading ? s.read : int64_t(s.tokens.size()) - 1;
    const int64_t n = step_.page_tokens, most = left / n;
    s.pages = hold_prefix({s.tokens.data(), size_t(most * n)}, s.page_ids);
    s.computed = int64_t(s.pages.size()) * n;
}

// The pages that hold the longest known prefix of these tokens and can be resumed from, held for the caller.
std::vector<int32_t> Scheduler::hold_prefix(std::span<const int32_t> tokens, std::vector<uint64_t>& ids) {
    const size_t n = size_t(step_.page_tokens);
    std::vector<int32_t> found;
    size_t usable = 0;
    ids.clear();
    while ((found.size() + 1) * n <= tokens.size()) {
        uint64_t id = 0;
        const int32_t page =
            pages_.find(ids.empty() ? 0 : ids.back(), tokens.subspan(found.size() * n, n), &id);
        if (page < 0) break;
        found.push_back(page);
        ids.push_back(id);
        if (!has_states_ || checkpoints_.find(id) >= 0) usable = found.size();
    }
    while (found.size() > usable) {
        pages_.release(found.back());
        found.pop_back();
        ids.pop_back();
    }
    return found;
}

int64_t Scheduler::room() const {
    int64_t pages = pages_.available();
    for (const auto& r : running_)
        if (r->running())
            pages -= std::max<int64_t>(0, pages_for(int64_t(r->tokens.size())) - int64_t(r->pages.size()));
    return pages;
}

// Whether the whole of what is known of s and one token more find room without driving anyone out. One that
// was driven out also leaves a page to each of the others, or it would be driven out again soon. Alone, a
// sequence may always try.
bool Scheduler::has_room(const Sequence& s) const {
    const int64_t others = active();
    if (!has_cache_ || others == 0) return true;
    const int64_t need = pages_for(int64_t(s.tokens.size()) + 1) - int64_t(s.pages.size());
    return need + (s.statistics.preemptions > 0 ? others : 0) <= room();
}

void Scheduler::resume_state(Sequence& s) {
    if (!has_states_) return;
    if (s.computed == 0) return runner_.clear_state(s.index);
    const int32_t slot = checkpoints_.use(s.page_ids.back());
    COTERIE_CHECK(slot >= 0);
    runner_.copy_state(slot, s.index);
}

bool Scheduler::reserve(Sequence& s, int64_t tokens) {
    if (!has_cache_) return true;
    while (int64_t(s.pages.size()) < pages_for(tokens)) {
        const int32_t page = pages_.take();
        if (page >= 0)
            s.pages.push_back(page);
        else if (!preempt_for(s))
            return false;
    }
    return true;
}

// Drives out the last in order; false when that would be s itself.
bool Scheduler::preempt_for(const Sequence& s) {
    Sequence* victim = nullptr;
    for (const auto& r : running_)
        if (r->running() && (!victim || victim->before(*r))) victim = r.get();
    if (!victim || victim == &s) return false;
    preempt(*victim);
    return true;
}

// For one that waits: drives out the last in order, if its priority is lower.
bool Scheduler::displace_for(const Sequence& s) {
    Sequence* victim = nullptr;
    for (const auto& r : running_)
        if (r->running() && (!victim || victim->before(*r))) victim = r.get();
    if (!victim || victim->request.priority >= s.request.priority) return false;
    preempt(*victim);
    return true;
}

int64_t Scheduler::active() const {
    return std::count_if(running_.begin(), running_.end(), [](const auto& r) { return r->running(); });
}

// No page is left that s may take: it waits for the others, or ends when there are none.
void Scheduler::give_way(Sequence& s) {
    const bool others = std::any_of(running_.begin(), running_.end(),
                                    [&](const auto& r) { return r.get() != &s && r->running(); });
    if (others)
        preempt(s);
    else
        finish(s, FinishReason::context_full);
}

void Scheduler::preempt(Sequence& s) {
    ++s.statistics.preemptions;
    ++totals_.preemptions;
    s.generation->set_statistics(s.statistics);
    release(s);
}

void Scheduler::release(Sequence& s) {
    // Last page first, so that of a kept prefix the end is forgotten before its beginning.
    while (!s.pages.empty()) {
        pages_.release(s.pages.back());
        s.pages.pop_back();
    }
    s.page_ids.clear();
    s.drafts.clear();
    s.computed = s.repeated = 0;
    if (s.index >= 0) free_sequences_.push_back(s.index);
    s.index = -1;
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

// At most about four of a prompt, so that a long one doesn't take the whole budget.
int64_t Scheduler::checkpoint_interval(const Sequence& s) const {
    const int64_t wanted = std::max(options_.checkpoint_tokens, int64_t(s.tokens.size()) / 4);
    return std::max<int64_t>(1, pages_for(wanted)) * step_.page_tokens;
}

// Keeps the state at the end of the sequence's last full page, if that is a place to resume from. Of an
// answer only the newest is kept.
void Scheduler::checkpoint(Sequence& s) {
    if (checkpoints_.slots() == 0) return;
    using Place = CheckpointPool::Place;
    const uint64_t id = s.page_ids.back();
    // Of a prompt the end but one: the same prompt again has a token left to compute.
    const int64_t left = int64_t(s.tokens.size()) - s.computed;
    const bool at_end = left <= step_.page_tokens && (left > 0 || s.generated > 0);
    Place place = Place::interval;
    if (at_end)
        place = s.generated == 0 ? Place::prompt_end : Place::answer;
    else if (std::find(s.message_ends.begin(), s.message_ends.end(), s.computed) != s.message_ends.end())
        place = Place::message;
    else if (s.computed % checkpoint_interval(s) != 0)
        return;
    if (checkpoints_.find(id) >= 0) return;
    if (place == Place::answer) {
        if (s.answer_checkpoint != 0) checkpoints_.drop_unused(s.answer_checkpoint);
        s.answer_checkpoint = id;
    }
    runner_.copy_state(s.index, checkpoints_.take(id, place));
}

void Scheduler::check() const {
    pages_.check();
    checkpoints_.check();
    std::vector<int32_t> holders(size_t(pages_.pages()), 0);
    std::vector<bool> taken(size_t(options_.sequences), false);
    const auto take = [&](int32_t index) {
        COTERIE_CHECK(index >= 0 && index < options_.sequences && !taken[size_t(index)]);
        taken[size_t(index)] = true;
    };
    for (const int32_t index : free_sequences_) take(index);
    for (const auto& s : running_) {
        take(s->index);
        COTERIE_CHECK(!s->done && !s->origin && s->pending() > 0 && s->drafts.empty());
        COTERIE_CHECK(!has_cache_ || s->computed <= int64_t(s->pages.size()) * step_.page_tokens);
        COTERIE_CHECK(int64_t(s->pages.size()) <= step_.pages_per_sequence);
        COTERIE_CHECK(int64_t(s->page_ids.size()) * step_.page_tokens <= s->computed);
        for (const int32_t page : s->pages) ++holders[size_t(page)];
        for (size_t i = 0; i < s->page_ids.size(); ++i)
            COTERIE_CHECK(pages_.id(s->pages[i]) == s->page_ids[i]);
    }
    COTERIE_CHECK(std::find(taken.begin(), taken.end(), false) == taken.end());
    for (int32_t page = 0; page < pages_.pages(); ++page)
        COTERIE_CHECK(pages_.holders(page) == holders[size_t(page)]);
    for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
        COTERIE_CHECK((*it)->index < 0 && (*it)->pages.empty() && (*it)->computed == 0);
        if (it != waiting_.begin()) COTERIE_CHECK((*std::prev(it))->before(**it));
    }
}

}  // namespace coterie
