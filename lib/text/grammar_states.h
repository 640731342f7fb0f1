// The states a matcher can be in: sets of threads, each a state of the automaton with a stack of rules to
// return to. Sets, stacks, transitions and masks are made when first needed and remembered, so this is a
// lazily built automaton. Shared by all copies of a matcher, behind one lock. When it grows too large a
// matcher moves on to a fresh one.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/grammar.h"
#include "text/grammar_automaton.h"

namespace coterie::text {

class GrammarStates {
  public:
    static constexpr uint32_t dead = 0, start = 1;

    // `tokens` may be null for a matcher of text alone.
    GrammarStates(const GrammarAutomaton& automaton, const TokenTrie* tokens);
    // A fresh one that knows a single state of another; `state` becomes that state's number here.
    GrammarStates(const GrammarStates& other, uint32_t& state);

    uint32_t after(uint32_t state, std::string_view text);
    bool accepting(uint32_t state) const { return states_[state].accepting; }
    bool ends(uint32_t state) const { return states_[state].threads.empty(); }
    void mask(uint32_t state, std::span<uint32_t> bits);
    bool crowded() const { return states_.size() > most_states || frames_.size() > most_frames; }
    std::mutex lock;

  private:
    static constexpr size_t most_states = 20000, most_frames = 500000, most_masks = 400, most_threads = 4096;
    static constexpr size_t most_states_in_a_step = 100000;
    static constexpr uint32_t recursion_limit = 300, depth_limit = 1000;

    struct Frame {
        uint32_t call, count, parent, depth;
    };
    struct Thread {
        uint32_t state, frame;
        bool operator==(const Thread&) const = default;
        auto operator<=>(const Thread&) const = default;
    };
    struct State {
        std::vector<Thread> threads;
        bool accepting = false;
        std::unique_ptr<std::vector<uint32_t>> mask;
    };
    static constexpr uint32_t unknown = ~uint32_t{0};

    uint32_t frame(uint32_t call, uint32_t count, uint32_t parent);
    void enter(uint32_t call, uint32_t count, uint32_t parent);
    void reach(uint32_t state, uint32_t frame);
    uint32_t settle(bool accepting = false);  // the state of all threads reached since the last call
    uint32_t step(uint32_t state, uint32_t byte_class);
    void compute_mask(uint32_t state, std::span<uint32_t> bits);
    uint64_t plain_run(uint32_t state) const;
    void walk(const TokenTrie::Tree& tree, uint32_t state, std::span<uint32_t> bits);

    const GrammarAutomaton& automaton_;
    const TokenTrie* tokens_;
    std::vector<State> states_;
    std::vector<uint32_t> next_;  // [state * classes + class]; unknown where not yet computed
    std::vector<Frame> frames_;
    std::unordered_multimap<uint64_t, uint32_t> state_index_;
    std::unordered_multimap<uint64_t, uint32_t> frame_index_;
    std::vector<uint32_t> masked_;  // states with a mask, oldest first
    size_t oldest_mask_ = 0;
    std::vector<Thread> reached_;        // working set of a closure
    std::unordered_set<uint64_t> seen_;  // the same, once it is worth it
    std::vector<bool> plain_classes_;
    std::vector<bool> plain_first_;  // automaton states at the first byte of a JSON string character
    std::vector<uint32_t> path_;
};

}  // namespace coterie::text
