// Byte-level BPE: from a piece of text (a word) to token ids, by merging bytes in the order the vocabulary
// was learned. All texts here are raw bytes; GPT-2's printable alphabet, in which files store them, ends at
// decode_printable().
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/merge.h"
#include "text/pair_table.h"

namespace coterie::text {

// Appends the bytes that a text in GPT-2's printable alphabet stands for; false (and nothing) if it isn't in
// it.
bool decode_printable(std::string_view printable, std::string& bytes);

class BytePairEncoder {
  public:
    // tokens: raw bytes of each token, empty for those that ordinary text must never become. They must
    // outlive this. merges: "left right" in the printable alphabet, best first. Throws bad_model for a merge
    // that isn't two texts.
    BytePairEncoder(const std::vector<std::string_view>& tokens, const std::vector<std::string>& merges,
                    bool ignore_merges);

    // Appends the ids of one piece. merger is scratch, kept by the caller from piece to piece.
    void encode(std::string_view piece, Merger& merger, std::vector<int32_t>& ids) const;

    int32_t find(std::string_view bytes) const;  // -1 if it is no token

  private:
    uint32_t symbol_of(std::string_view bytes);

    bool ignore_merges_;
    uint32_t tokens_;  // symbols from here on are no tokens, but steps on the way to some
    std::unordered_map<std::string_view, uint32_t> symbols_;
    std::deque<std::string> extra_;  // texts of those symbols; a deque never moves what symbols_ points to
    uint32_t byte_symbols_[256];
    PairTable merges_;  // (left, right) -> rank, merged symbol
};

}  // namespace coterie::text
