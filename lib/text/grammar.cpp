#include "text/grammar.h"

#include <algorithm>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/failure.h"
#include "text/grammar_automaton.h"
#include "text/grammar_rules.h"
#include "text/grammar_states.h"

namespace coterie::text {
namespace {

// Code points of a token that may stand inside a JSON string as it is; 0 if it may not.
uint32_t plain_code_points(std::string_view text) {
    uint32_t count = 0;
    for (const char byte : text) {
        const auto value = static_cast<unsigned char>(byte);
        if (value < 0x20 || byte == '"' || byte == '\\') return 0;
        if ((value & 0xC0) != 0x80) ++count;
    }
    try {
        return code_points(text).size() == count ? count : 0;
    } catch (const Failure&) {
        return 0;
    }
}

TokenTrie::Tree make_tree(const std::vector<std::string>& tokens, std::vector<uint32_t> ids,
                          uint32_t& deepest) {
    std::sort(ids.begin(), ids.end(),
              [&](uint32_t a, uint32_t b) { return std::tie(tokens[a], a) < std::tie(tokens[b], b); });
    TokenTrie::Tree tree;
    std::vector<uint32_t> open;  // the nodes of the present token's prefixes
    std::string_view previous;
    for (const uint32_t id : ids) {
        const std::string_view token = tokens[id];
        size_t shared = 0;
        while (shared < std::min(previous.size(), token.size()) && previous[shared] == token[shared])
            ++shared;
        for (; open.size() > shared; open.pop_back())
            tree.nodes[open.back()].skip = static_cast<uint32_t>(tree.nodes.size());
        for (size_t depth = shared; depth < token.size(); ++depth) {
            open.push_back(static_cast<uint32_t>(tree.nodes.size()));
            tree.nodes.push_back({0, static_cast<uint32_t>(tree.ids.size()), static_cast<uint16_t>(depth), 0,
                                  static_cast<uint8_t>(token[depth])});
        }
        TokenTrie::Node& node = tree.nodes[open.back()];
        if (node.count == 0) node.first = static_cast<uint32_t>(tree.ids.size());
        ++node.count;
        tree.ids.push_back(id);
        deepest = std::max(deepest, static_cast<uint32_t>(token.size()));
        previous = token;
    }
    for (; !open.empty(); open.pop_back())
        tree.nodes[open.back()].skip = static_cast<uint32_t>(tree.nodes.size());
    return tree;
}

}  // namespace

Grammar::Grammar(std::unique_ptr<const GrammarAutomaton> automaton) : automaton_(std::move(automaton)) {}
Grammar::~Grammar() = default;

bool Grammar::derives(std::string_view text) const {
    auto states = std::make_unique<GrammarStates>(*automaton_, nullptr);
    uint32_t state = GrammarStates::start;
    for (size_t at = 0; at < text.size() && state != GrammarStates::dead; at += 256) {
        state = states->after(state, text.substr(at, 256));
        if (states->crowded()) states = std::make_unique<GrammarStates>(*states, state);
    }
    return states->accepting(state);
}

TokenTrie::TokenTrie(std::vector<std::string> tokens, std::vector<uint32_t> end_tokens,
                     const std::vector<bool>& control)
    : tokens_(std::move(tokens)), end_tokens_(std::move(end_tokens)) {
    for (size_t id = 0; id < tokens_.size(); ++id) {
        std::string& token = tokens_[id];
        // A byte that is no text can't be told from the mark; no grammar has a use for it.
        if (token.find(GrammarRules::control_mark) != std::string::npos) token.clear();
        if (id < control.size() && control[id] && !token.empty())
            token.insert(0, 1, GrammarRules::control_mark);
    }
    constexpr size_t longest = 65535;
    for (const uint32_t id : end_tokens_)
        if (id >= tokens_.size())
            fail(Status::invalid_argument, "end token {} is outside of the vocabulary of {} tokens", id,
                 tokens_.size());
    std::vector<uint32_t> plain, other;
    for (uint32_t id = 0; id < tokens_.size(); ++id) {
        if (tokens_[id].empty() || tokens_[id].size() > longest || is_end(id)) continue;
        const uint32_t count = plain_code_points(tokens_[id]);
        (count > 0 ? plain : other).push_back(id);
        if (count > 0) by_code_points_.emplace_back(count, id);
    }
    plain_ = make_tree(tokens_, std::move(plain), deepest_);
    other_ = make_tree(tokens_, std::move(other), deepest_);
    std::sort(by_code_points_.begin(), by_code_points_.end());
    plain_masks_.assign(1, std::vector<uint32_t>(mask_words(), 0));
    for (size_t at = 0, count = 1; count <= counted_masks; ++count) {
        plain_masks_.push_back(plain_masks_.back());
        for (; at < by_code_points_.size() && by_code_points_[at].first == count; ++at) {
            const uint32_t id = by_code_points_[at].second;
            plain_masks_.back()[id / 32] |= 1u << (id % 32);
        }
    }
}

bool TokenTrie::is_end(uint32_t id) const {
    return std::find(end_tokens_.begin(), end_tokens_.end(), id) != end_tokens_.end();
}

void TokenTrie::set_plain(uint64_t most, std::span<uint32_t> bits) const {
    const std::vector<uint32_t>& whole = plain_masks_[std::min<uint64_t>(most, counted_masks)];
    for (size_t i = 0; i < whole.size(); ++i) bits[i] |= whole[i];
    if (most <= counted_masks) return;
    const auto long_ones =
        std::upper_bound(by_code_points_.begin(), by_code_points_.end(),
                         std::pair<uint32_t, uint32_t>{static_cast<uint32_t>(counted_masks), ~uint32_t{0}});
    for (auto it = long_ones; it != by_code_points_.end() && it->first <= most; ++it)
        bits[it->second / 32] |= 1u << (it->second % 32);
}

GrammarMatcher::GrammarMatcher(std::shared_ptr<const Grammar> grammar,
                               std::shared_ptr<const TokenTrie> tokens)
    : grammar_(std::move(grammar)),
      tokens_(std::move(tokens)),
      states_(std::make_shared<GrammarStates>(grammar_->automaton(), tokens_.get())),
      state_(GrammarStates::start) {}

void GrammarMatcher::restart() {
    state_ = GrammarStates::start;
    ended_ = false;
}

// Other copies keep the full one until they find it full themselves.
void GrammarMatcher::refresh() {
    std::shared_ptr<GrammarStates> fresh;
    {
        const std::lock_guard guard(states_->lock);
        if (!states_->crowded()) return;
        fresh = std::make_shared<GrammarStates>(*states_, state_);
    }
    states_ = std::move(fresh);
}

void GrammarMatcher::mask(std::span<uint32_t> bits) {
    if (bits.size() != tokens_->mask_words())
        fail(Status::invalid_argument, "a mask over {} tokens has {} words, not {}", tokens_->size(),
             tokens_->mask_words(), bits.size());
    refresh();
    const std::lock_guard guard(states_->lock);
    if (ended_) {
        std::fill(bits.begin(), bits.end(), 0u);
        for (const uint32_t id : tokens_->end_tokens()) bits[id / 32] |= 1u << (id % 32);
        return;
    }
    states_->mask(state_, bits);
}

bool GrammarMatcher::accept(uint32_t token) {
    if (token >= tokens_->size()) return false;
    if (tokens_->is_end(token)) {
        if (!ended_ && !can_finish()) return false;
        ended_ = true;
        return true;
    }
    return !tokens_->token(token).empty() && accept_text(tokens_->token(token));
}

bool GrammarMatcher::accept_text(std::string_view text) {
    if (ended_) return text.empty();
    refresh();
    const std::lock_guard guard(states_->lock);
    const uint32_t next = states_->after(state_, text);
    if (next == GrammarStates::dead) return false;
    state_ = next;
    return true;
}

bool GrammarMatcher::can_finish() const {
    const std::lock_guard guard(states_->lock);
    return ended_ || states_->accepting(state_);
}

bool GrammarMatcher::finished() const {
    const std::lock_guard guard(states_->lock);
    return ended_ || (states_->accepting(state_) && states_->ends(state_));
}

}  // namespace coterie::text
