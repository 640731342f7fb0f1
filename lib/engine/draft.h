// Drafts by prompt lookup: what followed the last time the newest tokens stood together. Costs no model;
// gains where an answer repeats its prompt or itself (code being edited, quotations, lists). A draft is a
// guess and nothing more: the scheduler lets the model check it (scheduler_drafts.cpp).
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace coterie {

// Guesses at most so many tokens that may follow these.
using Drafter = std::function<std::vector<int32_t>(std::span<const int32_t> tokens, size_t most)>;

// Fewer equal tokens than this are chance.
constexpr size_t least_draft_match = 3;

// At most `most` tokens that may follow: those after the longest earlier run of tokens that equals the newest
// ones (of equally long runs the last), or nothing.
std::vector<int32_t> look_up_draft(std::span<const int32_t> tokens, size_t most);

}  // namespace coterie
