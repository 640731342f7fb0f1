// Finds the tokens that are cut out of a text before it is tokenised: user-defined ones always, control
// tokens only where the caller trusts the text. The leftmost match wins, and of those that begin there the
// longest.
#pragma once
#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/pair_table.h"

namespace coterie::text {

class SpecialTokens {
  public:
    // Longer texts are never looked for, so that a search takes at most this many steps for a byte.
    static constexpr size_t longest = 512;

    void add(std::string_view text, int32_t id, bool control);

    struct Match {
        size_t begin, length;  // begin is the text's size if there is no match
        int32_t id;            // and then this is -1
    };
    Match find(std::string_view text, size_t from, bool control) const;

  private:
    // A trie: (node, byte) -> next node. For each node the tokens that end there, or -1.
    PairTable edges_;
    struct Node {
        int32_t always = -1, control = -1;
    };
    std::vector<Node> nodes_{1};
    std::bitset<256> first_;  // bytes with which some token begins
};

}  // namespace coterie::text
