// 220 schemas (tests/data/grammar/schemas.json, made by make_schemas.py and judged by Python's jsonschema):
// texts they must derive or refuse, and answers drawn at random under the mask, which must parse and be
// valid. With the environment variable COTERIE_SAMPLES set to a file, the answers are written there for
// check_samples.py.
#include <cstdlib>
#include <fstream>

#include "base/failure.h"
#include "catch.h"
#include "grammar/sample.h"
#include "grammar/validator.h"
#include "grammar/vocabulary.h"
#include "text/json_schema.h"

using namespace coterie;
using namespace coterie::text;
using grammar_test::Json;
using grammar_test::sample;

namespace {

Json entries() {
    std::ifstream file(TEST_DATA "/grammar/schemas.json");
    return Json::parse(file);
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
    CHECK(grammar->derives("Hm. <\xFE</thi </think>\n\n1"));
    CHECK_FALSE(grammar->derives("1"));
    CHECK_FALSE(grammar->derives("</think>2"));
    CHECK_FALSE(grammar->derives("</think></think>1"));
}
