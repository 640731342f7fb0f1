// Vocabularies for the tests of the tokenizer: from committed JSON, and small ones made by hand.
#pragma once
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "catch.h"
#include "text/tokenizer.h"

namespace coterie::text {

inline nlohmann::json read_json(const std::string& name) {
    std::ifstream in(std::string(TEST_DATA "/tokenizer/") + name);
    INFO(name);
    REQUIRE(in.good());
    return nlohmann::json::parse(in);
}

inline VocabularyData vocabulary_of(const nlohmann::json& json) {
    VocabularyData data;
    data.model = json.at("model");
    data.tokens = json.at("tokens").get<std::vector<std::string>>();
    for (const int type : json.at("types")) data.types.push_back(TokenType(type));
    if (json.contains("merges")) data.merges = json["merges"].get<std::vector<std::string>>();
    if (json.contains("scores")) data.scores = json["scores"].get<std::vector<float>>();
    return data;
}

// Byte-level BPE: token b is byte b; then 256 " a", 257 "ab", 258 "abc"; 259 <|end|> and 260 <|end|>x are
// control tokens, 261 <user> is user-defined, 262 <unk> unknown.
inline VocabularyData small_byte_level() {
    VocabularyData data;
    data.model = "gpt2";
    data.pre = "gpt-2";
    // Printable Latin-1 as itself, the others from U+0100 on, as in every GPT-2 vocabulary.
    for (int b = 0, shifted = 0; b < 256; ++b) {
        const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        const int code = printable ? b : 256 + shifted++;
        std::string token;
        if (code < 128) {
            token.push_back(char(code));
        } else {
            token.push_back(char(0xc0 | code >> 6));
            token.push_back(char(0x80 | (code & 63)));
        }
        data.tokens.push_back(token);
    }
    data.types.assign(256, TokenType::normal);
    const auto add = [&](const char* text, TokenType type) {
        data.tokens.push_back(text);
        data.types.push_back(type);
    };
    add("\xc4\xa0"
        "a",
        TokenType::normal);                  // 256
    add("ab", TokenType::normal);            // 257
    add("abc", TokenType::normal);           // 258
    add("<|end|>", TokenType::control);      // 259
    add("<|end|>x", TokenType::control);     // 260
    add("<user>", TokenType::user_defined);  // 261
    add("<unk>", TokenType::unknown);        // 262
    data.merges = {"a b", "\xc4\xa0 a", "ab c"};
    data.bos = 259;
    data.eos = 259;
    return data;
}

}  // namespace coterie::text
