#include "engine/draft.h"

#include <algorithm>

namespace coterie {
namespace {

// Longer runs are no better evidence, and the search ends at the first of them.
constexpr size_t enough_match = 8;

}  // namespace

std::vector<int32_t> look_up_draft(std::span<const int32_t> tokens, size_t most) {
    const size_t n = tokens.size();
    if (most == 0 || n <= least_draft_match) return {};
    size_t longest = least_draft_match - 1, follows = 0;
    for (size_t end = n - 1; end >= least_draft_match && longest < enough_match; --end) {
        if (tokens[end - 1] != tokens[n - 1]) continue;
        size_t equal = 1;
        while (equal < end && equal < enough_match && tokens[end - 1 - equal] == tokens[n - 1 - equal])
            ++equal;
        if (equal > longest) {
            longest = equal;
            follows = end;
        }
    }
    if (follows == 0) return {};
    std::vector<int32_t> draft;
    // What follows may be the newest tokens themselves, over and over.
    for (size_t i = 0; i < most; ++i)
        draft.push_back(follows + i < n ? tokens[follows + i] : draft[follows + i - n]);
    return draft;
}

}  // namespace coterie
