// What a model file says about its vocabulary, as plain data: the input of Tokenizer. Nothing here is checked
// yet.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace coterie::gguf {
class File;
}

namespace coterie::text {

// The numbers of tokenizer.ggml.token_type. Anything else counts as normal.
enum class TokenType : int32_t {
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6
};

struct VocabularyData {
    std::string model;         // "gpt2": byte-level BPE; "llama": SPM
    std::string pre;           // name of the pre-tokeniser (BPE); empty if the file has none
    std::string architecture;  // used only where pre is missing or known to be wrong

    std::vector<std::string>
        tokens;  // as in the file: GPT-2's printable alphabet (BPE), U+2581 for spaces (SPM)
    std::vector<TokenType> types;     // one per token, or empty: all normal
    std::vector<float> scores;        // SPM: one per token, or empty: all 0
    std::vector<std::string> merges;  // BPE: "left right", best first

    // Ids outside the vocabulary are ignored; -1 means none. An empty optional means the model's own default.
    std::optional<int64_t> bos, eos, unknown;
    int64_t eot = -1, eom = -1, padding = -1, fim_pad = -1, fim_rep = -1, fim_sep = -1;
    std::vector<int64_t> more_eos;  // further ids that end a turn, where a file lists several
    std::optional<bool> add_bos, add_eos, add_space_prefix;
};

// Reads the tokenizer.* metadata. Throws bad_model for keys of the wrong type; missing ones stay empty.
VocabularyData read_vocabulary(const gguf::File& file);

}  // namespace coterie::text
