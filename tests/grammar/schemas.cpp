// 220 schemas (tests/data/grammar/schemas.json, made by make_schemas.py and judged by Python's jsonschema):
// texts they must derive or refuse, and answers drawn at random under the mask, which must parse and be
// valid. With the environment variable COTERIE_SAMPLES set to a file, the answers are written there for
// check_samples.py.
#include <cstdlib>
#include <fstream>

#include "base/failure.h"
#include "catch.h"
#include "grammar/validator.h"
#include "grammar/vocabulary.h"
#include "text/json_schema.h"

using namespace coterie;
using namespace coterie::text;
using grammar_test::Json;

namespace {

Json entries() {
    std::ifstream file(TEST_DATA "/grammar/schemas.json");
    return Json::parse(file);
}

// An answer of random tokens. The longer it is, the more the draw prefers what closes things.
std::string sample(GrammarMatcher& matcher, std::mt19937& random) {
    const TokenTrie& tokens = matcher.tokens();
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
                if (tokens.is_end(id) || token == "\"" || token == "]" || token == "}") closing.push_back(id);
            }
        if (allowed.empty()) throw "no token fits after: " + text;
        const bool close = !closing.empty() && random() % 100 < (step < 10 ? 5u : step < 40 ? 30u : 90u);
        const std::vector<uint32_t>& from = close                           ? closing
                                            : step > 100 && !single.empty() ? single
                                                                            : allowed;
        const uint32_t id = from[random() % from.size()];
        if (!matcher.accept(id)) throw "an allowed token is refused after: " + text;
        if (tokens.is_end(id)) return text;
        text += tokens.token(id);
    }
    throw "no end after 2000 tokens: " + text.substr(0, 300);
}

}  // namespace

TEST_CASE("schemas derive what is valid and refuse what isn't") {
    for (const Json& entry : entries()) {
        INFO(entry["schema"].dump());
        for (const auto spacing : {JsonSpacing::spaced, JsonSpacing::free}) {
            const auto grammar = json_schema_grammar(entry["schema"].dump(), {spacing, false});
            for (const Json& text : entry["derive"]) {
                INFO("derive " << text);
                CHECK(grammar->derives(text.get<std::string>()));
            }
            for (const Json& text : entry["refuse"]) {
                INFO("refuse " << text);
                CHECK_FALSE(grammar->derives(text.get<std::string>()));
            }
        }
    }
}

TEST_CASE("random answers under the mask parse and are valid") {
    const auto tokens = grammar_test::vocabulary(3000);
    const char* path = std::getenv("COTERIE_SAMPLES");
    std::ofstream samples;
    if (path != nullptr) samples.open(path);
    std::mt19937 random(7);
    int different = 0;
    const Json all = entries();
    for (size_t i = 0; i < all.size(); ++i) {
        const Json& schema = all[i]["schema"];
        INFO(schema.dump());
        const auto spacing = i % 3 == 0   ? JsonSpacing::compact
                             : i % 3 == 1 ? JsonSpacing::spaced
                                          : JsonSpacing::free;
        GrammarMatcher matcher(json_schema_grammar(schema.dump(), {spacing, false}), tokens);
        const grammar_test::Validator validator(schema);
        std::set<std::string> seen;
        for (int round = 0; round < 6; ++round) {
            matcher.restart();
            const std::string text = sample(matcher, random);
            INFO(text);
            const Json value = Json::parse(text, nullptr, false);
            REQUIRE_FALSE(value.is_discarded());
            REQUIRE(validator.complaint(value) == "");
            seen.insert(text);
            if (path != nullptr) samples << Json{{"schema", i}, {"text", text}}.dump() << "\n";
        }
        different += static_cast<int>(seen.size());
    }
    CHECK(different > 600);
}

TEST_CASE("what a schema asks for in vain is a failure that names the place") {
    const auto reason = [](const char* schema, bool lenient = false) -> std::string {
        try {
            json_schema_grammar(schema, {JsonSpacing::compact, lenient});
        } catch (const Failure& failure) {
            return failure.message();
        }
        return "accepted";
    };
    using Catch::Matchers::Contains;
    CHECK_THAT(reason(R"({"type":"object","properties":{"a":{"type":"array","uniqueItems":true}}})"),
               Contains("/properties/a/uniqueItems"));
    CHECK(reason(R"({"type":"object","properties":{"a":{"type":"array","uniqueItems":true}}})", true) ==
          "accepted");
    CHECK_THAT(reason(R"({"anyOf":[{"type":"string"},{"not":{"type":"null"}}]})"), Contains("/anyOf/1/not"));
    CHECK_THAT(reason(R"({"type":"string","format":"colour"})"), Contains("/format"));
    CHECK(reason(R"({"type":"string","format":"colour"})", true) == "accepted");
    CHECK_THAT(reason(R"({"type":"string","pattern":"(?=a)b"})"), Contains("look-ahead"));
    CHECK(reason(R"({"type":"string","pattern":"(?=a)b"})", true) == "accepted");
    CHECK_THAT(reason(R"({"type":"string","pattern":"^a*b$","maxLength":3})"), Contains("length"));
    CHECK_THAT(reason(R"({"$ref":"#/$defs/none"})"), Contains("isn't there"));
    CHECK_THAT(reason(R"({"$ref":"http://x/y"})"), Contains("only references inside"));
    CHECK_THAT(reason(R"({"$ref":"#"})"), Contains("nothing can satisfy"));
    CHECK_THAT(reason(R"({"allOf":[{"$ref":"#"}]})"), Contains("without end"));
    CHECK_THAT(reason(R"({"type":"strange"})"), Contains("strange"));
    CHECK_THAT(reason(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})"),
               Contains("nothing can satisfy"));
    CHECK_THAT(reason(R"({"type":"integer","minimum":5,"maximum":4})"), Contains("nothing can satisfy"));
    CHECK_THAT(reason(R"({"type":"string","minLength":-1})"), Contains("/minLength"));
    CHECK_THAT(reason("{"), Contains("not valid JSON"));
    CHECK_THAT(reason("[]"), Contains("neither an object"));
    CHECK_THAT(reason((std::string(5000, '[') + std::string(5000, ']')).c_str()), Contains("deep"));
    std::string nested = "{}";
    for (int i = 0; i < 200; ++i) nested = R"({"type":"array","items":)" + nested + "}";
    CHECK_THAT(reason(nested.c_str()), Contains("nested more than"));
    // A branch that can't be met leaves the others.
    CHECK(json_schema_grammar(R"({"anyOf":[false,{"type":"integer","minimum":5,"maximum":4},{"const":1}]})")
              ->derives("1"));
}

TEST_CASE("a grammar can wait for a tag") {
    const auto grammar = json_schema_grammar_after("</think>", R"({"const":1})");
    CHECK(grammar->derives("</think>1"));
    CHECK(grammar->derives("Hm. <\xFF</thi </think>\n\n1"));
    CHECK_FALSE(grammar->derives("1"));
    CHECK_FALSE(grammar->derives("</think>2"));
    CHECK_FALSE(grammar->derives("</think></think>1"));
}
