// What grammars derive, from tables; and that masks, walked and remembered, say the same as taking each token
// alone.
#include <algorithm>

#include "base/failure.h"
#include "catch.h"
#include "grammar/vocabulary.h"
#include "text/json_schema.h"

using namespace coterie;
using namespace coterie::text;

namespace {

struct Row {
    const char* grammar;
    std::vector<std::string> derived, others;
};

const std::vector<Row> gbnf_rows = {
    {R"(root ::= "a" "b"*)", {"a", "ab", "abbb"}, {"", "b", "aba"}},
    {R"(root ::= [a-c]+ | "x" [^a-y\n]{2} )", {"abcab", "xzz", "x漢é"}, {"xz", "xzzz", "xaz", "x\n\n"}},
    {"# a comment\nroot ::= list # another\nlist ::= \"(\" (list |\n  \"x\")* \")\"\n",
     {"()", "((x)x)", "(((())))"},
     {"(", "x", "())"}},
    {R"(root ::= "\x41\u00e9\n\"" .)", {"A\xC3\xA9\n\"z", "Aé\n\"🦊"}, {"Aé\n\"", "Aé\n\"zz"}},
    {R"(root ::= d{3} ("-" d{2,4})? ("+" d{2,})?
        d ::= [0-9])",
     {"123", "123-45", "123-4567", "123+12345678"},
     {"12", "1234", "123-1", "123-12345", "123+1"}},
    {R"(root ::= ("a" | "b" "c"?){2,3} "d"?)", {"aa", "abc", "bcbcbcd", "bb"}, {"a", "aaaa", "cc"}},
    {R"(root ::= ("ab" | "c"){10,12})",
     {"cccccccccc", "abababababababababab", "cccccccccccc"},
     {"ccccccccc", "ccccccccccccc"}},
    {R"g(root ::= expr
        expr ::= term (("+" | "-") term)*
        term ::= num | "(" expr ")"
        num ::= "-"? [1-9] [0-9]* | "0")g",
     {"1+2", "(1-(20+-3))+0"},
     {"01", "1+", "(1"}},
    {R"g(root ::= ("" | "a")* "b")g", {"b", "aab"}, {"a", ""}},
    {R"(root ::= "" | "x" root "y")", {"", "xy", "xxxyyy"}, {"x", "xyy", "yx"}},
    {R"([oops)", {}, {}},
};

const std::vector<Row> regex_rows = {
    {"abc", {"abc"}, {"ab", "abcd", "xabc"}},
    {"^[a-z]+(-[0-9]{2,3})?$", {"a", "abc-12", "z-123"}, {"", "a-1", "A", "a-1234"}},
    {"(?:a|b(?<n>c|d)*)x+?", {"ax", "bxx", "bcdcx"}, {"a", "cx"}},
    {"\\d+\\.\\w\\s\\S", {"1.a é", "22._\t漢"}, {"a.a b", "1-a b", "1.a  "}},
    {"[^\\d\\]a-]\\u00e9\\x41\\.", {"béA.", "漢éA."}, {"1éA.", "]éA.", "-éA.", "aéA."}},
    {"a{0}b{2}c{,3}", {"bbc{,3}"}, {"bbccc"}},
    {"a.c|", {"abc", "a漢c", ""}, {"a\nc", "ac"}},
};

std::vector<uint32_t> mask_of(GrammarMatcher& matcher) {
    std::vector<uint32_t> bits(matcher.tokens().mask_words());
    matcher.mask(bits);
    return bits;
}

bool allowed(const std::vector<uint32_t>& bits, uint32_t id) {
    return (bits[id / 32] >> (id % 32) & 1) != 0;
}

// Takes random tokens and compares every mask with the answers for single tokens.
void check_masks(const std::shared_ptr<const Grammar>& grammar,
                 const std::shared_ptr<const TokenTrie>& tokens, unsigned seed) {
    std::mt19937 random(seed);
    GrammarMatcher matcher(grammar, tokens);
    std::string text;
    for (int step = 0; step < 40; ++step) {
        INFO(text);
        const std::vector<uint32_t> bits = mask_of(matcher);
        REQUIRE(mask_of(matcher) == bits);
        std::vector<uint32_t> options;
        for (uint32_t id = 0; id < tokens->size(); ++id) {
            GrammarMatcher other = matcher.clone();
            const bool taken = other.accept(id);
            if (taken != allowed(bits, id)) {
                INFO("token '" << tokens->token(id) << "' of id " << id);
                REQUIRE(taken == allowed(bits, id));
            }
            if (taken && !tokens->is_end(id)) options.push_back(id);
        }
        REQUIRE(matcher.can_finish() == grammar->derives(text));
        if (options.empty()) {
            REQUIRE(matcher.can_finish());
            return;
        }
        const uint32_t id = options[random() % options.size()];
        text += tokens->token(id);
        REQUIRE(matcher.accept(id));
    }
}

}  // namespace

TEST_CASE("GBNF grammars derive what they should") {
    for (const Row& row : gbnf_rows) {
        INFO(row.grammar);
        if (row.derived.empty()) {
            CHECK_THROWS_AS(Grammar::from_gbnf(row.grammar), Failure);
            continue;
        }
        const auto grammar = Grammar::from_gbnf(row.grammar);
        for (const std::string& text : row.derived) {
            INFO(text);
            CHECK(grammar->derives(text));
        }
        for (const std::string& text : row.others) {
            INFO(text);
            CHECK_FALSE(grammar->derives(text));
        }
    }
}

