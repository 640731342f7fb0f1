// Text to token ids and back, exactly as the model was trained with: byte-level BPE ("gpt2") and SPM
// ("llama"). Built once from a file's vocabulary; after that constant and safe to share between threads.
// Invalid UTF-8 is read as U+FFFD, one for each maximal ill-formed subpart. No Unicode normalisation takes
// place.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_pair.h"
#include "text/pretokenizer.h"
#include "text/sentence_piece.h"
#include "text/special_tokens.h"
#include "text/vocabulary.h"

namespace coterie::text {

class Tokenizer {
  public:
    // Throws bad_model for a vocabulary that contradicts itself, unsupported for a kind of tokenizer not
    // known here.
    explicit Tokenizer(const VocabularyData& data);
    static Tokenizer from_gguf(const gguf::File& file) { return Tokenizer(read_vocabulary(file)); }
    Tokenizer(Tokenizer&&) = default;
    Tokenizer& operator=(Tokenizer&&) = default;

    // add_special: the model's own BOS and EOS, where it wants them. parse_special: the texts of control
    // tokens, such as
    // <|im_start|>, become these tokens; leave it off for text that a user wrote. User-defined tokens are
    // always found.
    std::vector<int32_t> encode(std::string_view text, bool add_special, bool parse_special) const;

    // The bytes of one token, which may be a part of a character; empty for an id outside the vocabulary.
    // Control, unknown and unused tokens give their text: see is_special.
    std::string_view bytes(int32_t id) const;
    // The bytes of all, special tokens only with with_special. With SPM, the space that encode put before the
    // first word is taken away again. May be invalid UTF-8 where the ids are: Detokenizer gives text.
    std::string decode(std::span<const int32_t> ids, bool with_special = false) const;

    int32_t size() const { return int32_t(types_.size()); }
    TokenType type(int32_t id) const;   // unused for an id outside the vocabulary
    bool is_special(int32_t id) const;  // control, unknown, unused: not part of an answer's text
    std::optional<int32_t> find(
        std::string_view bytes) const;  // special tokens by their text, others by their bytes

    // Any of these ends a generation; sorted.
    const std::vector<int32_t>& ends() const { return ends_; }
    bool is_end(int32_t id) const;

    // -1 means the model has none.
    int32_t bos() const { return bos_; }
    int32_t eos() const { return eos_; }
    int32_t eot() const { return eot_; }
    int32_t unknown() const { return unknown_; }
    int32_t padding() const { return padding_; }
    bool adds_bos() const { return add_bos_; }  // whether add_special begins with it
    bool adds_eos() const { return add_eos_; }
    bool adds_space_prefix() const { return add_space_prefix_; }
    const std::string& model() const { return model_; }
    const std::string& pre() const { return pre_; }  // the pre-tokeniser in use; empty with SPM

    // Sentences for the user about things in the file that had to be guessed.
    const std::vector<std::string>& warnings() const { return warnings_; }

  private:
    void read_tokens(const VocabularyData& data, std::vector<bool>& ordinary);
    void build_encoder(const VocabularyData& data, const std::vector<bool>& ordinary);
    void collect_ends(const VocabularyData& data);
    int32_t id_in_vocabulary(int64_t id) const { return id >= 0 && id < size() ? int32_t(id) : -1; }
    void encode_plain(std::string_view text, bool prefix, std::vector<int32_t>& ids, Merger& merger,
                      std::vector<std::string_view>& pieces) const;

    std::string model_, pre_;
    std::vector<TokenType> types_;
    std::unique_ptr<const std::string> texts_;  // the bytes of all tokens, one after the other; never moves
    std::vector<uint32_t> offsets_;             // where they begin, and one more
    SpecialTokens special_;
    std::optional<Pretokenizer> pretokenizer_;
    std::unique_ptr<const BytePairEncoder> byte_pairs_;  // one of these two
    std::unique_ptr<const SentencePieceEncoder> sentence_pieces_;
    std::vector<int32_t> ends_;
    int32_t bos_ = -1, eos_ = -1, eot_ = -1, unknown_ = -1, padding_ = -1;
    bool add_bos_ = false, add_eos_ = false, add_space_prefix_ = false;
    std::vector<std::string> warnings_;
};

}  // namespace coterie::text
