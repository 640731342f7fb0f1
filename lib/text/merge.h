// The merging that both kinds of tokenizer share: a row of symbols, of which the best adjacent pair becomes
// one symbol, the leftmost of equals first, until no pair can be merged. O(n log n) for a row of n symbols.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace coterie::text {

struct MergeSymbol {
    uint32_t id = 0;
    uint32_t begin = 0, length = 0;  // bytes of the text it stands for
};

// A pair that may be merged: the smaller the order, the sooner.
struct MergeCandidate {
    int64_t order = 0;
    uint32_t id = 0;  // of the merged symbol
    bool possible = false;
};

class Merger {
  public:
    std::vector<MergeSymbol> symbols;  // in: the row; out: the row with nothing left to merge

    // candidate(left, right) -> MergeCandidate depends on the two symbols alone.
    template <typename Candidate>
    void run(const Candidate& candidate) {
        if (symbols.size() < 2) return;
        if (symbols.size() <= short_row) return run_short(candidate);
        run_long(candidate);
    }

  private:
    static constexpr size_t short_row = 48;  // up to here a plain scan beats the heap
    static constexpr uint32_t none = UINT32_MAX;
    struct Entry {
        int64_t order;
        uint32_t left, right, length, id;  // length of both: tells an entry whose symbols have changed since
        bool operator<(const Entry& other) const {  // std's heap has the greatest on top
            return order != other.order ? order > other.order : left > other.left;
        }
    };

    template <typename Candidate>
    void run_short(const Candidate& candidate) {
        MergeCandidate pairs[short_row];
        size_t n = symbols.size();
        for (size_t i = 0; i + 1 < n; ++i) pairs[i] = candidate(symbols[i], symbols[i + 1]);
        for (;;) {
            size_t best = n;
            for (size_t i = 0; i + 1 < n; ++i)
                if (pairs[i].possible && (best == n || pairs[i].order < pairs[best].order)) best = i;
            if (best == n) break;
            symbols[best].id = pairs[best].id;
            symbols[best].length += symbols[best + 1].length;
            --n;
            for (size_t i = best + 1; i < n; ++i) symbols[i] = symbols[i + 1];
            for (size_t i = best + 1; i + 1 < n; ++i) pairs[i] = pairs[i + 1];
            if (best > 0) pairs[best - 1] = candidate(symbols[best - 1], symbols[best]);
            if (best + 1 < n) pairs[best] = candidate(symbols[best], symbols[best + 1]);
        }
        symbols.resize(n);
    }

    template <typename Candidate>
    void run_long(const Candidate& candidate) {
        const uint32_t n = uint32_t(symbols.size());
        previous_.resize(n), next_.resize(n), heap_.clear();
        const auto offer = [&](uint32_t left, uint32_t right) {
            const MergeCandidate c = candidate(symbols[left], symbols[right]);
            if (c.possible)
                heap_.push_back({c.order, left, right, symbols[left].length + symbols[right].length, c.id});
            return c.possible;
        };
        for (uint32_t i = 0; i < n; ++i) {
            previous_[i] = i == 0 ? none : i - 1;
            next_[i] = i + 1 == n ? none : i + 1;
            if (i + 1 < n) offer(i, i + 1);
        }
        std::make_heap(heap_.begin(), heap_.end());
        while (!heap_.empty()) {
            const Entry top = heap_.front();
            std::pop_heap(heap_.begin(), heap_.end());
            heap_.pop_back();
            MergeSymbol& left = symbols[top.left];
            MergeSymbol& right = symbols[top.right];
            // A merged-away symbol has length 0, and symbols only grow: so equal length means both are as
            // they were.
            if (left.length == 0 || right.length == 0 || left.length + right.length != top.length) continue;
            left.id = top.id;
            left.length = top.length;
            right.length = 0;
            const uint32_t after = next_[top.left] = next_[top.right];
            if (after != none) {
                previous_[after] = top.left;
                if (offer(top.left, after)) std::push_heap(heap_.begin(), heap_.end());
            }
            const uint32_t before = previous_[top.left];
            if (before != none && offer(before, top.left)) std::push_heap(heap_.begin(), heap_.end());
        }
        symbols.erase(std::remove_if(symbols.begin(), symbols.end(),
                                     [](const MergeSymbol& s) { return s.length == 0; }),
                      symbols.end());
    }

    std::vector<uint32_t> previous_, next_;
    std::vector<Entry> heap_;
};

}  // namespace coterie::text
