// SPM, the tokenizer of sentencepiece's BPE models (Llama 2, Gemma): characters are merged while the merged
// text is in the vocabulary, highest score first. Characters that are no tokens become byte tokens, or else
// the unknown token.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/merge.h"

namespace coterie::text {

// The text with every U+2581 as a space.
std::string with_plain_spaces(std::string_view text);

class SentencePieceEncoder {
  public:
    // tokens: each token's text with plain spaces, empty for those that ordinary text must never become; they
    // must outlive this. scores: one for each token, or empty. byte_tokens: the token of each byte value, or
    // -1. unknown: a token, or -1.
    SentencePieceEncoder(const std::vector<std::string_view>& tokens, const std::vector<float>& scores,
                         const int32_t (&byte_tokens)[256], int32_t unknown);

    // Appends the ids of a text with plain spaces.
    void encode(std::string_view text, Merger& merger, std::vector<int32_t>& ids) const;

    int32_t find(std::string_view token) const;  // -1 if it is no token

  private:
    void encode_part(std::string_view text, Merger& merger, std::vector<int32_t>& ids) const;

    std::unordered_map<std::string_view, uint32_t> ids_;
    std::vector<int64_t> orders_;  // of each token: the smaller, the sooner it is merged
    size_t longest_ = 0;           // bytes of the longest token
    bool words_apart_ =
        true;  // no token has a space after something else, so text can be cut before such spaces
    int32_t byte_tokens_[256];
    int32_t unknown_;
};

}  // namespace coterie::text
