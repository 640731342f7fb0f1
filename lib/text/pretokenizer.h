// The first half of byte-level BPE: cuts text into words, numbers, punctuation and white space, in the way
// the model was trained with. Merges never cross a cut. The patterns are regular expressions, run by PCRE2.
// Pieces joined are always the text; the text must be valid UTF-8.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace coterie::text {

class Pretokenizer {
  public:
    // Takes one of the canonical names: default gpt-2 smollm qwen2 qwen35 llama-bpe glm4 gpt-4o deepseek-v3
    // tekken.
    explicit Pretokenizer(std::string_view name);

    // Appends the pieces of text to pieces; they point into text. Safe to call from several threads.
    void split(std::string_view text, std::vector<std::string_view>& pieces) const;

  private:
    struct Pass;
    std::vector<std::shared_ptr<const Pass>> passes_;  // each cuts the pieces of the one before
};

// What a name in tokenizer.ggml.pre means.
struct PretokenizerChoice {
    std::string name;            // canonical name, for Pretokenizer
    bool ignore_merges = false;  // a whole piece that is a token is taken as it is
    bool add_bos = false;        // unless the file says otherwise
    std::string warning;         // a sentence for the user if the name was missing, wrong or unknown
};

// Resolves the file's name, its aliases and the files of some architectures that are known to name it wrongly
// or not at all.
PretokenizerChoice choose_pretokenizer(std::string_view pre, std::string_view architecture);

}  // namespace coterie::text