TEST_CASE("regular expressions match what they should") {
    for (const Row& row : regex_rows) {
        INFO(row.grammar);
        const auto grammar = Grammar::from_regex(row.grammar);
        for (const std::string& text : row.derived) {
            INFO(text);
            CHECK(grammar->derives(text));
        }
        for (const std::string& text : row.others) {
            INFO(text);
            CHECK_FALSE(grammar->derives(text));
        }
    }
}

TEST_CASE("wrong grammars are refused with a reason") {
    const auto reason = [](const std::string& gbnf) -> std::string {
        try {
            Grammar::from_gbnf(gbnf);
        } catch (const Failure& failure) {
            return failure.message();
        }
        return "accepted";
    };
    using Catch::Matchers::Contains;
    CHECK_THAT(reason("root ::= a\n"), Contains("'a'"));
    CHECK_THAT(reason("x ::= \"a\"\n"), Contains("root"));
    CHECK_THAT(reason("root ::= root \"a\" | \"b\""), Contains("begins with itself"));
    CHECK_THAT(reason("root ::= a\na ::= (\"x\"? b)\nb ::= a | \"c\""), Contains("begins with itself"));
    CHECK_THAT(reason("root ::= \"a\" root"), Contains("never ends"));
    CHECK_THAT(reason("root ::= \"a\"\n\nb ::= \"abc\n"), Contains("line 3"));
    CHECK_THAT(reason("root ::= \"a\"{3,2}"), Contains("contradict"));
    CHECK_THAT(reason("root ::= (\"a\"?){100}"), Contains("may be empty"));
    CHECK_THAT(reason(std::string("root ::= ") + std::string(500, '(') + "\"a\"" + std::string(500, ')')),
               Contains("deeply"));
    for (const char* pattern : {"(", ")", "[a", "a**", "*a", "\\", "(?=a)", "(?<!a)", "\\1", "\\b", "\\p{L}",
                                "a^b", "a$b", "(^a)", "[b-a]", "\\xg"}) {
        INFO(pattern);
        CHECK_THROWS_AS(Grammar::from_regex(pattern), Failure);
    }
}

TEST_CASE("masks say the same as tokens taken one by one") {
    const auto tokens = grammar_test::vocabulary(700);
    const std::vector<std::shared_ptr<const Grammar>> grammars = {
        Grammar::from_gbnf(gbnf_rows[2].grammar),
        Grammar::from_gbnf(gbnf_rows[7].grammar),
        Grammar::from_regex("([a-zé漢]{1,9} ?)+|\"[^\"]{5}\""),
        any_json_grammar(false),
        any_json_grammar(true, {JsonSpacing::free, false}),
        json_schema_grammar(R"({"type":"string","maxLength":7})"),
        json_schema_grammar(R"({"type":"string","minLength":3,"maxLength":40})"),
        json_schema_grammar(
            R"({"anyOf":[{"type":"string","maxLength":4},{"type":"string","pattern":"^a.*z$"}]})"),
        json_schema_grammar(
            R"({"type":"object","properties":{"name":{"type":"string"},"n":{"type":"integer"}},"additionalProperties":{"type":"string"}})"),
        json_schema_grammar_after("</think>",
                                  R"({"type":"array","items":{"enum":["a\"b","漢",1.5]},"minItems":1})"),
    };
    for (size_t i = 0; i < grammars.size(); ++i)
        for (unsigned seed = 1; seed <= 3; ++seed) {
            INFO("grammar " << i);
            check_masks(grammars[i], tokens, seed);
        }
}

TEST_CASE("a matcher ends, restarts, and refuses without moving") {
    const auto tokens = grammar_test::vocabulary(400);
    GrammarMatcher matcher(Grammar::from_gbnf(R"(root ::= "ab" "c"?)"), tokens);
    const auto end = tokens->end_tokens().front();
    CHECK_FALSE(matcher.accept(end));
    CHECK(matcher.accept_text("a"));
    CHECK_FALSE(matcher.accept_text("x"));
    CHECK(matcher.accept_text("b"));
    CHECK(matcher.can_finish());
    CHECK_FALSE(matcher.finished());
    GrammarMatcher other = matcher.clone();
    CHECK(other.accept_text("c"));
    CHECK(other.finished());
    CHECK_FALSE(matcher.finished());
    CHECK(matcher.accept(end));
    CHECK(matcher.finished());
    CHECK_FALSE(matcher.accept_text("c"));
    const auto bits = mask_of(matcher);
    CHECK(allowed(bits, end));
    CHECK_FALSE(allowed(bits, 0));
    matcher.restart();
    CHECK(matcher.accept_text("abc"));
    CHECK_FALSE(matcher.accept(static_cast<uint32_t>(tokens->size())));
    std::vector<uint32_t> small(1);
    CHECK_THROWS_AS(matcher.mask(small), Failure);
}

TEST_CASE("deep nesting is bounded, long texts too, and neither hangs nor grows") {
    const auto grammar = any_json_grammar(false);
    const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
    CHECK(grammar->derives(nested(60)));
    CHECK_FALSE(grammar->derives(nested(100000)));
    std::string list = "[0";
    for (int i = 1; i < 100000; ++i) list += "," + std::to_string(i);
    CHECK(grammar->derives(list + "]"));
    const auto bounded = json_schema_grammar(R"({"type":"string","minLength":99999,"maxLength":100000})");
    CHECK(bounded->derives('"' + std::string(100000, 'x') + '"'));
    CHECK_FALSE(bounded->derives('"' + std::string(100001, 'x') + '"'));
    CHECK_FALSE(bounded->derives('"' + std::string(99998, 'x') + '"'));
}
