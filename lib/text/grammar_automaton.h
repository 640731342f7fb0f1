// A compiled grammar: states with edges over classes of bytes, empty edges, calls of rules, and counted
// calls.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace coterie::text {

struct GrammarAutomaton {
    static constexpr uint32_t unbounded = ~uint32_t{0};
    struct ByteEdge {
        uint8_t first, last;  // classes, inclusive
        uint32_t to;
    };
    // Matches the rule least..most times, then goes on at `back`. A plain call is 1..1.
    struct Call {
        uint32_t rule;
        uint32_t back;
        uint32_t least, most;
        bool counted;
        bool plain;  // counted, of one character of a JSON string
    };
    struct State {
        std::vector<ByteEdge> edges;
        std::vector<uint32_t> empty;
        std::vector<uint32_t> calls;  // into `calls`
        bool final = false;           // of its rule
        bool trivial = false;         // leads to its rule's end and nowhere else
    };
    struct Rule {
        uint32_t start = 0;
        bool recursive = false;
    };

    std::vector<State> states;
    std::vector<Call> calls;
    std::vector<Rule> rules;
    uint32_t root = 0;
    uint32_t plain_start = unbounded;  // the start of the rule for one JSON string character
    std::array<uint8_t, 256> class_of{};
    uint32_t class_count = 0;
};

}  // namespace coterie::text
