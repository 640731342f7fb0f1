// See sentence_piece.h.
#include "text/sentence_piece.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "text/utf8.h"

namespace coterie::text {

std::string with_plain_spaces(std::string_view text) {
    constexpr std::string_view visible = "\xe2\x96\x81";  // U+2581
    std::string out;
    out.reserve(text.size());
    for (size_t found; (found = text.find(visible)) != std::string_view::npos;) {
        out.append(text.substr(0, found)).push_back(' ');
        text.remove_prefix(found + visible.size());
    }
    return out.append(text);
}

// The first space that follows something else; merges across it are impossible where no token holds such a
// place.
static size_t next_word(std::string_view text) {
    const size_t begin = text.find_first_not_of(' ');
    return begin == std::string_view::npos ? begin : text.find(' ', begin);
}

SentencePieceEncoder::SentencePieceEncoder(const std::vector<std::string_view>& tokens,
                                           const std::vector<float>& scores,
                                           const int32_t (&byte_tokens)[256], int32_t unknown)
    : unknown_(unknown) {
    std::copy(std::begin(byte_tokens), std::end(byte_tokens), byte_tokens_);
    ids_.reserve(tokens.size());
    for (uint32_t id = 0; id < tokens.size(); ++id) {
        if (tokens[id].empty()) continue;
        ids_.emplace(tokens[id], id);
        longest_ = std::max(longest_, tokens[id].size());
        if (next_word(tokens[id]) != std::string_view::npos) words_apart_ = false;
    }
    // Floats as integers of the same order, so that both kinds of tokenizer merge alike. NaN counts as the
    // worst.
    orders_.resize(tokens.size());
    for (size_t id = 0; id < tokens.size() && id < scores.size(); ++id) {
        int32_t bits;
        const float score = std::isnan(scores[id]) ? -INFINITY : scores[id] + 0.0f;
        std::memcpy(&bits, &score, 4);
        orders_[id] = bits >= 0 ? -int64_t(bits) : int64_t(bits & 0x7fffffff);
    }
}

int32_t SentencePieceEncoder::find(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? -1 : int32_t(found->second);
}

void SentencePieceEncoder::encode(std::string_view text, Merger& merger, std::vector<int32_t>& ids) const {
    while (words_apart_) {
        const size_t word = next_word(text);
        if (word == std::string_view::npos) break;
        encode_part(text.substr(0, word), merger, ids);
        text.remove_prefix(word);
    }
    encode_part(text, merger, ids);
}

void SentencePieceEncoder::encode_part(std::string_view text, Merger& merger,
                                       std::vector<int32_t>& ids) const {
    constexpr uint32_t no_token = UINT32_MAX;
    const auto id_of = [&](uint32_t begin, uint32_t length) {
        if (length > longest_) return no_token;
        const auto found = ids_.find(text.substr(begin, length));
        return found == ids_.end() ? no_token : found->second;
    };
    std::vector<MergeSymbol>& symbols = merger.symbols;
    symbols.clear();
    for (uint32_t at = 0; at < text.size();) {
        const uint32_t length = first_character(text.substr(at)).length;
        symbols.push_back({no_token, at, length});
        at += length;
    }
    merger.run([&](const MergeSymbol& left, const MergeSymbol& right) -> MergeCandidate {
        const uint32_t id = id_of(left.begin, left.length + right.length);
        if (id == no_token) return {};
        return {orders_[id], id, true};
    });
    for (const MergeSymbol& symbol : symbols) {
        const uint32_t id = symbol.id != no_token ? symbol.id : id_of(symbol.begin, symbol.length);
        if (id != no_token) {
            ids.push_back(int32_t(id));
            continue;
        }
        const std::string_view bytes = text.substr(symbol.begin, symbol.length);
        const bool by_bytes =
            std::all_of(bytes.begin(), bytes.end(), [&](char c) { return byte_tokens_[uint8_t(c)] >= 0; });
        if (by_bytes)
            for (const char c : bytes) ids.push_back(byte_tokens_[uint8_t(c)]);
        else if (unknown_ >= 0)
            ids.push_back(unknown_);
    }
}

}  // namespace coterie::text
