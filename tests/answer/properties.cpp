// Answers made at random: rendered from known parts, and sheer rubble of markup. Whatever the cut, the
// meaning is the same; what was put in comes out; rubble loses no letter that isn't markup.
#include <nlohmann/json.hpp>

#include "answer/answer.h"
#include "catch.h"

using namespace answer_test;

namespace {

const std::vector<std::string> words = {
    "so",        "the <b>",   "tag", "`code`", "é",     "🦊",  "{\"a\":1}", "<",     "</",
    "<|",        "x < y",     "[1]", "<tool",  "漢",    "\"q\"", "think>",    "a\\b",  "tool_call",
    "e\xCC\x81", "``` fence", "I'm", "<<<",    "&amp;", "]]>",   "=",         "<think"};

std::string prose(std::mt19937& random, int most) {
    std::string text;
    const int count = 1 + static_cast<int>(random() % static_cast<unsigned>(most));
    for (int i = 0; i < count; ++i) {
        if (i > 0) text += random() % 5 == 0 ? "\n" : " ";
        text += words[random() % words.size()];
    }
    return text;
}

size_t occurrences(const std::string& text, const std::string& word) {
    size_t count = 0;
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) ++count;
    return count;
}

nlohmann::ordered_json random_arguments(std::mt19937& random) {
    nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
    const int count = static_cast<int>(random() % 4);
    for (int i = 0; i < count; ++i) {
        nlohmann::ordered_json value;
        switch (random() % 5) {
            case 0:
                value = prose(random, 6);
                break;
            case 1:
                value = static_cast<int>(random() % 1000) - 500;
                break;
            case 2:
                value = {1, "two", nullptr, {{"three", true}}};
                break;
            case 3:
                value = random() % 2 == 0;
                break;
            default:
                value = prose(random, 2) + "</tool_call>\n\"" + prose(random, 2);
        }
        arguments[std::string(1, static_cast<char>('a' + i))] = value;
    }
    return arguments;
}

std::string rendered(const std::string& family, const std::string& name,
                     const nlohmann::ordered_json& arguments) {
    if (family == "hermes")
        return "<tool_call>\n" + nlohmann::ordered_json{{"name", name}, {"arguments", arguments}}.dump() +
               "\n</tool_call>";
    if (family == "deepseek")
        return "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>" + name + "<｜tool▁sep｜>" + arguments.dump() +
               "<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    if (family == "mistral") return "[TOOL_CALLS]" + name + "[ARGS]" + arguments.dump(2);
    std::string text =
        family == "glm" ? "<tool_call>" + name + "\n" : "<tool_call>\n<function=" + name + ">\n";
    for (const auto& [key, value] : arguments.items()) {
        const std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
        if (family == "glm")
            text += "<arg_key>" + key + "</arg_key>\n<arg_value>" + shown + "</arg_value>\n";
        else
            text += "<parameter=" + key + ">\n" + shown + "\n</parameter>\n";
    }
    return text + (family == "glm" ? "</tool_call>" : "</function>\n</tool_call>");
}

}  // namespace

TEST_CASE("what is rendered comes back, at any cut") {
    std::mt19937 random(2);
    for (const std::string family : {"hermes", "deepseek", "mistral", "qwen3-coder", "glm"}) {
        const AnswerFormat format = answer_format(family);
        for (int round = 0; round < 150; ++round) {
            Answer expected;
            std::string raw;
            const bool prompt_opened = random() % 3 == 0;
            if (prompt_opened || random() % 3 == 0) {
                expected.reasoning = prose(random, 8);
                raw = (prompt_opened ? "" : format.think_open + "\n") + expected.reasoning + "\n" +
                      format.think_close + "\n\n";
            }
            if (random() % 2 == 0) {
                expected.content = prose(random, 8);
                raw += expected.content;
            }
            nlohmann::json tools = nlohmann::json::array();
            std::vector<nlohmann::ordered_json> given;
            for (unsigned i = random() % 3; i > 0; --i) {
                const std::string name = "tool_" + std::to_string(given.size());
                const auto arguments = random_arguments(random);
                nlohmann::json properties = nlohmann::json::object();
                for (const auto& [key, value] : arguments.items())
                    properties[key] = {{"type", value.is_string()   ? "string"
                                                : value.is_number() ? "integer"
                                                : value.is_array()  ? "array"
                                                                    : "boolean"}};
                tools.push_back({{"name", name}, {"parameters", {{"properties", properties}}}});
                raw += "\n\n" + rendered(family, name, arguments);
                expected.calls.push_back({name, arguments.dump(), true});
                given.push_back(arguments);
            }
            AnswerOptions options;
            options.thinking_open = prompt_opened;
            options.tools = true;
            options.tools_json = tools.dump();
            INFO(family << "\n" << raw);
            const Answer answer = parse(format, options, cut_at_random(raw, random, 0.3));
            REQUIRE(answer.reasoning == expected.reasoning);
            REQUIRE(answer.content == expected.content);
            REQUIRE(answer.calls.size() == expected.calls.size());
            for (size_t i = 0; i < given.size(); ++i) {
                REQUIRE(answer.calls[i].name == expected.calls[i].name);
                REQUIRE(nlohmann::ordered_json::parse(answer.calls[i].arguments) == given[i]);
            }
            REQUIRE(parse(format, options, bytes_of(raw)) == answer);
        }
    }
}

