// Any bytes through both kinds of tokenizer and all pre-tokenisers: never a crash, and what goes in comes out
// again, with U+FFFD for invalid UTF-8. The first byte chooses the pre-tokeniser and the flags. corpus:
// tests/data/tokenizer/fuzz
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "text/detokenizer.h"
#include "text/utf8.h"

using namespace coterie::text;

namespace {

void must(bool condition) {
    if (!condition) std::abort();  // what libFuzzer reports
}

std::string latin(int code) {
    std::string text;
    append_utf8(text, uint32_t(code));
    return text;
}

Tokenizer byte_level(const char* pre) {
    VocabularyData data;
    data.model = "gpt2";
    data.pre = pre;
    for (int b = 0, shifted = 0; b < 256; ++b) {
        const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        data.tokens.push_back(latin(printable ? b : 256 + shifted++));
    }
    data.types.assign(256, TokenType::normal);
    for (const char* pair :
         {"a a", "aa aa", "aaaa a", "\xc4\xa0 \xc4\xa0", "\xc4\xa0 a", "b c", "a bc", "\xe2 \xc4"}) {
        const std::string merge = pair;
        const size_t gap = merge.find(' ');
        if (!is_valid_utf8(merge)) continue;
        data.merges.push_back(merge);
        data.tokens.push_back(merge.substr(0, gap) + merge.substr(gap + 1));
        data.types.push_back(TokenType::normal);
    }
    for (const char* text : {"<|end|>", "<|end|>>", "  \n"}) {
        data.tokens.push_back(text);
        data.types.push_back(text[0] == '<' ? TokenType::control : TokenType::user_defined);
    }
    return Tokenizer(data);
}

Tokenizer sentence_piece() {
    VocabularyData data;
    data.model = "llama";
    data.tokens = {"<unk>", "<s>", "</s>"};
    data.types = {TokenType::unknown, TokenType::control, TokenType::control};
    for (int b = 0; b < 256; ++b) {
        const char* const digits = "0123456789ABCDEF";
        data.tokens.push_back(std::string("<0x") + digits[b / 16] + digits[b % 16] + ">");
        data.types.push_back(TokenType::byte);
    }
    const std::string space = "\xe2\x96\x81";
    for (const std::string& text :
         {space, space + "a", space + space, std::string("a"), std::string("b"), std::string("aa"),
          std::string("aaaa"), std::string("ab"), std::string("\u00e9a"), "b" + space}) {
        data.tokens.push_back(text);
        data.types.push_back(TokenType::normal);
    }
    for (size_t i = 0; i < data.tokens.size(); ++i) data.scores.push_back(float(i * 7 % 11));
    data.add_space_prefix = false;
    return Tokenizer(data);
}

const std::vector<Tokenizer>& tokenizers() {
    static const std::vector<Tokenizer> all = [] {
        std::vector<Tokenizer> made;
        for (const char* pre : {"gpt-2", "smollm", "qwen2", "qwen35", "llama-bpe", "gpt-4o", "tekken",
                                "deepseek-v3", "default"})
            made.push_back(byte_level(pre));
        made.push_back(sentence_piece());
        return made;
    }();
    return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const Tokenizer& tokenizer = tokenizers()[data[0] % 16 % tokenizers().size()];
    const bool parse_special = data[0] & 16;
    const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
    const std::vector<int32_t> ids = tokenizer.encode(text, false, parse_special);
    std::string expected = repaired_utf8(text);
    if (tokenizer.model() == "llama") expected = with_plain_spaces(expected);
    must(tokenizer.decode(ids, true) == expected);
    Detokenizer detokenizer(tokenizer, true);
    std::string streamed;
    for (const int32_t id : ids) streamed += detokenizer.push(id);
    must(streamed + detokenizer.flush() == expected);
    return 0;
}
