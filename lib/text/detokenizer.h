// The text of a generation as it grows: token ids in, whole characters out, never half of one.
// The outputs, joined, are the valid UTF-8 of the tokens' bytes, with U+FFFD for what is none.
#pragma once
#include <cstdint>
#include <string>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace coterie::text {

class Detokenizer {
  public:
    // The tokenizer must outlive this. with_special: control tokens give their text instead of nothing.
    explicit Detokenizer(const Tokenizer& tokenizer, bool with_special = false)
        : tokenizer_(&tokenizer), with_special_(with_special) {}

    std::string push(int32_t id) {
        if (!with_special_ && tokenizer_->is_special(id)) return {};
        return stream_.push(tokenizer_->bytes(id));
    }
    // At the end: U+FFFD if the last character never became whole.
    std::string flush() { return stream_.flush(); }

  private:
    const Tokenizer* tokenizer_;
    bool with_special_;
    Utf8Stream stream_;
};

}  // namespace coterie::text
