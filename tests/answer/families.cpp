// Written answers of every family and what they mean, each cut at every byte and at random.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "answer/answer.h"
#include "catch.h"

using namespace answer_test;

namespace {

const char* const tools = R"([
 {"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{
   "city":{"type":"string"},"days":{"type":"integer"},"units":{"enum":["c","f"]},"precise":{"type":"boolean"},
   "where":{"type":"object"},"list":{"type":"array"},"either":{"anyOf":[{"type":"integer"},{"type":"string"}]},
   "maybe":{"type":["string","null"]},"ratio":{"type":"number"},"ref":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}}},
 {"type":"function","function":{"name":"write_file","parameters":{"type":"object","properties":{"text":{"type":"string"}}}}},
 {"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{}}}}])";

struct Example {
    const char* family;
    const char* note;
    bool thinking_open;
    std::string raw;
    Answer expected;
};

const std::vector<Example> examples = {
    {"plain", "text", false, "Hello, wörld 🦊\n", {"", "Hello, wörld 🦊\n", {}}},
    {"plain", "tags mean nothing", false, "<think>a</think>b", {"", "<think>a</think>b", {}}},
    {"plain",
     "a call as it was explained in words",
     false,
     "So:\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n",
     {"", "So:", {{"now", "{}"}}}},
    {"lfm2",
     "a call as it was explained in words",
     false,
     "<tool_call>{\"name\": \"now\"}</tool_call>",
     {"", "", {{"now", "{}"}}}},
    {"deepseek",
     "likewise, and prose about it",
     false,
     "<tool_call> is a tag <tool_call>{\"name\": \"now\"}</tool_call>",
     {"", "<tool_call> is a tag", {{"now", "{}"}}}},
    {"phi4",
     "call",
     false,
     R"(<|tool_call|>[{"name": "now", "arguments": {}}]<|/tool_call|>)",
     {"", "", {{"now", "{}"}}}},
    {"thinking",
     "thinking and a call",
     false,
     "<think>a</think>b<tool_call>{\"name\": \"now\"}</tool_call>",
     {"a", "b", {{"now", "{}"}}}},
    {"plain", "empty", false, "", {}},
    {"plain", "white space alone", false, " \n", {"", " \n", {}}},

    {"hermes", "no thinking", false, "Hi there.", {"", "Hi there.", {}}},
    {"hermes",
     "model opens",
     false,
     "<think>\nLet me see.\n</think>\n\nIt is 4.",
     {"Let me see.", "It is 4.", {}}},
    {"hermes", "prompt opened", true, "Let me see.\n</think>\n\nIt is 4.", {"Let me see.", "It is 4.", {}}},
    {"hermes", "opened twice", true, "<think>\nHm.</think>Yes", {"Hm.", "Yes", {}}},
    {"hermes", "never closed", true, "Still thinking about <b", {"Still thinking about <b", "", {}}},
    {"hermes", "cut inside the closing tag", true, "Hm.</thin", {"Hm.</thin", "", {}}},
    {"hermes", "empty thinking", false, "<think>\n\n</think>\n\nYes.", {"", "Yes.", {}}},
    {"hermes", "stray closing tag first", false, "</think>\n\nYes.", {"", "Yes.", {}}},
    {"hermes", "thinking after white space", false, "\n <think>a</think> b", {"a", "b", {}}},
    {"hermes", "opening tag in prose", false, "The <think> tag opens.", {"", "The <think> tag opens.", {}}},
    {"hermes",
     "closing tag in backticks",
     true,
     "I must write `</think>` here.\n</think>ok",
     {"I must write `</think>` here.", "ok", {}}},
    {"hermes",
     "both tags in a code span",
     true,
     "Tags `<think>x</think>` matter</think>ok",
     {"Tags `<think>x</think>` matter", "ok", {}}},
    {"hermes", "a code span right before the end", true, "Answer `4`</think>4", {"Answer `4`", "4", {}}},
    {"hermes", "a stray backtick doesn't hide the end", true, "it`s done</think>4", {"it`s done", "4", {}}},

    {"hermes",
     "one call",
     false,
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Zürich\", \"days\": "
     "3}}\n</tool_call>",
     {"", "", {{"get_weather", R"({"city": "Zürich", "days": 3})"}}}},
    {"hermes",
     "text, two calls, text",
     false,
     "Looking.\n\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": "
     "\"now\"}\n"
     "</tool_call>\nDone.",
     {"", "Looking.\n\nDone.", {{"now", "{}"}, {"now", "{}"}}}},
    {"hermes",
     "arguments first",
     false,
     R"(<tool_call>{"arguments": {"city": "Bern"}, "name": "get_weather"}</tool_call>)",
     {"", "", {{"get_weather", R"({"city": "Bern"})"}}}},
    {"hermes",
     "arguments as a string",
     false,
     R"(<tool_call>{"name": "get_weather", "arguments": "{\"city\": \"Bern\"}"}</tool_call>)",
     {"", "", {{"get_weather", R"({"city": "Bern"})"}}}},
    {"hermes",
     "null arguments and more keys",
     false,
     R"(<tool_call>{"type": "function", "id": 3, "name": "now", "arguments": null}</tool_call>)",
     {"", "", {{"now", "{}"}}}},
    {"hermes",
     "OpenAI's nesting",
     false,
     R"(<tool_call>{"type":"function","function":{"name":"now","arguments":{"a":[1,{"b":null}]}}}</tool_call>)",
     {"", "", {{"now", R"({"a":[1,{"b":null}]})"}}}},
    {"hermes",
     "a list in one tag",
     false,
     R"(<tool_call>[{"name":"now"},{"name":"get_weather","arguments":{}}]</tool_call>)",
     {"", "", {{"now", "{}"}, {"get_weather", "{}"}}}},
    {"hermes",
     "closing brace forgotten",
     false,
     "<tool_call>\n{\"name\": \"now\", \"arguments\": {}\n</tool_call>",
     {"", "", {{"now", "{}"}}}},
    {"hermes",
     "closing tag forgotten",
     false,
     "<tool_call>{\"name\": \"now\", \"arguments\": {}}",
     {"", "", {{"now", "{}"}}}},
    {"hermes",
     "small sins",
     false,
     "<tool_call>{\"name\": \"write_file\", \"arguments\": {\"text\": \"a\nb\\d \\' \\ud800 "
     "\\ud83d\\ude00\", \"x\": True,}}</tool_call>",
     {"", "", {{"write_file", "{\"text\": \"a\\nb\\\\d ' \xEF\xBF\xBD \\ud83d\\ude00\", \"x\": true}"}}}},
    {"hermes",
     "tags inside a string argument",
     false,
     R"(<tool_call>{"name":"write_file","arguments":{"text":"</tool_call><think>"}}</tool_call>ok)",
     {"", "ok", {{"write_file", R"({"text":"</tool_call><think>"})"}}}},
    {"hermes",
     "XML all the same",
     false,
     "<tool_call>\n<function=write_file>\n<parameter=text>\na\n</parameter>\n</function>\n</tool_call>",
     {"", "", {{"write_file", R"({"text":"a"})"}}}},
    {"hermes",
     "after thinking",
     true,
     "Hm.\n</think>\n\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
     {"Hm.", "", {{"now", "{}"}}}},
    {"hermes",
     "inside thinking, at a line's start",
     true,
     "I need it.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
     {"I need it.", "", {{"now", "{}"}}}},
    {"hermes",
     "inside thinking, which then goes on",
     true,
     "One.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\nTwo.</think>Three.",
     {"One.\nTwo.", "Three.", {{"now", "{}"}}}},
    {"hermes",
     "thinking mentions a call",
     true,
     "I could use <tool_call>{\"name\": \"now\"}</tool_call> here.</think>No.",
     {"I could use <tool_call>{\"name\": \"now\"}</tool_call> here.", "No.", {}}},
    {"hermes",
     "prose mentions the tag",
     false,
     "Write <tool_call> and then JSON.",
     {"", "Write <tool_call> and then JSON.", {}}},
    {"hermes",
     "prose in backticks",
     false,
     "Use `<tool_call>{\"name\": \"now\"}</tool_call>` so.",
     {"", "Use `<tool_call>{\"name\": \"now\"}</tool_call>` so.", {}}},
    {"hermes", "tag at the end", false, "See <tool_call>", {"", "See <tool_call>", {}}},
    {"hermes",
     "no JSON",
     false,
     "<tool_call>\nnot json\n</tool_call>",
     {"", "<tool_call>\nnot json\n</tool_call>", {}}},
    {"hermes",
     "no name",
     false,
     R"(<tool_call>{"arguments": {"a": 1}}</tool_call>)",
     {"", R"(<tool_call>{"arguments": {"a": 1}}</tool_call>)", {}}},
    {"hermes",
     "a tag before the call",
     false,
     R"(<tool_call><tool_call>{"name": "now"}</tool_call>)",
     {"", "<tool_call>", {{"now", "{}"}}}},
    {"hermes",
     "cut inside arguments",
     false,
     R"(<tool_call>{"name": "now", "arguments": {"a": [1, "x\u00)",
     {"", "", {{"now", R"({"a": [1, "x"]})", false}}}},
    {"hermes",
     "broken inside arguments",
     false,
     R"(<tool_call>{"name": "now", "arguments": {"a": ?}}</tool_call> so)",
     {"", "?}} so", {{"now", R"({"a": null})", false}}}},

    {"qwen3-coder",
     "typed values",
     false,
     "I "
     "look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nBern\n</"
     "parameter>\n<parameter=days>\n3\n</parameter>\n"
     "<parameter=precise>\nTrue\n</parameter>\n<parameter=where>\n{\"a\": "
     "[1]}\n</parameter>\n<parameter=either>\n7\n</parameter>\n"
     "<parameter=maybe>\nnull\n</parameter>\n<parameter=ratio>\n1.5\n</parameter>\n<parameter=ref>\n12\n</"
     "parameter>\n"
     "<parameter=units>\nc\n</parameter>\n<parameter=list>\n[1, "
     "2]\n</parameter>\n<parameter=unknown>\nyes\n</parameter>\n"
     "</function>\n</tool_call>",
     {"",
      "I look.",
      {{"get_weather",
        R"({"city":"Bern","days":3,"precise":true,"where":{"a": [1]},"either":7,"maybe":null,"ratio":1.5,"ref":12,"units":"c","list":[1, 2],"unknown":"yes"})"}}}},
    {"qwen3-coder",
     "text of several lines, with quotes and tags",
     false,
     "<tool_call>\n<function=write_file>\n<parameter=text>\n\n  a \"b\"\\\n</parameter> "
     "<x>\n</function>\n\n</parameter>\n</function>\n</tool_call>",
     {"", "", {{"write_file", R"({"text":"\n  a \"b\"\\\n</parameter> <x>\n</function>\n"})"}}}},
    {"qwen3-coder",
     "no parameters, two functions",
     false,
     "<tool_call>\n<function=now>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</"
     "tool_call>",
     {"", "", {{"now", "{}"}, {"now", "{}"}}}},
    {"qwen3-coder",
     "opening tag forgotten",
     false,
     "Yes.\n<function=now>\n</function>\n</tool_call>",
     {"", "Yes.", {{"now", "{}"}}}},
    {"qwen3-coder",
     "closing tag of a value forgotten",
     false,
     "<tool_call>\n<function=write_file>\n<parameter=text>\nabc\n</function>\n</tool_call>",
     {"", "", {{"write_file", R"({"text":"abc"})"}}}},
    {"qwen3-coder",
     "wrong type",
     false,
     "<tool_call>\n<function=get_weather>\n<parameter=days>\nmany "
     "\"x\"\n</parameter>\n</function>\n</tool_call>",
     {"", "", {{"get_weather", R"({"days":"many \"x\""})"}}}},
    {"qwen3-coder",
     "cut inside a value",
     false,
     "<tool_call>\n<function=write_file>\n<parameter=text>\nabc\n</para",
     {"", "", {{"write_file", R"({"text":"abc\n</para"})", false}}}},
    {"qwen3-coder",
     "JSON all the same",
     false,
     "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
     {"", "", {{"now", "{}"}}}},
    {"qwen3-coder",
     "in thinking",
     true,
     "Hm.\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
     {"Hm.", "", {{"now", "{}"}}}},
    {"qwen3-coder",
     "prose",
     false,
     "A <function=x> tag and <tool_call> too.",
     {"", "A <function=x> tag and <tool_call> too.", {}}},

    {"glm",
     "call",
     false,
     "<think>Hm.</think>\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Bern</"
     "arg_value>\n<arg_key>days</arg_key>\n"
     "<arg_value>3</arg_value>\n</tool_call>",
     {"Hm.", "", {{"get_weather", R"({"city":"Bern","days":3})"}}}},
    {"glm",
     "no arguments, twice",
     false,
     "<tool_call>now\n</tool_call>\n<tool_call>now</tool_call>",
     {"", "", {{"now", "{}"}, {"now", "{}"}}}},
    {"glm",
     "newlines belong to the value",
     false,
     "<tool_call>write_file\n<arg_key>text</arg_key>\n<arg_value>\na\n</arg_value>\n</tool_call>",
     {"", "", {{"write_file", R"({"text":"\na\n"})"}}}},
    {"glm", "prose", false, "The <tool_call> tag is a tag.", {"", "The <tool_call> tag is a tag.", {}}},

    {"seed",
     "thinking and call",
     false,
     "<seed:think>a</seed:think>b\n<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>",
     {"a", "b", {{"now", "{}"}}}},
    {"minimax",
     "two calls in one tag",
     false,
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
     "name=\"city\">Bern</parameter>\n</invoke>\n<invoke name=\"now\">\n"
     "</invoke>\n</minimax:tool_call>",
     {"", "", {{"get_weather", R"({"city":"Bern"})"}, {"now", "{}"}}}},
    {"deepseek-dsml",
     "attributes tell strings",
     false,
     "a\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"x\" "
     "string=\"true\">1</｜DSML｜parameter>\n"
     "<｜DSML｜parameter name=\"y\" "
     "string=\"false\">[1]</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     {"", "a", {{"f", R"({"x":"1","y":[1]})"}}}},

    {"deepseek",
     "V3.1",
     false,
     "Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\":\"Bern\"}<"
     "｜tool▁call▁end｜><｜tool▁call▁begin｜>"
     "now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     {"", "Ok.", {{"get_weather", R"({"city":"Bern"})"}, {"now", "{}"}}}},
    {"deepseek",
     "V3 and R1",
     true,
     "Hm.\n</"
     "think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"
     "\"city\": \"Bern\"}\n```"
     "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<"
     "｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     {"Hm.", "", {{"get_weather", R"({"city": "Bern"})"}, {"now", "{}"}}}},
    {"deepseek",
     "in thinking",
     true,
     "So "
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     {"So", "", {{"now", "{}"}}}},
    {"kimi",
     "two calls",
     false,
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_"
     "call_end|><|tool_call_begin|>"
     "functions.get_weather:1<|tool_call_argument_begin|>{\"days\": "
     "1}<|tool_call_end|><|tool_calls_section_end|>",
     {"", "", {{"now", "{}"}, {"get_weather", R"({"days": 1})"}}}},

    {"mistral",
     "list",
     false,
     R"([TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Bern"}, "id": "abcdefghi"}, {"name": "now", "arguments": {}}])",
     {"", "", {{"get_weather", R"({"city": "Bern"})"}, {"now", "{}"}}}},
    {"mistral",
     "names",
     false,
     R"(Ok.[TOOL_CALLS]get_weather[CALL_ID]123456789[ARGS]{"city": "Bern"}[TOOL_CALLS]now[ARGS]{})",
     {"", "Ok.", {{"get_weather", R"({"city": "Bern"})"}, {"now", "{}"}}}},
    {"mistral", "thinking", false, "[THINK]Hm.[/THINK]Yes.", {"Hm.", "Yes.", {}}},

    {"llama",
     "JSON",
     false,
     R"({"name": "get_weather", "parameters": {"city": "Bern"}})",
     {"", "", {{"get_weather", R"({"city": "Bern"})"}}}},
    {"llama",
     "JSON, twice",
     false,
     R"({"name": "now", "parameters": {}}; {"type": "function", "name": "now", "parameters": {}})",
     {"", "", {{"now", "{}"}, {"now", "{}"}}}},
    {"llama",
     "python tag",
     false,
     R"(<|python_tag|>{"name": "now", "parameters": {}})",
     {"", "", {{"now", "{}"}}}},
    {"llama",
     "built-in tool",
     false,
     R"(<|python_tag|>brave_search.call(query="a \"b\""))",
     {"", "", {{"brave_search", R"({"query":"a \"b\""})"}}}},
    {"llama",
     "code for the interpreter",
     false,
     "<|python_tag|>import os\nprint(1)",
     {"", "import os\nprint(1)", {}}},
    {"llama",
     "Python list",
     false,
     R"([get_weather(city="Bern", days=3, where={'a': (1, None)}), now()])",
     {"", "", {{"get_weather", R"({"city":"Bern","days":3,"where":{"a":[1,null]}})"}, {"now", "{}"}}}},
    {"llama",
     "function tag",
     false,
     R"(<function=get_weather>{"city": "Bern"}</function>)",
     {"", "", {{"get_weather", R"({"city": "Bern"})"}}}},
    {"llama",
     "a JSON answer",
     false,
     R"({"name": "Bob", "age": 5})",
     {"", R"({"name": "Bob", "age": 5})", {}}},
    {"llama", "a list as answer", false, "[1, 2, 3]", {"", "[1, 2, 3]", {}}},
    {"llama", "an unknown function", false, "[f(x=1)]", {"", "[f(x=1)]", {}}},
    {"llama",
     "JSON later in the text",
     false,
     R"(So: {"name": "now", "parameters": {}})",
     {"", R"(So: {"name": "now", "parameters": {}})", {}}},

    {"lfm2",
     "Python",
     false,
     "Ok.<|tool_call_start|>[f(a=1, b='x')]<|tool_call_end|>",
     {"", "Ok.", {{"f", R"({"a":1,"b":"x"})"}}}},
    {"gemma4",
     "thinking and calls",
     false,
     "<|channel>thought\nHm.\n<channel|>Ok.<|tool_call>call:get_weather{city:<|\"|>B\"{,}ern<|\"|>,days:3,"
     "where:{<|\"|>a<|\"|>:[1,true,{}]}}"
     "<tool_call|><|tool_call>call:now{}<tool_call|>",
     {"Hm.",
      "Ok.",
      {{"get_weather", R"({"city":"B\"{,}ern","days":3,"where":{"a":[1,true,{}]}})"}, {"now", "{}"}}}},
    {"gemma4",
     "no call",
     false,
     "<|tool_call>call:f{a:}<tool_call|>",
     {"", "<|tool_call>call:f{a:}<tool_call|>", {}}},

    {"cohere",
     "action",
     false,
     R"(<|START_THINKING|>I plan.<|END_THINKING|><|START_ACTION|>[{"tool_call_id": "0", "tool_name": "now", "parameters": {}}]<|END_ACTION|>)",
     {"I plan.", "", {{"now", "{}"}}}},
    {"cohere", "response", false, "<|START_RESPONSE|>Hello.<|END_RESPONSE|>", {"", "Hello.", {}}},
    {"granite",
     "call",
     false,
     R"(<|tool_call|>[{"arguments": {"a": 1}, "name": "f"}])",
     {"", "", {{"f", R"({"a": 1})"}}}},
    {"granite", "thinking", false, "<think>a</think><response>b</response>", {"a", "b", {}}},
    {"nemotron",
     "call",
     false,
     R"(<think></think><TOOLCALL>[{"name": "now", "arguments": {}}]</TOOLCALL>)",
     {"", "", {{"now", "{}"}}}},
    {"tool-calls-list",
     "objects in lines",
     false,
     "<tool_calls>\n{\"name\":\"a\",\"arguments\":{}}\n{\"name\":\"b\",\"arguments\":{}}\n</tool_calls>",
     {"", "", {{"a", "{}"}, {"b", "{}"}}}},
    {"functools",
     "list",
     false,
     R"( functools[{"name": "now", "arguments": {}}])",
     {"", "", {{"now", "{}"}}}},

    {"harmony",
     "thinking and answer",
     false,
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes "
     "<b>.<|return|>",
     {"Hm.", "Yes <b>.", {}}},
    {"harmony",
     "call after thinking",
     false,
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.get_weather <|constrain|>json"
     "<|message|>{\"city\":\"Bern\"}<|call|>",
     {"Hm.", "", {{"get_weather", R"({"city":"Bern"})"}}}},
    {"harmony",
     "recipient before the channel",
     false,
     " to=functions.now<|channel|>commentary json<|message|>{}",
     {"", "", {{"now", "{}"}}}},
    {"harmony",
     "preamble and two calls",
     false,
     "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant "
     "to=functions.now<|channel|>commentary<|message|>{}<|call|>"
     "<|start|>assistant<|channel|>analysis to=functions.now<|message|> {} <|call|>",
     {"", "I look.", {{"now", "{}"}, {"now", "{}"}}}},
    {"harmony",
     "the model's own tools think",
     false,
     "<|channel|>analysis to=python code<|message|>print(1)<|call|>",
     {"print(1)", "", {}}},
    {"harmony", "no channels", false, "Just <text>.", {"", "Just <text>.", {}}},
    {"harmony",
     "cut in a call",
     false,
     "<|channel|>commentary to=functions.now<|message|>{\"a\": \"b",
     {"", "", {{"now", R"({"a": "b"})", false}}}},
    {"harmony",
     "end forgotten",
     false,
     "<|channel|>analysis<|message|>Hm.<|channel|>final<|message|>Yes.",
     {"Hm.", "Yes.", {}}},
};

std::string shown(const Answer& answer) {
    nlohmann::ordered_json json = {
        {"reasoning", answer.reasoning}, {"content", answer.content}, {"calls", {}}};
    for (const Call& call : answer.calls) json["calls"].push_back({call.name, call.arguments, call.complete});
    return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

TEST_CASE("every example means the same however it is cut") {
    std::mt19937 random(1);
    for (const Example& example : examples) {
        INFO(example.family << ": " << example.note << "\n" << example.raw);
        const AnswerFormat format = answer_format(example.family);
        AnswerOptions options;
        options.thinking_open = example.thinking_open;
        options.tools = true;
        options.tools_json = tools;
        const Answer whole = parse(format, options, {example.raw});
        CHECK(shown(whole) == shown(example.expected));
        for (const Call& call : whole.calls)
            CHECK(nlohmann::json::parse(call.arguments, nullptr, false).is_object());
        for (size_t cut = 0; cut <= example.raw.size(); ++cut)
            REQUIRE(parse(format, options, {example.raw.substr(0, cut), example.raw.substr(cut)}) == whole);
        REQUIRE(parse(format, options, bytes_of(example.raw)) == whole);
        for (int round = 0; round < 20; ++round)
            REQUIRE(parse(format, options, cut_at_random(example.raw, random, 0.2)) == whole);
    }
}

TEST_CASE("a template gives its family away, an architecture where there is none") {
    struct Row {
        const char *source, *architecture, *family, *think;
        bool list = false;
    };
    const Row rows[] = {
        {"", "qwen3moe", "hermes", "<think>"},
        {"", "qwen35moe", "qwen3-coder", "<think>"},
        {"", "gpt-oss", "harmony", ""},
        {"", "glm4moe", "glm", "<think>"},
        {"", "deepseek2", "deepseek", "<think>"},
        {"", "llama", "plain", ""},
        {"{{ messages }}", "qwen3", "plain", ""},
        {"<think> {{ x }}", "llama", "thinking", "<think>"},
        {"<tool_call>\n{\"name\": <function-name>}", "", "hermes", "<think>"},
        {"<tool_call>\n<function=example>\n<parameter=a>", "", "qwen3-coder", "<think>"},
        {"<tool_call>{n}\n<arg_key>", "", "glm", "<think>"},
        {"<|start_header_id|> tools", "", "llama", "<think>"},
        {"<|start_header_id|>", "", "plain", ""},
        {"'[TOOL_CALLS]' + tool_calls", "", "mistral", "[THINK]", true},
        {"'[TOOL_CALLS]' + name + '[ARGS]'", "", "mistral", "[THINK]"},
        {"<|channel|>analysis<|message|>", "", "harmony", ""},
        {"<｜tool▁calls▁begin｜>", "", "deepseek", "<think>"},
        {"'｜DSML｜' + 'tool_calls>'", "", "deepseek-dsml", "<think>"},
        {"<seed:tool_call> <seed:think>", "", "seed", "<seed:think>"},
        {"<minimax:tool_call>", "", "minimax", "<think>"},
        {"<|tool_calls_section_begin|>", "", "kimi", "<think>"},
        {"<|START_ACTION|> <|START_THINKING|>", "", "cohere", "<|START_THINKING|>", true},
        {"<|tool_call>call:", "", "gemma4", "<|channel>thought\n"},
        {"<tool_calls>[ <thinking>", "", "tool-calls-list", "<thinking>", true},
        {"<|tool|> <|/tool|>", "", "phi4", "<think>", true},
        {"<|tool_call|> <think>", "", "granite", "<think>", true},
        {"<TOOLCALL>", "", "nemotron", "<think>", true},
        {" functools[", "", "functools", "<think>", true},
        {"<|tool_list_start|>", "", "lfm2", "<think>"},
        {"<reasoning>think></reasoning>", "", "thinking", "<reasoning>"},
    };
    for (const Row& row : rows) {
        INFO(row.source << " " << row.architecture);
        const AnswerFormat format = detect_answer_format(row.source, row.architecture);
        CHECK(format.family == row.family);
        CHECK(format.think_open == row.think);
        CHECK(format.list == row.list);
    }
    CHECK(detect_answer_format("<｜DSML｜tool_calls>", "").call_open == "<｜DSML｜tool_calls>");
    CHECK(detect_answer_format("```json <｜tool▁calls▁begin｜>", "").fenced);
    CHECK_THROWS(answer_format("unheard-of"));
    CHECK(prompt_opens_thinking(answer_format("hermes"), "<|im_start|>assistant\n<think>\n"));
    CHECK_FALSE(prompt_opens_thinking(answer_format("hermes"), "<think>\n\n</think>\n\n"));
    CHECK_FALSE(prompt_opens_thinking(answer_format("plain"), "<think>"));
}

TEST_CASE("docs/answers.md lists every family, and each has an example") {
    std::ifstream file(SOURCE_ROOT "/docs/answers.md");
    const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    for (const std::string& family : answer_families()) {
        INFO(family);
        CHECK(page.find("\n| " + family + " | ") != std::string::npos);
        const bool shown = std::any_of(examples.begin(), examples.end(),
                                       [&](const Example& example) { return example.family == family; });
        CHECK(shown);
    }
}

TEST_CASE("a call held back until it is complete is the same call, or all of it content") {
    for (const Example& example : examples) {
        INFO(example.family << ": " << example.note);
        AnswerOptions options;
        options.thinking_open = example.thinking_open;
        options.tools = true;
        options.tools_json = tools;
        options.whole_calls = true;
        const Answer answer = parse(answer_format(example.family), options, bytes_of(example.raw));
        Answer expected = example.expected;
        bool broken = false;
        for (const Call& call : expected.calls) broken = broken || !call.complete;
        if (!broken) {
            CHECK(shown(answer) == shown(expected));
        } else {
            CHECK(answer.calls.empty());
            if (!answer_format(example.family).harmony && example.raw.find("so") == std::string::npos)
                CHECK(answer.content == example.raw);
        }
    }
}

TEST_CASE("without tools the markup of calls is content") {
    for (const char* family : {"hermes", "mistral", "llama", "glm", "deepseek", "qwen3-coder"}) {
        const std::string raw =
            R"([TOOL_CALLS]f[ARGS]{} <tool_call>{"name": "f"}</tool_call> <｜tool▁calls▁begin｜>)";
        AnswerOptions options;
        const Answer answer = parse(answer_format(family), options, bytes_of(raw));
        CHECK(answer.content == raw);
        CHECK(answer.calls.empty());
    }
}

TEST_CASE("text comes out as soon as it can't be markup") {
    AnswerOptions options;
    options.tools = true;
    AnswerParser parser(answer_format("hermes"), options);
    std::vector<AnswerEvent> events;
    const auto said = [&](std::string_view piece) {
        events.clear();
        parser.push(piece, events);
        std::string text;
        for (const AnswerEvent& event : events) text += event.text;
        return text;
    };
    CHECK(said("Hello") == "Hello");
    CHECK(said(" <") == "");
    CHECK(said("b> <to") == " <b>");
    CHECK(said("ol_cart> \xC3") == " <tool_cart> ");
    CHECK(said("\xA9") == "\xC3\xA9");
    CHECK(said("\n<tool_call>{\"name\": \"f\", \"arguments\"") == "");
    CHECK(said(": {\"a\": \"x") == "{\"a\": \"x");
    CHECK(said("y\"") == "y\"");
    CHECK(said("}") == "}");
    REQUIRE(events.size() == 2);
    CHECK(events[1].kind == AnswerEvent::Kind::call_end);
}

TEST_CASE("reasoning() tells where a grammar for the content must wait") {
    AnswerOptions options;
    options.thinking_open = true;
    AnswerParser parser(answer_format("hermes"), options);
    std::vector<AnswerEvent> events;
    CHECK(parser.reasoning());
    parser.push("Hm.</thi", events);
    CHECK(parser.reasoning());
    parser.push("nk>", events);
    CHECK_FALSE(parser.reasoning());
}

TEST_CASE("ids are the model's, or nine letters and digits that differ") {
    AnswerOptions options;
    options.tools = true;
    options.id_seed = 7;
    std::vector<AnswerEvent> events;
    AnswerParser mistral(answer_format("mistral"), options);
    mistral.push("[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{}[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]f[ARGS]{}", events);
    mistral.finish(events);
    std::vector<std::string> ids;
    for (const AnswerEvent& event : events)
        if (event.kind == AnswerEvent::Kind::call_begin) ids.push_back(event.id);
    REQUIRE(ids.size() == 3);
    CHECK(ids[0] == "123456789");
    CHECK(ids[1].size() == 9);
    CHECK(ids[1] != ids[2]);
    events.clear();
    AnswerParser kimi(answer_format("kimi"), options);
    kimi.push("<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>", events);
    REQUIRE(!events.empty());
    CHECK(events[0].id == "functions.f:0");
    CHECK(events[0].name == "f");
}
