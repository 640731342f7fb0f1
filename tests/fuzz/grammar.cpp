// Any bytes as a GBNF grammar, a regular expression or a JSON schema: a Failure or a grammar, within bounds;
// and what a compiled grammar allows under the mask must be accepted, its masks agreeing with single tokens.
#include <span>

#include "../grammar/vocabulary.h"
#include "base/failure.h"
#include "text/json_schema.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace coterie::text;
    if (size < 2 || size > 2048) return 0;
    static const auto tokens = grammar_test::vocabulary(420);
    const std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
    std::shared_ptr<const Grammar> grammar;
    try {
        switch (data[0] % 4) {
            case 0:
                grammar = Grammar::from_gbnf(text);
                break;
            case 1:
                grammar = Grammar::from_regex(text);
                break;
            case 2:
                grammar = json_schema_grammar(text, {JsonSpacing::compact, false});
                break;
            default:
                grammar = json_schema_grammar(text, {JsonSpacing::free, true});
        }
    } catch (const coterie::Failure&) {
        return 0;
    }
    std::mt19937 random(data[1]);
    GrammarMatcher matcher(grammar, tokens);
    std::vector<uint32_t> bits(tokens->mask_words());
    try {
        for (int step = 0; step < 12; ++step) {
            matcher.mask(bits);
            std::vector<uint32_t> allowed;
            for (uint32_t id = 0; id < tokens->size(); ++id) {
                const bool yes = (bits[id / 32] >> (id % 32) & 1) != 0;
                GrammarMatcher other = matcher.clone();
                if (other.accept(id) != yes) __builtin_trap();
                if (yes && !tokens->is_end(id)) allowed.push_back(id);
            }
            if (allowed.empty()) {
                // All bytes are tokens, so only the end, or the bound on nesting, leaves nothing to say.
                break;
            }
            if (!matcher.accept(allowed[random() % allowed.size()])) __builtin_trap();
        }
    } catch (const coterie::Failure&) {  // too ambiguous
    }
    return 0;
}
