// The families: how each marks thinking and calls, and how a chat template or an architecture gives a family
// away. A template shows its family's markup because it must write earlier answers back; so a few telling
// words suffice.
#include <algorithm>
#include <functional>
#include <map>

#include "base/failure.h"
#include "text/answer.h"

namespace coterie::text {
namespace {

constexpr std::string_view calls_begin = "<｜tool▁calls▁begin｜>", calls_end = "<｜tool▁calls▁end｜>",
                           call_begin = "<｜tool▁call▁begin｜>", call_end = "<｜tool▁call▁end｜>",
                           tool_separator = "<｜tool▁sep｜>";

AnswerFormat tagged(std::string family, CallSyntax syntax, std::string_view open, std::string_view close) {
    AnswerFormat format;
    format.family = std::move(family);
    format.think_open = "<think>";
    format.think_close = "</think>";
    format.syntax = syntax;
    format.call_open = open;
    format.call_close = close;
    return format;
}

AnswerFormat with_xml(AnswerFormat format, XmlMarkup xml) {
    format.syntax = CallSyntax::xml;
    format.xml = std::move(xml);
    return format;
}

AnswerFormat with_section(AnswerFormat format, std::string_view open, std::string_view close,
                          std::string_view separator) {
    format.calls_open = open;
    format.calls_close = close;
    format.separator = separator;
    return format;
}

AnswerFormat with_thinking(AnswerFormat format, std::string_view open, std::string_view close) {
    format.think_open = open;
    format.think_close = close;
    return format;
}

AnswerFormat as_list(AnswerFormat format) {
    format.list = true;
    return format;
}

const XmlMarkup& function_xml() {
    static const XmlMarkup xml{"<function=",   ">",           "<parameter=", ">",  "",
                               "</parameter>", "</function>", true,          false};
    return xml;
}

std::map<std::string, AnswerFormat, std::less<>> make_families() {
    std::map<std::string, AnswerFormat, std::less<>> all;
    const auto add = [&](AnswerFormat format) { all[format.family] = std::move(format); };
    // These also read XML: models of a later generation come with the template of an earlier one.
    const auto general = [&](std::string name) {
        AnswerFormat format = tagged(std::move(name), CallSyntax::json, "<tool_call>", "</tool_call>");
        format.xml = function_xml();
        return format;
    };
    add(with_thinking(general("plain"), "", ""));
    add(general("thinking"));
    add(general("hermes"));
    add(with_xml(tagged("qwen3-coder", CallSyntax::xml, "<tool_call>", "</tool_call>"), function_xml()));
    add(with_xml(
        tagged("glm", CallSyntax::xml, "<tool_call>", "</tool_call>"),
        {"", "", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>", false, false}));
    add(with_thinking(
        with_xml(tagged("seed", CallSyntax::xml, "<seed:tool_call>", "</seed:tool_call>"), function_xml()),
        "<seed:think>", "</seed:think>"));
    AnswerFormat minimax = with_xml(tagged("minimax", CallSyntax::xml, "", ""),
                                    {"<invoke name=\"", "\">", "<parameter name=\"", "\">", "",
                                     "</parameter>", "</invoke>", false, false});
    minimax.call_open = "<minimax:tool_call>";
    minimax.call_close = "</minimax:tool_call>";
    add(std::move(minimax));
    AnswerFormat dsml = with_xml(
        tagged("deepseek-dsml", CallSyntax::xml, "<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),
        {"<｜DSML｜invoke name=\"", "\">", "<｜DSML｜parameter name=\"", "\">", "", "</｜DSML｜parameter>",
         "</｜DSML｜invoke>", false, true});
    add(std::move(dsml));
    add(with_section(tagged("deepseek", CallSyntax::named, call_begin, call_end), calls_begin, calls_end,
                     tool_separator));
    add(with_section(tagged("kimi", CallSyntax::named, "<|tool_call_begin|>", "<|tool_call_end|>"),
                     "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
                     "<|tool_call_argument_begin|>"));
    AnswerFormat mistral = tagged("mistral", CallSyntax::named, "[TOOL_CALLS]", "");
    mistral.separator = "[ARGS]";
    mistral.id_separator = "[CALL_ID]";
    add(with_thinking(std::move(mistral), "[THINK]", "[/THINK]"));
    add(tagged("llama", CallSyntax::llama, "<|python_tag|>", "</function>"));
    add(tagged("lfm2", CallSyntax::python, "<|tool_call_start|>", "<|tool_call_end|>"));
    add(with_thinking(tagged("gemma4", CallSyntax::gemma, "<|tool_call>", "<tool_call|>"),
                      "<|channel>thought\n", "<channel|>"));
    AnswerFormat cohere = tagged("cohere", CallSyntax::json, "<|START_ACTION|>", "<|END_ACTION|>");
    cohere.dropped = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"};
    add(with_thinking(as_list(std::move(cohere)), "<|START_THINKING|>", "<|END_THINKING|>"));
    AnswerFormat granite = tagged("granite", CallSyntax::json, "<|tool_call|>", "");
    granite.dropped = {"<response>", "</response>"};
    add(as_list(std::move(granite)));
    add(as_list(tagged("phi4", CallSyntax::json, "<|tool_call|>", "<|/tool_call|>")));
    add(as_list(tagged("nemotron", CallSyntax::json, "<TOOLCALL>", "</TOOLCALL>")));
    add(as_list(tagged("tool-calls-list", CallSyntax::json, "<tool_calls>", "</tool_calls>")));
    add(as_list(tagged("functools", CallSyntax::json, "functools", "")));
    AnswerFormat harmony = tagged("harmony", CallSyntax::none, "", "");
    harmony.harmony = true;
    add(with_thinking(std::move(harmony), "", ""));
    return all;
}

const std::map<std::string, AnswerFormat, std::less<>>& families() {
    static const std::map<std::string, AnswerFormat, std::less<>> all = make_families();
    return all;
}

std::string_view family_of_template(std::string_view source) {
    const auto has = [&](std::string_view word) { return source.find(word) != std::string_view::npos; };
    if (has("<|channel|>") && has("<|message|>")) return "harmony";
    if (has("｜DSML｜")) return "deepseek-dsml";
    if (has(calls_begin)) return "deepseek";
    if (has("<|tool_call>call:")) return "gemma4";
    if (has("[TOOL_CALLS]")) return "mistral";
    if (has("<|tool_calls_section_begin|>")) return "kimi";
    if (has("<minimax:tool_call>")) return "minimax";
    if (has("<seed:tool_call>") || has("<seed:think>")) return "seed";
    if (has("<|START_ACTION|>")) return "cohere";
    if (has("<arg_key>")) return "glm";
    if (has("<tool_call>") && has("<function=")) return "qwen3-coder";
    if (has("<|tool_call_start|>") || has("<|tool_list_start|>")) return "lfm2";
    if (has("<TOOLCALL>")) return "nemotron";
    if (has("<tool_calls>")) return "tool-calls-list";
    if (has("<|/tool|>")) return "phi4";
    if (has("<|tool_call|>")) return "granite";
    if (has("functools")) return "functools";
    if (has("<tool_call>")) return "hermes";
    const bool llama_turns = has("<|start_header_id|>") || has("<|header_start|>");
    if (has("<|python_tag|>") || (llama_turns && has("tools"))) return "llama";
    if (has("think>")) return "thinking";
    return {};
}

std::string_view family_of_architecture(std::string_view name) {
    constexpr std::pair<std::string_view, std::string_view> beginnings[] = {
        {"gemma4", "gemma4"},     {"qwen35", "qwen3-coder"},
        {"qwen3next", "hermes"},  {"qwen4", "qwen3-coder"},
        {"qwen", "hermes"},       {"gpt-oss", "harmony"},
        {"deepseek", "deepseek"}, {"glm", "glm"},
        {"chatglm", "glm"},       {"mistral", "mistral"},
        {"llama4", "llama"},      {"kimi", "kimi"},
        {"minimax", "minimax"},   {"seed_oss", "seed"},
        {"cohere", "cohere"},     {"command-r", "cohere"},
        {"granite", "hermes"},    {"lfm2", "lfm2"},
        {"smollm3", "hermes"},    {"nemotron", "nemotron"}};
    for (const auto& [beginning, family] : beginnings)
        if (name.substr(0, beginning.size()) == beginning) return family;
    return "plain";
}

}  // namespace

AnswerFormat detect_answer_format(std::string_view template_source, std::string_view architecture) {
    std::string_view family = family_of_template(template_source);
    if (family.empty()) family = template_source.empty() ? family_of_architecture(architecture) : "plain";
    AnswerFormat format = answer_format(family);
    const auto has = [&](std::string_view word) {
        return template_source.find(word) != std::string_view::npos;
    };
    // Some families borrow another's tags for thinking.
    // Mistral's older models write one list, DeepSeek's older ones a fence.
    if (format.family == "mistral") format.list = !template_source.empty() && !has("[ARGS]");
    if (format.family == "deepseek-dsml" && !has("function_calls>")) {
        format.call_open = "<｜DSML｜tool_calls>";
        format.call_close = "</｜DSML｜tool_calls>";
    }
    if (format.family == "deepseek") format.fenced = has("```json");
    for (const auto& [open, close] : {std::pair<std::string_view, std::string_view>{"[THINK]", "[/THINK]"},
                                      {"<seed:think>", "</seed:think>"},
                                      {"<reasoning>", "</reasoning>"},
                                      {"<thinking>", "</thinking>"},
                                      {"<think>", "</think>"}})
        if (!format.harmony && format.family != "cohere" && format.family != "gemma4" && has(open)) {
            format.think_open = open;
            format.think_close = close;
        }
    return format;
}

AnswerFormat answer_format(std::string_view family) {
    const auto found = families().find(family);
    if (found == families().end())
        fail(Status::invalid_argument, "there is no answer format '{}'; choose one of: {}", family,
             fmt::join(answer_families(), ", "));
    return found->second;
}

const std::vector<std::string>& answer_families() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> result;
        for (const auto& entry : families()) result.push_back(entry.first);
        return result;
    }();
    return names;
}

bool prompt_opens_thinking(const AnswerFormat& format, std::string_view prompt) {
    if (format.think_open.empty()) return false;
    const size_t end = prompt.find_last_not_of(" \t\r\n");
    if (end == std::string_view::npos) return false;
    const std::string_view text = prompt.substr(0, end + 1);
    const std::string_view tag = format.think_open;
    return text.size() >= tag.size() && text.substr(text.size() - tag.size()) == tag;
}

}  // namespace coterie::text
