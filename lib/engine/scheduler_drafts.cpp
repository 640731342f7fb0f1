// Several tokens of a sequence in one step: a draft is appended to what is known, all its rows are computed
// with logits, and each is sampled as if it had come alone. Where the sampled token is the drafted one the
// next row is right; at the first that differs the rest is rolled back: keys and values by forgetting them, a
// recurrent state by the snapshot from before the step, after which the tokens found to be right are computed
// once more together with what comes next.
#include <algorithm>

#include "base/failure.h"
#include "engine/scheduler.h"

namespace coterie {

// Appends drafts to the rows of sequences that decode, within the step's budget and without taking a page
// that any running sequence will need.
void Scheduler::draft(std::vector<Part>& parts, int64_t& budget) {
    for (Part& part : parts) {
        Sequence& s = *part.sequence;
        if (budget <= 0) return;
        if (s.most_drafts <= 0 || s.generated == 0) continue;
        const int64_t known = int64_t(s.tokens.size());
        int64_t most = std::min({int64_t(s.next_drafts), budget, options_.context_tokens - known});
        if (s.request.max_tokens > 0) most = std::min(most, s.request.max_tokens - s.generated - 1);
        // A state can be kept only at the end of a step, and is wanted at the end of a page.
        const int64_t n = step_.page_tokens;
        if (has_states_) most = std::min(most, (s.computed / n + 1) * n - known);
        if (has_cache_) {
            const int64_t held = int64_t(s.pages.size()) * n;
            const int64_t pages = std::min<int64_t>(std::max<int64_t>(room(), 0), options_.drafts / n + 1);
            most = std::min(most, held + pages * n - known);
        }
        if (most <= 0) continue;
        s.drafts = options_.drafter(s.tokens, size_t(most));
        if (s.drafts.empty()) continue;
        COTERIE_CHECK(int64_t(s.drafts.size()) <= most);
        COTERIE_CHECK(reserve(s, known + int64_t(s.drafts.size())));
        part.rows += int64_t(s.drafts.size());
        budget -= int64_t(s.drafts.size());
    }
}

int32_t Scheduler::snapshot_slot(const Sequence& s) const {
    return options_.sequences + checkpoints_.slots() + s.index;
}

// Samples row after row (1 + drafts) for as long as the drafts hold.
void Scheduler::verify(Sequence& s, const Logits& logits) {
    const std::vector<int32_t> drafts = std::move(s.drafts);
    s.drafts.clear();
    totals_.drafted_tokens += int64_t(drafts.size());
    s.statistics.drafted_tokens += int64_t(drafts.size());
    const int64_t before = s.computed;
    advance(s, s.pending());
    s.repeated = 0;
    size_t accepted = 0;
    bool shifted = false;
    for (;;) {
        const size_t known = s.tokens.size();
        sample(s, logits.row(accepted, drafts.size() + 1));
        if (s.done) break;
        shifted = s.tokens.size() != known + 1;
        if (shifted || accepted == drafts.size() || s.tokens.back() != drafts[accepted]) break;
        ++accepted;
        ++totals_.accepted_tokens;
        ++s.statistics.accepted_tokens;
        advance(s, 1);
    }
    // Guess more while guesses are good, fewer when they are not.
    s.next_drafts = accepted == drafts.size()
                        ? std::min(s.most_drafts, 2 * s.next_drafts)
                        : std::max<int32_t>(1, std::min(s.most_drafts, int32_t(accepted) + 1));
    if (s.done || shifted) return;
    if (has_states_ && accepted < drafts.size()) {
        runner_.copy_state(snapshot_slot(s), s.index);
        s.computed = before;
        s.repeated = s.pending() - 1;
    }
    while (int64_t(s.pages.size()) > pages_for(int64_t(s.tokens.size()))) {
        pages_.release(s.pages.back());
        s.pages.pop_back();
    }
}

}  // namespace coterie