TEST_CASE("rubble of markup is read alike at any cut, and every call it yields has JSON arguments") {
    std::mt19937 random(3);
    const std::vector<std::string> rubble = {"<think>",
                                             "</think>",
                                             "<tool_call>",
                                             "</tool_call>",
                                             "<function=f>",
                                             "</function>",
                                             "<parameter=p>",
                                             "</parameter>",
                                             "\n",
                                             " ",
                                             "{\"name\": \"f\", \"arguments\": ",
                                             "{\"a\": [1, ",
                                             "\"x",
                                             "\"",
                                             "}",
                                             "]",
                                             ",",
                                             "null",
                                             "\\u12",
                                             "\xF0\x9F",
                                             "\xA6\x8A",
                                             "`",
                                             "```",
                                             "[TOOL_CALLS]",
                                             "[ARGS]",
                                             "<｜tool▁calls▁begin｜>",
                                             "<｜tool▁call▁begin｜>",
                                             "<｜tool▁sep｜>",
                                             "<|channel|>",
                                             "<|message|>",
                                             "<|start|>",
                                             "<|end|>",
                                             "analysis",
                                             "final",
                                             " to=functions.f",
                                             "<arg_key>",
                                             "</arg_key>",
                                             "<arg_value>",
                                             "</arg_value>",
                                             "f",
                                             "(a=1)",
                                             "[f",
                                             "words",
                                             "<|python_tag|>",
                                             "<|tool_call_start|>",
                                             "<|tool_call_end|>",
                                             "{",
                                             "[",
                                             ":",
                                             "<"};
    for (const std::string& family : answer_families()) {
        const AnswerFormat format = answer_format(family);
        for (int round = 0; round < 1000; ++round) {
            std::string raw;
            for (unsigned i = 1 + random() % 24; i > 0; --i) raw += rubble[random() % rubble.size()];
            AnswerOptions options;
            options.thinking_open = random() % 4 == 0;
            options.tools = random() % 4 != 0;
            options.whole_calls = random() % 4 == 0;
            if (random() % 2 == 0) options.tools_json = R"([{"name": "f"}])";
            INFO(family << " tools=" << options.tools << " whole=" << options.whole_calls << "\n" << raw);
            const Answer whole = parse(format, options, {raw});
            REQUIRE(parse(format, options, bytes_of(raw)) == whole);
            REQUIRE(parse(format, options, cut_at_random(raw, random, 0.3)) == whole);
            for (const Call& call : whole.calls) {
                INFO(call.arguments);
                REQUIRE(nlohmann::json::parse(call.arguments, nullptr, false).is_object());
            }
            if (family == "plain" && !options.tools) REQUIRE(whole.content == raw);
            // A header of harmony is markup, its words included.
            if (!format.harmony) {
                std::string out = whole.reasoning + whole.content;
                for (const Call& call : whole.calls) out += call.name + call.arguments;
                INFO(out);
                REQUIRE(occurrences(out, "words") == occurrences(raw, "words"));
            }
        }
    }
}

TEST_CASE("a megabyte of openings that lead nowhere is read in one go, and none of it is lost") {
    const std::pair<const char*, const char*> cases[] = {
        {"hermes", "<tool_call>"},
        {"hermes", "<tool_call>{\"arguments\":{\"a\":\""},
        {"hermes", "<think>`"},
        {"lfm2", "<|tool_call_start|>[f(a='"},
        {"gemma4", "<|tool_call>call:f{a:"},
        {"llama", "[f("},
        {"deepseek", "<｜tool▁calls▁begin｜>"},
        {"mistral", "[TOOL_CALLS]f[ARGS]"},
    };
    for (const auto& [family, unit] : cases) {
        INFO(family << " " << unit);
        std::string raw = "x";
        while (raw.size() < (1 << 20)) raw += unit;
        AnswerOptions options;
        options.tools = true;
        options.tools_json = R"([{"name": "f"}])";
        const Answer answer = parse(answer_format(family), options, {raw});
        CHECK(answer.content.size() == raw.size());
        CHECK(answer.calls.empty());
    }
}
