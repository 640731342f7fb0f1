// See byte_pair.h.
#include "text/byte_pair.h"

#include <array>

#include "base/failure.h"
#include "text/utf8.h"

namespace coterie::text {

// Printable Latin-1 stands for itself; the other 68 bytes, in order, for U+0100 and the following.
static std::array<int16_t, 0x144> make_printable_bytes() {
    std::array<int16_t, 0x144> bytes;
    bytes.fill(-1);
    uint32_t next = 0x100;
    for (uint32_t b = 0; b < 256; ++b) {
        const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        bytes[printable ? b : next++] = int16_t(b);
    }
    return bytes;
}

bool decode_printable(std::string_view printable, std::string& bytes) {
    static const std::array<int16_t, 0x144> byte_of = make_printable_bytes();
    const size_t before = bytes.size();
    while (!printable.empty()) {
        const Utf8Character c = first_character(printable);
        if (!c.valid || c.code_point >= byte_of.size() || byte_of[c.code_point] < 0) {
            bytes.resize(before);
            return false;
        }
        bytes.push_back(char(byte_of[c.code_point]));
        printable.remove_prefix(c.length);
    }
    return true;
}

BytePairEncoder::BytePairEncoder(const std::vector<std::string_view>& tokens,
                                 const std::vector<std::string>& merges, bool ignore_merges)
    : ignore_merges_(ignore_merges), tokens_(uint32_t(tokens.size())), merges_(merges.size()) {
    symbols_.reserve(tokens.size() + 256);
    for (uint32_t id = 0; id < tokens_; ++id)
        if (!tokens[id].empty()) symbols_.emplace(tokens[id], id);
    for (int b = 0; b < 256; ++b) byte_symbols_[b] = symbol_of(std::string(1, char(b)));

    std::string left, right;
    for (size_t rank = 0; rank < merges.size(); ++rank) {
        const std::string_view merge = merges[rank];
        const size_t gap = merge.find(' ', 1);
        left.clear(), right.clear();
        if (gap == std::string_view::npos || gap + 1 == merge.size() ||
            !decode_printable(merge.substr(0, gap), left) || !decode_printable(merge.substr(gap + 1), right))
            fail(Status::bad_model,
                 "merge {} of the vocabulary is \"{}\", which isn't two texts in the printable alphabet of "
                 "byte-level BPE; the file "
                 "is damaged",
                 rank, repaired_utf8(merge.substr(0, 80)));
        const uint32_t l = symbol_of(left), r = symbol_of(right);
        merges_.insert(l, r, {uint32_t(rank), symbol_of(left + right)});
    }
}

uint32_t BytePairEncoder::symbol_of(std::string_view bytes) {
    const auto found = symbols_.find(bytes);
    if (found != symbols_.end()) return found->second;
    const uint32_t symbol = tokens_ + uint32_t(extra_.size());
    symbols_.emplace(extra_.emplace_back(bytes), symbol);
    return symbol;
}

int32_t BytePairEncoder::find(std::string_view bytes) const {
    const auto found = symbols_.find(bytes);
    return found == symbols_.end() || found->second >= tokens_ ? -1 : int32_t(found->second);
}

void BytePairEncoder::encode(std::string_view piece, Merger& merger, std::vector<int32_t>& ids) const {
    if (ignore_merges_) {
        const int32_t whole = find(piece);
        if (whole >= 0) return ids.push_back(whole);
    }
    std::vector<MergeSymbol>& symbols = merger.symbols;
    symbols.resize(piece.size());
    for (uint32_t i = 0; i < piece.size(); ++i) symbols[i] = {byte_symbols_[uint8_t(piece[i])], i, 1};
    merger.run([this](const MergeSymbol& left, const MergeSymbol& right) -> MergeCandidate {
        const PairTable::Value* const merge = merges_.find(left.id, right.id);
        if (!merge) return {};
        return {int64_t(merge->first), merge->second, true};
    });
    for (const MergeSymbol& symbol : symbols) {
        if (symbol.id < tokens_) {
            ids.push_back(int32_t(symbol.id));
            continue;
        }
        // No token: byte by byte, and bytes that are no tokens either are lost.
        for (const char c : piece.substr(symbol.begin, symbol.length))
            if (byte_symbols_[uint8_t(c)] < tokens_) ids.push_back(int32_t(byte_symbols_[uint8_t(c)]));
    }
}

}  // namespace coterie::text
