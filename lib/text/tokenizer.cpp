// See tokenizer.h. Reading the vocabulary, and the two directions. The set of end tokens: tokenizer_ends.cpp.
#include "text/tokenizer.h"

#include <algorithm>

#include "base/failure.h"
#include "text/utf8.h"

namespace coterie::text {

static bool is_special_type(TokenType type) {
    return type == TokenType::control || type == TokenType::unknown || type == TokenType::unused;
}

// The value of a byte token's text, "<0x0A>", or -1.
static int byte_value(std::string_view text) {
    if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
    int value = 0;
    for (const char c : text.substr(3, 2)) {
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                 : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

Tokenizer::Tokenizer(const VocabularyData& data) : model_(data.model) {
    const bool spm = model_ == "llama";
    if (!spm && model_ != "gpt2")
        fail(Status::unsupported,
             "the model's tokenizer is of kind \"{}\"; Coterie knows \"gpt2\" (byte-level BPE) and \"llama\" "
             "(SPM)",
             model_);
    const size_t n = data.tokens.size();
    if (n == 0)
        fail(Status::bad_model, "the model has no vocabulary: its list of tokens is empty or missing");
    if (n > INT32_MAX / 2) fail(Status::bad_model, "the vocabulary has {} tokens, which can't be right", n);
    if (!data.types.empty() && data.types.size() != n)
        fail(Status::bad_model, "the vocabulary has {} tokens but {} token types; the file is damaged", n,
             data.types.size());
    if (!data.scores.empty() && data.scores.size() != n)
        fail(Status::bad_model, "the vocabulary has {} tokens but {} scores; the file is damaged", n,
             data.scores.size());

    std::vector<bool> ordinary(n);
    read_tokens(data, ordinary);

    // What a file leaves unsaid is as in Llama 2, but Gemma orders its first tokens otherwise and prefixes no
    // space.
    const bool gemma = data.architecture.rfind("gemma", 0) == 0;
    bos_ = id_in_vocabulary(data.bos.value_or(!spm ? -1 : gemma ? 2 : 1));
    eos_ = id_in_vocabulary(data.eos.value_or(!spm ? -1 : gemma ? 1 : 2));
    unknown_ = id_in_vocabulary(data.unknown.value_or(!spm ? -1 : gemma ? 3 : 0));
    eot_ = id_in_vocabulary(data.eot);
    padding_ = id_in_vocabulary(data.padding);
    add_bos_ = data.add_bos.value_or(spm);
    add_eos_ = data.add_eos.value_or(false);
    add_space_prefix_ = spm && data.add_space_prefix.value_or(!gemma);

    build_encoder(data, ordinary);
    collect_ends(data);
}

// Fills types_, texts_, offsets_ and special_. ordinary: which tokens text may become without being cut out.
void Tokenizer::read_tokens(const VocabularyData& data, std::vector<bool>& ordinary) {
    const bool spm = model_ == "llama";
    std::string texts;
    types_.reserve(data.tokens.size());
    offsets_.reserve(data.tokens.size() + 1);
    offsets_.push_back(0);
    for (size_t id = 0; id < data.tokens.size(); ++id) {
        const std::string& token = data.tokens[id];
        TokenType type = data.types.empty() ? TokenType::normal : data.types[id];
        if (type < TokenType::normal || type > TokenType::byte) type = TokenType::normal;
        types_.push_back(type);
        const size_t begin = texts.size();
        const int byte = spm && type == TokenType::byte ? byte_value(token) : -1;
        const bool cut_out =
            type == TokenType::control || type == TokenType::unknown || type == TokenType::user_defined;
        ordinary[id] = !cut_out && byte < 0;
        if (byte >= 0)
            texts.push_back(char(byte));
        else if (spm && type != TokenType::control && type != TokenType::unknown)
            texts += with_plain_spaces(token);
        else if (cut_out)
            texts += token;
        else if (!decode_printable(token, texts)) {
            texts += token;  // not in the alphabet: only an id can mean it
            ordinary[id] = false;
        }
        if (texts.size() > UINT32_MAX)
            fail(Status::bad_model,
                 "the texts of the vocabulary's tokens take more than 4 GiB, which can't be right");
        offsets_.push_back(uint32_t(texts.size()));
        if (cut_out)
            special_.add(std::string_view(texts).substr(begin), int32_t(id), type != TokenType::user_defined);
    }
    texts_ = std::make_unique<const std::string>(std::move(texts));
}

void Tokenizer::build_encoder(const VocabularyData& data, const std::vector<bool>& ordinary) {
    const size_t n = types_.size();
    std::vector<std::string_view> tokens(n);
    if (model_ == "llama") {
        int32_t byte_tokens[256];
        std::fill(std::begin(byte_tokens), std::end(byte_tokens), -1);
        for (size_t id = 0; id < n; ++id) {
            const int byte = types_[id] == TokenType::byte ? byte_value(data.tokens[id]) : -1;
            if (byte >= 0) byte_tokens[byte] = int32_t(id);
            if (ordinary[id]) tokens[id] = bytes(int32_t(id));
        }
        sentence_pieces_ =
            std::make_unique<const SentencePieceEncoder>(tokens, data.scores, byte_tokens, unknown_);
        return;
    }
    PretokenizerChoice choice = choose_pretokenizer(data.pre, data.architecture);
    if (!choice.warning.empty()) warnings_.push_back(std::move(choice.warning));
    if (data.merges.empty())
        warnings_.push_back("the vocabulary has no merges, so every byte becomes a token of its own");
    for (size_t id = 0; id < n; ++id)
        if (ordinary[id]) tokens[id] = bytes(int32_t(id));
    pretokenizer_.emplace(choice.name);
    byte_pairs_ = std::make_unique<const BytePairEncoder>(tokens, data.merges, choice.ignore_merges);
    add_bos_ = data.add_bos.value_or(choice.add_bos);
    pre_ = std::move(choice.name);
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special, bool parse_special) const {
    std::string repaired;
    if (!is_valid_utf8(text)) text = repaired = repaired_utf8(text);
    if (text.size() > INT32_MAX / 4)
        fail(Status::invalid_argument, "a text of {} bytes is too long to tokenise at once; the limit is {}",
             text.size(), INT32_MAX / 4);
    std::vector<int32_t> ids;
    ids.reserve(text.size() / 3 + 8);
    if (add_special && add_bos_ && bos_ >= 0) ids.push_back(bos_);
    Merger merger;
    std::vector<std::string_view> pieces;
    bool prefix = add_space_prefix_;  // at the beginning, and again after every token that was cut out
    for (size_t at = 0; at < text.size();) {
        const SpecialTokens::Match special = special_.find(text, at, parse_special);
        if (special.begin > at)
            encode_plain(text.substr(at, special.begin - at), prefix, ids, merger, pieces);
        if (special.id >= 0) ids.push_back(special.id);
        at = special.begin + special.length;
    }
    if (add_special && add_eos_ && eos_ >= 0) ids.push_back(eos_);
    return ids;
}

void Tokenizer::encode_plain(std::string_view text, bool prefix, std::vector<int32_t>& ids, Merger& merger,
                             std::vector<std::string_view>& pieces) const {
    if (byte_pairs_) {
        pieces.clear();
        pretokenizer_->split(text, pieces);
        for (const std::string_view piece : pieces) byte_pairs_->encode(piece, merger, ids);
        return;
    }
    std::string plain = with_plain_spaces(text);
    if (prefix) plain.insert(plain.begin(), ' ');
    sentence_pieces_->encode(plain, merger, ids);
}

std::string_view Tokenizer::bytes(int32_t id) const {
    if (id < 0 || id >= size()) return {};
    return std::string_view(*texts_).substr(offsets_[id], offsets_[id + 1] - offsets_[id]);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool with_special) const {
    std::string text;
    bool prefix = add_space_prefix_;
    for (const int32_t id : ids) {
        const bool special = is_special(id);
        if (special && !with_special) continue;
        std::string_view part = bytes(id);
        if (prefix && !special && !part.empty()) {
            if (part[0] == ' ' && types_[id] != TokenType::user_defined) part.remove_prefix(1);
            prefix = false;
        }
        text += part;
    }
    return text;
}

TokenType Tokenizer::type(int32_t id) const {
    return id < 0 || id >= size() ? TokenType::unused : types_[id];
}

bool Tokenizer::is_special(int32_t id) const {
    return is_special_type(type(id));
}

bool Tokenizer::is_end(int32_t id) const {
    return std::binary_search(ends_.begin(), ends_.end(), id);
}

std::optional<int32_t> Tokenizer::find(std::string_view text) const {
    const SpecialTokens::Match special = special_.find(text, 0, true);
    if (special.id >= 0 && special.begin == 0 && special.length == text.size()) return special.id;
    const int32_t id =
        byte_pairs_ ? byte_pairs_->find(text) : sentence_pieces_->find(with_plain_spaces(text));
    return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

}  // namespace coterie::text
