// A made-up vocabulary with the traits of real ones: all bytes, words with and without a leading space, runs
// of white space, JSON punctuation glued together, pieces of code points, end tokens, control tokens (empty).
#pragma once
#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "text/grammar.h"

namespace grammar_test {

inline std::shared_ptr<const coterie::text::TokenTrie> vocabulary(size_t size, unsigned seed = 5) {
    std::mt19937 random(seed);
    std::set<std::string> pieces;
    for (int byte = 0; byte < 256; ++byte) pieces.insert(std::string(1, static_cast<char>(byte)));
    for (const char* piece : {"\"}",       "\",",         "\":",
                              "\": ",      "\", \"",      "\",\"",
                              "{\"",       "[{",          "}]",
                              "}}",        "]]",          "[]",
                              "{}",        "\"\"",        "[\"",
                              "\"]",       "\\\"",        "\\n",
                              "\\u",       "\\u00",       "\\ud83d",
                              "\\ude00",   "\\\\",        ", ",
                              ": ",        "true",        "false",
                              "null",      " true",       "e+",
                              "-1",        "0.",          "00",
                              "10",        "2024-",       "T12:",
                              "\xF0\x9F",  "\x98\x80",    "\xF0\x9F\x98\x80",
                              "\xE6\xBC",  "\xA2",        "漢字",
                              "é",         "ß\"",         "名\":",
                              "</",        "<tool_call>", "</think>",
                              "\n\n",      "    ",        "\n  \"",
                              "name",      "\"name\"",    "city",
                              "arguments", "{\"name\":",  "}\n",
                              "]}",        "1}",          "a\"}",
                              "http://",   "@",           ".com"})
        pieces.insert(piece);
    const std::string letters = "etaoinshrdlucmfwypvbgkjqxzETAOINSHRDLU";
    const std::vector<std::string> tails = {
        "", "", "", "", "", "", "\"", "\",", "\":", ".", ",", ")", "('", "é", "漢", "_", "1", "\n"};
    while (pieces.size() + 4 < size) {
        std::string piece = random() % 2 == 0 ? " " : "";
        if (random() % 12 == 0) {
            for (unsigned i = 1 + random() % 4; i > 0; --i) {
                std::string wide;
                const uint32_t point = 0x4E00 + random() % 0x5000;
                wide += static_cast<char>(0xE0 | point >> 12);
                wide += static_cast<char>(0x80 | ((point >> 6) & 0x3F));
                wide += static_cast<char>(0x80 | (point & 0x3F));
                piece += wide;
            }
        } else {
            for (unsigned i = 1 + random() % 10; i > 0; --i)
                piece += letters[std::min<size_t>(random() % letters.size(), random() % letters.size())];
        }
        piece += tails[random() % tails.size()];
        pieces.insert(piece);
    }
    std::vector<std::string> tokens(pieces.begin(), pieces.end());
    std::shuffle(tokens.begin(), tokens.end(), random);
    const auto end = static_cast<uint32_t>(tokens.size());
    tokens.insert(tokens.end(), {"<|end|>", "<|eot|>", "", ""});
    return std::make_shared<const coterie::text::TokenTrie>(tokens, std::vector<uint32_t>{end, end + 1});
}

}  // namespace grammar_test
