// Answers drawn at random under a grammar's mask.
#pragma once
#include <random>
#include <string>
#include <vector>

#include "text/grammar.h"

namespace grammar_test {

// An answer of random tokens. The longer it is, the more the draw prefers what closes things.
inline std::string sample(coterie::text::GrammarMatcher& matcher, std::mt19937& random) {
    const coterie::text::TokenTrie& tokens = matcher.tokens();
    std::vector<uint32_t> bits(tokens.mask_words());
    std::string text;
    for (int step = 0; step < 2000; ++step) {
        matcher.mask(bits);
        std::vector<uint32_t> allowed, closing, single;
        for (size_t word = 0; word < bits.size(); ++word)
            for (uint32_t rest = bits[word]; rest != 0; rest &= rest - 1) {
                const auto id = static_cast<uint32_t>(word * 32 + static_cast<size_t>(__builtin_ctz(rest)));
                allowed.push_back(id);
                const std::string_view token = tokens.token(id);
                if (token.size() == 1) single.push_back(id);
                if (tokens.is_end(id) || token == "\"" || token == "]" || token == "}" ||
                    token.front() == '\xFF' || (token.size() > 4 && token.find('/') < 3))
                    closing.push_back(id);
            }
        if (allowed.empty()) throw "no token fits after: " + text;
        const bool close = !closing.empty() && random() % 100 < (step < 10 ? 5u : step < 40 ? 30u : 90u);
        const std::vector<uint32_t>& from = close                           ? closing
                                            : step > 100 && !single.empty() ? single
                                                                            : allowed;
        const uint32_t id = from[random() % from.size()];
        if (!matcher.accept(id)) throw "an allowed token is refused after: " + text;
        if (tokens.is_end(id)) return text;
        // A control token shows as its text, which is what an answer's parser sees.
        const std::string_view token = tokens.token(id);
        text += token.front() == '\xFF' ? token.substr(1) : token;
    }
    throw "no end after 2000 tokens: " + text.substr(0, 300);
}

}  // namespace grammar_test
