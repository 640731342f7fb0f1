// Forks, and sequences that leave for a file and come back.
#include <algorithm>

#include "base/failure.h"
#include "engine/scheduler.h"

namespace coterie {

void Scheduler::fork(const Generation& parent, std::shared_ptr<Generation> generation,
                     GenerationRequest request) {
    const Sequence* p = nullptr;
    for (const SequenceList* list : {&running_, &waiting_})
        for (const auto& s : *list)
            if (s->generation.get() == &parent && !s->done) p = s.get();
    request.prompt = p ? p->tokens : parent.tokens();
    if (int64_t(request.prompt.size()) > options_.context_tokens)
        fail(Status::too_long, "the generation has {} tokens but the context holds {}; it can't be continued",
             request.prompt.size(), options_.context_tokens);
    const int64_t answer = p ? p->answer_begin : parent.answer_begin();
    auto child = arrive(std::move(generation), std::move(request));
    child->answer_begin = std::clamp<int64_t>(answer, 0, child->prompt);
    // What reads an answer from its beginning is shown the part that is there.
    std::string earlier = parent.earlier_text();
    if (child->answer_begin < child->prompt) {
        StopMatcher stop = child->stop;
        earlier.clear();
        for (int64_t i = child->answer_begin; i < child->prompt; ++i) {
            const int32_t token = child->tokens[size_t(i)];
            if (child->request.constraint) child->request.constraint->accept(token);
            earlier += stop.push(child->detokenizer.push(token));
        }
        if (!stop.matched()) child->stop = std::move(stop);
    }
    child->generation->set_tokens(child->tokens, child->answer_begin);
    child->generation->set_earlier_text(std::move(earlier));
    if (p && p->generated == 0) {
        child->origin = p;
    } else if (p && p->running() && p->decodes() && split(*p, *child)) {
        running_.push_back(std::move(child));
        return;
    }
    queue(std::move(child));
}

// Gives the child what its parent has computed: full pages are shared, the last one and the state copied.
// False, and nothing done, when there is no place or page free.
bool Scheduler::split(const Sequence& parent, Sequence& child) {
    if (free_sequences_.empty()) return false;
    const int64_t n = step_.page_tokens;
    const size_t full = has_cache_ ? size_t(parent.computed / n) : 0;
    const bool partial = has_cache_ && parent.computed % n != 0;
    if (partial) {
        if (pages_.available() == 0) return false;
        const int32_t page = pages_.take();
        runner_.copy_page(parent.pages[full], page);
        child.pages.assign(1, page);
    }
    for (size_t i = 0; i < full; ++i) pages_.hold(parent.pages[i]);
    child.pages.insert(child.pages.begin(), parent.pages.begin(), parent.pages.begin() + long(full));
    child.page_ids = parent.page_ids;
    child.computed = parent.computed;
    child.repeated = parent.repeated;
    child.index = free_sequences_.back();
    free_sequences_.pop_back();
    if (has_states_) runner_.copy_state(parent.index, child.index);
    started(child);
    return true;
}

// The first logits after a prompt also serve those that were forked from it meanwhile.
void Scheduler::sample_forks(const Sequence& s, const Logits& logits) {
    for (auto it = waiting_.begin(); it != waiting_.end();) {
        const auto here = it++;
        Sequence& child = **here;
        if (child.origin != &s) continue;
        child.origin = nullptr;
        if (child.done || !split(s, child)) continue;
        running_.splice(running_.end(), waiting_, here);
        fork_logits_.assign(logits.whole.begin(), logits.whole.end());
        sample(child, {fork_logits_, logits.best});
    }
}

SavedSequence Scheduler::save(const Generation& generation) {
    SavedSequence saved;
    saved.tokens = generation.tokens();
    if (!options_.reuse_prefixes || !has_cache_) return saved;
    std::vector<uint64_t> ids;
    const std::vector<int32_t> pages = hold_prefix(saved.tokens, ids);
    saved.page_count = int64_t(pages.size());
    saved.pages.resize(size_t(runner_.page_bytes()) * pages.size());
    for (size_t i = 0; i < pages.size(); ++i)
        runner_.read_page(pages[i], saved.pages.data() + i * size_t(runner_.page_bytes()));
    if (has_states_ && !pages.empty()) {
        saved.state.resize(size_t(runner_.state_bytes()));
        runner_.read_state(checkpoints_.find(ids.back()), saved.state.data());
    }
    for (size_t i = pages.size(); i-- > 0;) pages_.release(pages[i]);
    return saved;
}

void Scheduler::load(const SavedSequence& saved) {
    const size_t n = size_t(step_.page_tokens), bytes = size_t(runner_.page_bytes());
    const size_t count = size_t(saved.page_count);
    if (!options_.reuse_prefixes || !has_cache_ || count == 0) return;
    COTERIE_CHECK(saved.pages.size() == count * bytes && saved.tokens.size() >= count * n);
    COTERIE_CHECK(!has_states_ || saved.state.size() == size_t(runner_.state_bytes()));
    if (has_states_ && (checkpoints_.slots() == 0 || int64_t(count) > pages_.available())) return;
    std::vector<int32_t> pages;
    const auto release = [&] {
        for (; !pages.empty(); pages.pop_back()) pages_.release(pages.back());
    };
    uint64_t id = 0;
    try {
        for (size_t i = 0; i < count; ++i) {
            const std::span<const int32_t> tokens{saved.tokens.data() + i * n, n};
            uint64_t next = 0;
            pages.push_back(pages_.find(id, tokens, &next));
            if (pages.back() < 0 && (pages.back() = pages_.take()) < 0) {
                pages.pop_back();
                break;
            }
            if (next == 0) {
                runner_.write_page(pages.back(), saved.pages.data() + i * bytes);
                next = pages_.publish(pages.back(), id, tokens);
            }
            id = next;
        }
        if (has_states_ && pages.size() == count && checkpoints_.find(id) < 0) {
            const int32_t slot = checkpoints_.take(id, CheckpointPool::Place::prompt_end);
            runner_.write_state(slot, saved.state.data());
        }
    } catch (...) {
        release();
        throw;
    }
    release();
}

}  // namespace coterie
