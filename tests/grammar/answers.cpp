// Calls and contents drawn at random under a family's grammar, read back by the same family's parser:
// complete calls of known tools with valid arguments, nothing else. Control tokens stand for markup and for
// nothing else.
#include "answer/answer.h"
#include "base/failure.h"
#include "catch.h"
#include "grammar/sample.h"
#include "grammar/validator.h"
#include "grammar/vocabulary.h"
#include "text/answer_grammar.h"

using namespace coterie;
using namespace coterie::text;
using grammar_test::Json;

namespace {

const char* const tools = R"([
 {"type":"function","function":{"name":"get_weather","strict":true,"parameters":{"type":"object","properties":{
   "city":{"type":"string"},"days":{"type":"integer","minimum":1,"maximum":14},"units":{"enum":["celsius","fahrenheit"]},
   "precise":{"type":"boolean"},"places":{"type":"array","items":{"type":"string","maxLength":5},"maxItems":2}},
   "required":["city","units"],"additionalProperties":false}}},
 {"type":"function","function":{"name":"tree","parameters":{"type":"object","properties":{"node":{"$ref":"#/$defs/node"}},
   "required":["node"],"$defs":{"node":{"type":"object","properties":{"value":{"type":"number"},
   "next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["value","next"],"additionalProperties":false}}}}},
 {"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{}}}}])";

// The test vocabulary with every family's markup as control tokens.
std::shared_ptr<const TokenTrie> with_control_tokens() {
    const auto base = grammar_test::vocabulary(1200);
    std::vector<std::string> tokens;
    for (uint32_t id = 0; id < base->size(); ++id) tokens.emplace_back(base->token(id));
    tokens.insert(tokens.end(), {"</think>", "[/THINK]", "</seed:think>", "\n</parameter>\n",
                                 "</parameter>\n", "</arg_value>\n", "</｜DSML｜parameter>\n"});
    std::vector<bool> control(tokens.size(), false);
    std::set<std::string> tags = {"<|channel|>", "<|message|>",  "<|start|>", "<|constrain|>",
                                  "<|end|>",     "<|im_start|>", "<|\"|>"};
    for (const std::string& family : answer_families()) {
        const AnswerFormat format = answer_format(family);
        for (const std::string* tag :
             {&format.think_open, &format.think_close, &format.calls_open, &format.calls_close,
              &format.call_open, &format.call_close, &format.separator})
            if (!tag->empty() && tag->find('|') != std::string::npos) tags.insert(*tag);
    }
    for (const std::string& tag : tags) {
        tokens.push_back(tag);
        control.push_back(true);
    }
    return std::make_shared<const TokenTrie>(tokens, base->end_tokens(), control);
}

const Json& parameters(const std::string& name) {
    static const Json list = Json::parse(tools);
    for (const Json& tool : list)
        if (tool["function"]["name"] == name) return tool["function"]["parameters"];
    throw "no tool is called " + name;
}

}  // namespace

TEST_CASE("calls drawn under a family's grammar are read back as calls with valid arguments") {
    const auto tokens = with_control_tokens();
    std::mt19937 random(4);
    for (const std::string& family : answer_families()) {
        AnswerFormat format = answer_format(family);
        for (int round = 0; round < 24; ++round) {
            if (family == "mistral") format.list = round % 2 == 0;
            if (family == "deepseek") format.fenced = round % 2 == 0;
            AnswerOptions reading;
            reading.tools = true;
            reading.tools_json = tools;
            AnswerGrammarOptions options;
            options.thinking = static_cast<ThinkingStart>(round % 3);
            if (format.think_close.empty() && !format.harmony) options.thinking = ThinkingStart::none;
            if (format.harmony && options.thinking == ThinkingStart::open)
                options.thinking = ThinkingStart::by_model;
            reading.thinking_open = options.thinking == ThinkingStart::open;
            ToolChoice choice;
            if (round % 4 == 3) choice = {ToolChoice::Kind::named, "tree", false};
            GrammarMatcher matcher(tool_call_grammar(format, tools, choice, options), tokens);
            const std::string raw = grammar_test::sample(matcher, random);
            INFO(family << "\n" << raw);
            const auto answer = answer_test::parse(format, reading, answer_test::bytes_of(raw));
            REQUIRE(answer.content == "");
            REQUIRE(!answer.calls.empty());
            if (options.thinking == ThinkingStart::none) REQUIRE(answer.reasoning == "");
            if (choice.kind == ToolChoice::Kind::named)
                REQUIRE((answer.calls.size() == 1 && answer.calls[0].name == "tree"));
            for (const auto& call : answer.calls) {
                REQUIRE(call.complete);
                INFO(call.name << " " << call.arguments);
                // Gemma's own notation of nested values is followed in form only.
                if (family == "gemma4" &&
                    (call.name == "tree" || call.arguments.find('[') != std::string::npos))
                    continue;
                REQUIRE(
                    grammar_test::Validator(parameters(call.name)).complaint(Json::parse(call.arguments)) ==
                    "");
            }
        }
    }
}

TEST_CASE("automatic calls: free text, and right calls if any") {
    const auto tokens = with_control_tokens();
    const auto end = tokens->end_tokens().front();
    AnswerGrammarOptions options;
    const ToolChoice choice = {ToolChoice::Kind::automatic, "", true};
    GrammarMatcher matcher(tool_call_grammar(answer_format("hermes"), tools, choice, options), tokens);
    CHECK(matcher.accept_text("Hello <tool"));
    CHECK(matcher.can_finish());
    CHECK(matcher.accept_text("_box> <tool_call>\n{\"name\": \""));
    CHECK_FALSE(matcher.can_finish());
    CHECK_FALSE(matcher.clone().accept_text("other"));
    CHECK(matcher.accept_text("now\", \"arguments\": {}}\n</tool_call>"));
    CHECK(matcher.accept_text(" done"));
    CHECK(matcher.accept(end));
    for (const char* family : {"llama", "harmony"})
        CHECK_THROWS_AS(tool_call_grammar(answer_format(family), tools, choice), Failure);
}

TEST_CASE("content follows its schema after the family's thinking") {
    const auto tokens = with_control_tokens();
    const char* schema =
        R"({"type":"object","properties":{"a":{"type":"string","minLength":1}},"required":["a"],"additionalProperties":false})";
    std::mt19937 random(5);
    for (const char* family : {"plain", "hermes", "cohere", "harmony", "mistral"}) {
        const AnswerFormat format = answer_format(family);
        for (int round = 0; round < 10; ++round) {
            AnswerGrammarOptions options;
            options.thinking = round % 2 == 0 ? ThinkingStart::by_model : ThinkingStart::none;
            GrammarMatcher matcher(content_grammar(format, schema, options), tokens);
            const std::string raw = grammar_test::sample(matcher, random);
            INFO(family << "\n" << raw);
            const auto answer = answer_test::parse(format, {}, answer_test::bytes_of(raw));
            REQUIRE(grammar_test::Validator(Json::parse(schema)).complaint(Json::parse(answer.content)) ==
                    "");
        }
    }
    CHECK(content_grammar(answer_format("plain"), "")->derives("{\"a\": [1]}"));
    CHECK_FALSE(content_grammar(answer_format("plain"), "")->derives("[1]"));
}

TEST_CASE("the prompt tells where thinking stands") {
    const AnswerFormat hermes = answer_format("hermes");
    CHECK(thinking_start(hermes, "<|im_start|>assistant\n<think>\n") == ThinkingStart::open);
    CHECK(thinking_start(hermes, "<|im_start|>assistant\n<think>\n\n</think>\n\n") == ThinkingStart::none);
    CHECK(thinking_start(hermes, "<|im_start|>assistant\n") == ThinkingStart::by_model);
    CHECK(thinking_start(answer_format("plain"), "<think>") == ThinkingStart::none);
    CHECK(thinking_start(answer_format("harmony"), "<|start|>assistant") == ThinkingStart::by_model);
}

TEST_CASE("a control token is markup and no text") {
    const TokenTrie trie({"<|x|>", "a", "\"", "\xFF", "<|x|>"}, {}, {true, false, false, false, false});
    const auto tokens = std::make_shared<const TokenTrie>(trie);
    GrammarMatcher text(json_schema_grammar(R"({"type":"string"})"), tokens);
    CHECK(text.accept(2));
    CHECK_FALSE(text.accept(0));
    CHECK_FALSE(text.accept(3));
    CHECK(text.accept(4));
    AnswerFormat format = answer_format("hermes");
    format.think_open = format.think_close = "<|x|>";
    GrammarMatcher thinking(content_grammar(format, R"({"const":"a"})", {ThinkingStart::open, {}}), tokens);
    CHECK(thinking.accept(1));
    CHECK_FALSE(thinking.clone().accept(3));
    CHECK(thinking.accept(0));
    CHECK_FALSE(thinking.clone().accept(0));
    CHECK(thinking.accept_text("\"a\""));
    CHECK(thinking.finished());
}

TEST_CASE("tool choices that can't be met are refused") {
    CHECK_THROWS_AS(tool_call_grammar(answer_format("hermes"), "[]", {}), Failure);
    CHECK_THROWS_AS(tool_call_grammar(answer_format("hermes"), "{", {}), Failure);
    CHECK_THROWS_AS(
        tool_call_grammar(answer_format("hermes"), tools, {ToolChoice::Kind::named, "other", true}), Failure);
    CHECK_THROWS_AS(tool_call_grammar(answer_format("hermes"), R"([{"name":"a b"}])", {}), Failure);
    const char* odd =
        R"([{"name":"f","strict":true,"parameters":{"type":"object","properties":{"a":{"type":"array","uniqueItems":true}}}}])";
    CHECK_THROWS_AS(tool_call_grammar(answer_format("hermes"), odd, {}), Failure);
    std::string lenient = odd;
    lenient.replace(lenient.find("true"), 4, "false");
    CHECK_NOTHROW(tool_call_grammar(answer_format("hermes"), lenient, {}));
}
