#include "text/grammar_states.h"

#include <algorithm>

#include "base/failure.h"

namespace coterie::text {
namespace {

uint64_t mixed(uint64_t hash, uint64_t value) {
    hash ^= value + 0x9E3779B97F4A7C15u + (hash << 6) + (hash >> 2);
    return hash * 0xBF58476D1CE4E5B9u;
}

bool plain_byte(unsigned byte) {
    return byte >= 0x20 && byte != '"' && byte != '\\';
}

}  // namespace

GrammarStates::GrammarStates(const GrammarAutomaton& automaton, const TokenTrie* tokens)
    : automaton_(automaton), tokens_(tokens), plain_classes_(automaton.class_count, false) {
    for (unsigned byte = 0; byte < 256; ++byte)
        if (plain_byte(byte)) plain_classes_[automaton.class_of[byte]] = true;
    plain_first_.assign(automaton.states.size(), false);
    if (automaton.plain_start != GrammarAutomaton::unbounded) {
        std::vector<uint32_t> pending{automaton.plain_start};
        while (!pending.empty()) {
            const uint32_t state = pending.back();
            pending.pop_back();
            if (plain_first_[state]) continue;
            plain_first_[state] = true;
            pending.insert(pending.end(), automaton.states[state].empty.begin(),
                           automaton.states[state].empty.end());
        }
    }
    path_.resize(tokens == nullptr ? 1 : tokens->deepest() + 2);
    frames_.push_back({unknown, 0, 0, 0});
    states_.emplace_back();
    next_.assign(automaton_.class_count, dead);
    reach(automaton_.rules[automaton_.root].start, 0);
    settle();
}

GrammarStates::GrammarStates(const GrammarStates& other, uint32_t& state)
    : GrammarStates(other.automaton_, other.tokens_) {
    // Frames are copied with their ancestors, parents first.
    std::unordered_map<uint32_t, uint32_t> copied{{0, 0}};
    std::vector<uint32_t> pending;
    for (const Thread& thread : other.states_[state].threads) {
        for (uint32_t id = thread.frame; copied.find(id) == copied.end(); id = other.frames_[id].parent)
            pending.push_back(id);
        for (; !pending.empty(); pending.pop_back()) {
            const Frame& from = other.frames_[pending.back()];
            copied[pending.back()] = frame(from.call, from.count, copied[from.parent]);
        }
        reach(thread.state, copied[thread.frame]);
    }
    const bool accepting = other.states_[state].accepting;
    // The end itself is no thread, so a closure of the threads alone doesn't find it.
    state = settle(accepting);
}

uint32_t GrammarStates::frame(uint32_t call, uint32_t count, uint32_t parent) {
    const uint64_t hash = mixed(mixed(call, count), parent);
    const auto [from, to] = frame_index_.equal_range(hash);
    for (auto it = from; it != to; ++it) {
        const Frame& known = frames_[it->second];
        if (known.call == call && known.count == count && known.parent == parent) return it->second;
    }
    frames_.push_back({call, count, parent, frames_[parent].depth + 1});
    const auto id = static_cast<uint32_t>(frames_.size() - 1);
    frame_index_.emplace(hash, id);
    return id;
}

void GrammarStates::enter(uint32_t call, uint32_t count, uint32_t parent) {
    const GrammarAutomaton::Call& target = automaton_.calls[call];
    const GrammarAutomaton::Rule& rule = automaton_.rules[target.rule];
    const uint32_t depth = frames_[parent].depth;
    // Deeper nesting is simply not offered; outside of recursion nothing gets that deep.
    if (depth >= (rule.recursive ? recursion_limit : depth_limit)) return;
    const bool tail = !target.counted && automaton_.states[target.back].trivial;
    reach(rule.start, tail ? parent : frame(call, count, parent));
}

void GrammarStates::reach(uint32_t state, uint32_t frame) {
    constexpr size_t few = 24;
    const Thread thread{state, frame};
    const auto key = [](const Thread& of) { return uint64_t{of.frame} << 32 | of.state; };
    if (reached_.size() < few) {
        if (std::find(reached_.begin(), reached_.end(), thread) != reached_.end()) return;
    } else {
        if (seen_.empty())
            for (const Thread& known : reached_) seen_.insert(key(known));
        if (!seen_.insert(key(thread)).second) return;
    }
    if (reached_.size() >= most_threads)
        fail(Status::invalid_argument,
             "the grammar is too ambiguous: more than {} ways to read the text so far; "
             "make its alternatives begin differently",
             most_threads);
    reached_.push_back(thread);
}

uint32_t GrammarStates::settle(bool accepting) {
    State result;
    result.accepting = accepting;
    for (size_t at = 0; at < reached_.size(); ++at) {
        const Thread thread = reached_[at];
        const GrammarAutomaton::State& state = automaton_.states[thread.state];
        if (!state.edges.empty() || thread.state == automaton_.plain_start) result.threads.push_back(thread);
        for (uint32_t to : state.empty) reach(to, thread.frame);
        for (uint32_t call : state.calls) {
            const GrammarAutomaton::Call& target = automaton_.calls[call];
            if (target.least == 0) reach(target.back, thread.frame);
            enter(call, 0, thread.frame);
        }
        if (!state.final) continue;
        if (thread.frame == 0) {
            result.accepting = true;
            continue;
        }
        const Frame top = frames_[thread.frame];
        const GrammarAutomaton::Call& call = automaton_.calls[top.call];
        if (!call.counted) {
            reach(call.back, top.parent);
            continue;
        }
        // Without an upper bound nothing changes once the lower one is met, so counting stops there.
        const uint32_t count =
            call.most == GrammarAutomaton::unbounded ? std::min(top.count + 1, call.least) : top.count + 1;
        if (count >= call.least) reach(call.back, top.parent);
        if (count < call.most) enter(top.call, count, top.parent);
    }
    reached_.clear();
    seen_.clear();
    std::sort(result.threads.begin(), result.threads.end());
    uint64_t hash = result.accepting ? 1 : 0;
    for (const Thread& thread : result.threads) hash = mixed(mixed(hash, thread.state), thread.frame);
    if (result.threads.empty() && !result.accepting) return dead;
    const auto [from, to] = state_index_.equal_range(hash);
    for (auto it = from; it != to; ++it) {
        const State& known = states_[it->second];
        if (known.accepting == result.accepting && known.threads == result.threads) return it->second;
    }
    if (states_.size() >= most_states_in_a_step)
        fail(Status::invalid_argument,
             "the grammar is too ambiguous: a single step needs more than {} states; simplify it",
             most_states_in_a_step);
    states_.push_back(std::move(result));
    next_.resize(next_.size() + automaton_.class_count, unknown);
    const auto id = static_cast<uint32_t>(states_.size() - 1);
    state_index_.emplace(hash, id);
    return id;
}

uint32_t GrammarStates::step(uint32_t state, uint32_t byte_class) {
    const size_t place = size_t{state} * automaton_.class_count + byte_class;
    const uint32_t known = next_[place];
    if (known != unknown) return known;
    for (const Thread& thread : states_[state].threads)
        for (const GrammarAutomaton::ByteEdge& edge : automaton_.states[thread.state].edges)
            if (edge.first <= byte_class && byte_class <= edge.last) reach(edge.to, thread.frame);
    const uint32_t next = settle();
    next_[place] = next;
    return next;
}

uint32_t GrammarStates::after(uint32_t state, std::string_view text) {
    for (const char byte : text) {
        if (state == dead) break;
        state = step(state, automaton_.class_of[static_cast<uint8_t>(byte)]);
    }
    return state;
}

// How many characters of a JSON string may follow, if plain tokens can be judged by their length alone: one
// thread stands before such a character, and no other thread takes bytes that occur in plain tokens.
uint64_t GrammarStates::plain_run(uint32_t state) const {
    uint64_t run = 0;
    for (const Thread& thread : states_[state].threads) {
        if (thread.state == automaton_.plain_start && thread.frame != 0) {
            const Frame& top = frames_[thread.frame];
            const GrammarAutomaton::Call& call = automaton_.calls[top.call];
            if (!call.plain) return 0;
            run = std::max(run, call.most == GrammarAutomaton::unbounded ? ~uint64_t{0}
                                                                         : uint64_t{call.most} - top.count);
            continue;
        }
        // The alternatives inside that rule are threads too; they are what the run stands for.
        if (plain_first_[thread.state]) continue;
        for (const GrammarAutomaton::ByteEdge& edge : automaton_.states[thread.state].edges)
            for (uint32_t byte_class = edge.first; byte_class <= edge.last; ++byte_class)
                if (plain_classes_[byte_class]) return 0;
    }
    return run;
}

void GrammarStates::walk(const TokenTrie::Tree& tree, uint32_t from, std::span<uint32_t> bits) {
    const size_t count = tree.nodes.size();
    path_[0] = from;
    for (size_t at = 0; at < count;) {
        const TokenTrie::Node& node = tree.nodes[at];
        const uint32_t state = path_[node.depth];
        const uint32_t byte_class = automaton_.class_of[node.byte];
        uint32_t next = next_[size_t{state} * automaton_.class_count + byte_class];
        if (next == unknown) next = step(state, byte_class);
        if (next == dead) {
            at = node.skip;
            continue;
        }
        path_[node.depth + 1u] = next;
        for (uint32_t i = 0; i < node.count; ++i) {
            const uint32_t id = tree.ids[node.first + i];
            bits[id / 32] |= 1u << (id % 32);
        }
        ++at;
    }
}

void GrammarStates::compute_mask(uint32_t state, std::span<uint32_t> bits) {
    std::fill(bits.begin(), bits.end(), 0u);
    if (!ends(state)) {
        const uint64_t run = plain_run(state);
        if (run > 0)
            tokens_->set_plain(run, bits);
        else
            walk(tokens_->plain(), state, bits);
        walk(tokens_->other(), state, bits);
    }
    if (accepting(state))
        for (uint32_t id : tokens_->end_tokens()) bits[id / 32] |= 1u << (id % 32);
}

void GrammarStates::mask(uint32_t state, std::span<uint32_t> bits) {
    if (states_[state].mask == nullptr) {
        compute_mask(state, bits);
        std::unique_ptr<std::vector<uint32_t>> kept;
        if (masked_.size() < most_masks) {
            masked_.push_back(state);
            kept = std::make_unique<std::vector<uint32_t>>(bits.size());
        } else {
            kept = std::move(states_[masked_[oldest_mask_]].mask);
            masked_[oldest_mask_] = state;
            oldest_mask_ = (oldest_mask_ + 1) % most_masks;
        }
        std::copy(bits.begin(), bits.end(), kept->begin());
        states_[state].mask = std::move(kept);
        return;
    }
    std::copy(states_[state].mask->begin(), states_[state].mask->end(), bits.begin());
}

}  // namespace coterie::text
