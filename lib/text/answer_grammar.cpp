#include "text/answer_grammar.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "base/failure.h"
#include "text/answer_calls.h"
#include "text/answer_tools.h"
#include "text/grammar_automaton.h"
#include "text/json_schema_rules.h"

namespace coterie::text {
namespace {

using Node = GrammarRules::Node;

constexpr size_t largest_text = 1 << 20;

Json parsed(std::string_view text, const char* what) {
    if (text.size() > largest_text)
        fail(Status::invalid_argument, "{} have {} bytes; at most {} are accepted", what, text.size(),
             largest_text);
    std::string why;
    std::optional<Json> read = Json::parse(text, &why);
    if (!read) fail(Status::invalid_argument, "{} are not valid JSON: {}", what, why);
    return std::move(*read);
}

class AnswerRules {
  public:
    AnswerRules(const AnswerFormat& format, const AnswerGrammarOptions& options)
        : format_(format), options_(options) {}

    std::shared_ptr<const Grammar> content(std::string_view schema) {
        const Json document = schema.empty() ? Json::object() : parsed(schema, "the JSON schema's texts");
        JsonSchemaRules schemas(rules_, document, options_.json);
        const Node value = schema.empty() ? schemas.any_object() : schemas.value(document, "");
        if (!format_.harmony) return compiled({thinking(), value});
        return compiled({analysis(), tag("<|channel|>"), text("final"), tag("<|message|>"), value});
    }

    std::shared_ptr<const Grammar> calls(std::string_view tools_json, const ToolChoice& choice) {
        tools_document_ = parsed(tools_json, "the tools");
        types_ = ToolTypes(tools_json);
        for (const Json& entry : tools_document_) {
            const Json& tool = entry.contains("function") ? entry["function"] : entry;
            const auto name = tool["name"].get<std::string>();
            if (choice.kind == ToolChoice::Kind::named && name != choice.name) continue;
            if (!call_name_valid(name))
                fail(Status::invalid_argument,
                     "the tool name '{}' has characters other than letters, digits and _-.:/", name);
            tools_.push_back(&tool);
        }
        if (tools_.empty() && choice.kind == ToolChoice::Kind::named)
            fail(Status::invalid_argument, "the tool choice names '{}', which isn't among the tools",
                 choice.name);
        if (tools_.empty()) fail(Status::invalid_argument, "a call is asked for, but there are no tools");
        const uint32_t most = choice.parallel ? most_calls : 1;
        if (choice.kind != ToolChoice::Kind::automatic) {
            if (format_.harmony) return compiled({analysis(), harmony_call()});
            return compiled({thinking(), spaces(), group(most)});
        }
        const std::string opening = format_.calls_open.empty() ? format_.call_open : format_.calls_open;
        if (format_.harmony || opening.empty() || format_.syntax == CallSyntax::llama)
            fail(Status::unsupported,
                 "calls of the answer format '{}' can't be told from text while it is being written; "
                 "leave the answer unconstrained, or require a call",
                 format_.family);
        opened_ = true;  // by `until`, which ends with the opening tag
        const Node some = rules_.sequence({rules_.until(opening), group(most)});
        return compiled({thinking(), rules_.repeat(some, 0, most_calls), rules_.without(opening)});
    }

  private:
    static constexpr uint32_t most_calls = 64;

    std::shared_ptr<const Grammar> compiled(std::vector<Node> parts) {
        const auto root = rules_.declare("answer");
        rules_.define(root, rules_.sequence(std::move(parts)));
        return std::make_shared<const Grammar>(rules_.compile(root));
    }

    Node text(std::string_view literal) { return rules_.bytes(literal); }
    Node tag(std::string_view name) { return name.empty() ? rules_.empty() : rules_.markup(name); }
    Node spaces() { return rules_.repeat(rules_.set({{' ', ' '}, {'\n', '\n'}}), 0, 2); }

    Node thinking() {
        if (options_.thinking == ThinkingStart::none || format_.think_close.empty()) return rules_.empty();
        const Node rest = rules_.sequence({rules_.until(format_.think_close), spaces()});
        if (options_.thinking == ThinkingStart::open) return rest;
        return rules_.optional(rules_.sequence({tag(format_.think_open), rest}));
    }

    // gpt-oss thinks in a message of its own; the next one needs its header.
    Node analysis() {
        if (options_.thinking == ThinkingStart::none) return rules_.empty();
        return rules_.optional(
            rules_.sequence({tag("<|channel|>"), text("analysis"), tag("<|message|>"),
                             rules_.until("<|end|>"), tag("<|start|>"), text("assistant")}));
    }

    // --- arguments
    // ----------------------------------------------------------------------------------------------

    const Json& parameters(const Json& tool) const {
        static const Json any = Json{{"type", "object"}};
        for (const char* key : {"parameters", "input_schema"})
            if (tool.contains(key) && tool[key].is_object() && !tool[key].empty()) return tool[key];
        return any;
    }

    JsonSchemaRules& schemas(const Json& tool) {
        JsonSchemaOptions json = options_.json;
        json.lenient = json.lenient || tool.value("strict", Json(false)) != Json(true);
        return schemas_.emplace_back(rules_, parameters(tool), json);
    }

    Node arguments(const Json& tool) {
        Json object = parameters(tool);
        if (!object.contains("type") && !object.contains("$ref") && !object.contains("anyOf"))
            object["type"] = "object";
        return schemas(tool).value(object, "/" + tool["name"].get<std::string>());
    }

    template <typename Make>
    Node any_tool(Make make) {
        std::vector<Node> choices;
        for (const Json* tool : tools_) choices.push_back(make(*tool, (*tool)["name"].get<std::string>()));
        return rules_.choice(std::move(choices));
    }

    // --- calls
    // --------------------------------------------------------------------------------------------------

    Node json_call(bool with_id) {
        const bool llama = format_.syntax == CallSyntax::llama, cohere = with_id;
        const Node gap =
            options_.json.spacing == JsonSpacing::compact ? rules_.empty() : rules_.optional(text(" "));
        return any_tool([&](const Json& tool, const std::string& name) {
            std::vector<Node> parts = {text("{")};
            if (cohere)
                for (Node part :
                     {text("\"tool_call_id\":"), gap, text("\""), rules_.set({{'0', '9'}}), text("\","), gap})
                    parts.push_back(part);
            for (Node part :
                 {text(cohere ? "\"tool_name\":" : "\"name\":"), gap, text(Json(name).dump() + ","), gap,
                  text(llama || cohere ? "\"parameters\":" : "\"arguments\":"), gap, arguments(tool),
                  text("}")})
                parts.push_back(part);
            return rules_.sequence(std::move(parts));
        });
    }

    Node named_call() {
        return any_tool([&](const Json& tool, const std::string& name) {
            if (format_.fenced)
                return rules_.sequence({text("function"), tag(format_.separator), text(name + "\n```json\n"),
                                        arguments(tool), text("\n```")});
            const bool kimi = format_.family == "kimi";
            const Node called = kimi ? rules_.sequence({text("functions." + name + ":"),
                                                        rules_.repeat(rules_.set({{'0', '9'}}), 1, 2)})
                                     : text(name);
            return rules_.sequence({called, tag(format_.separator), arguments(tool)});
        });
    }

    Node xml_call() {
        const XmlMarkup& xml = format_.xml;
        return any_tool([&](const Json& tool, const std::string& name) {
            const Json& schema = parameters(tool);
            JsonSchemaRules& values = schemas(tool);
            std::vector<Node> parts;
            const bool glm = xml.function_open.empty();
            if (!glm) parts.push_back(text("\n" + xml.function_open));
            parts.push_back(text(name + xml.name_end + "\n"));
            const Json required = schema.value("required", Json::array());
            const Json properties = schema.value("properties", Json::object());
            for (const auto& [key, property] : properties.items()) {
                const Node one = parameter(values, name, key, property);
                const bool needed = std::find(required.begin(), required.end(), Json(key)) != required.end();
                parts.push_back(needed ? one : rules_.optional(one));
            }
            parts.push_back(text(xml.function_close));
            return rules_.sequence(std::move(parts));
        });
    }

    static Json enumeration(const Json& property) {
        if (!property.is_object()) return Json::array();
        if (property.contains("const")) return Json::array({property["const"]});
        const Json values = property.value("enum", Json::array());
        return values.is_array() ? values : Json::array();
    }

    // A parameter that may be a string is free text up to its closing tag, whatever else it may be.
    Node parameter(JsonSchemaRules& values, const std::string& tool, const std::string& key,
                   const Json& property) {
        const XmlMarkup& xml = format_.xml;
        const uint8_t types = types_.types(tool, key);
        const bool free = types == 0 || (types & type_string) != 0;
        const std::string line = xml.newlines ? "\n" : "";
        const std::string close = line + xml.value_close + "\n";
        std::string open = xml.parameter_open + key;
        if (xml.string_attribute) open += free ? "\" string=\"true" : "\" string=\"false";
        open += xml.key_end;
        if (!xml.value_open.empty()) open += "\n" + xml.value_open;
        open += line;
        const Json values_listed = enumeration(property);
        if (free && !values_listed.empty()) {
            std::vector<Node> choices;
            for (const Json& each : values_listed)
                choices.push_back(text(each.is_string() ? each.get<std::string>() : each.dump()));
            return rules_.sequence({text(open), rules_.choice(std::move(choices)), text(close)});
        }
        if (free) return rules_.sequence({text(open), rules_.until(close)});
        return rules_.sequence({text(open), values.value(property, "/" + tool + "/" + key), text(close)});
    }

    // key=value, key=value) and the like: as in an object, the comma depends on whether something came
    // before.
    template <typename Value>
    Node listed(const Json& tool, const std::string& name, const std::string& comma,
                const std::string& equals, const std::string& close, Value value) {
        const Json& schema = parameters(tool);
        JsonSchemaRules& values = schemas(tool);
        const Json required = schema.value("required", Json::array());
        const Json properties = schema.value("properties", Json::object());
        Node after[2] = {text(close), text(close)};
        std::vector<std::pair<std::string, Json>> list;
        for (const auto& [key, property] : properties.items()) list.emplace_back(key, property);
        for (size_t i = list.size(); i-- > 0;) {
            const auto& [key, property] = list[i];
            const Node node = value(values, key, property);
            const bool needed = std::find(required.begin(), required.end(), Json(key)) != required.end();
            Node here[2];
            for (const int before : {0, 1}) {
                const Node taken = rules_.sequence(
                    {text((before == 1 ? comma : std::string()) + key + equals), node, after[1]});
                const auto rule = rules_.declare(name + "(" + key);
                rules_.define(rule, needed ? taken : rules_.choice({taken, after[before]}));
                here[before] = rules_.rule(rule);
            }
            after[0] = here[0];
            after[1] = here[1];
        }
        return after[0];
    }

    Node python_call() {
        return any_tool([&](const Json& tool, const std::string& name) {
            return rules_.sequence(
                {text(name + "("),
                 listed(tool, name, ", ", "=", ")",
                        [&](JsonSchemaRules& values, const std::string& key, const Json& property) {
                            return values.value(property, "/" + name + "/" + key);
                        })});
        });
    }

    // Any value in Gemma's notation.
    Node gemma_value() {
        if (!gemma_value_) {
            gemma_value_ = rules_.declare("value");
            const Node value = rules_.rule(*gemma_value_);
            const Node string = rules_.sequence({tag("<|\"|>"), rules_.until("<|\"|>")});
            const auto list = [&](Node item) {
                return rules_.optional(
                    rules_.sequence({item, rules_.repeat(rules_.sequence({text(","), item}), 0)}));
            };
            const Node pair = rules_.sequence({string, text(":"), value});
            rules_.define(*gemma_value_,
                          rules_.choice({string, any_number(rules_, false), text("true"), text("false"),
                                         text("null"), rules_.sequence({text("["), list(value), text("]")}),
                                         rules_.sequence({text("{"), list(pair), text("}")})}));
        }
        return rules_.rule(*gemma_value_);
    }

    // Texts and nested values are only kept in form; single numbers and the like follow their schema.
    Node gemma_call() {
        return any_tool([&](const Json& tool, const std::string& name) {
            return rules_.sequence(
                {text("call:" + name + "{"),
                 listed(tool, name, ",", ":", "}",
                        [&](JsonSchemaRules& values, const std::string& key, const Json& property) {
                            const uint8_t types = types_.types(name, key);
                            const bool simple =
                                types != 0 && (types & (type_string | type_object | type_array)) == 0;
                            if (simple) return values.value(property, "/" + name + "/" + key);
                            if (const Json values_listed = enumeration(property); !values_listed.empty()) {
                                std::vector<Node> choices;
                                for (const Json& each : values_listed)
                                    choices.push_back(
                                        each.is_string()
                                            ? rules_.sequence({tag("<|\"|>"), text(each.get<std::string>()),
                                                               tag("<|\"|>")})
                                            : text(each.dump()));
                                return rules_.choice(std::move(choices));
                            }
                            if (types == type_string)
                                return rules_.sequence({tag("<|\"|>"), rules_.until("<|\"|>")});
                            return gemma_value();
                        })});
        });
    }

    Node harmony_call() {
        return any_tool([&](const Json& tool, const std::string& name) {
            return rules_.sequence({tag("<|channel|>"), text("commentary to=functions." + name + " "),
                                    tag("<|constrain|>"), text("json"), tag("<|message|>"), arguments(tool)});
        });
    }

    // One or several calls with all that belongs around them. The first opening tag is left out where it is
    // there already.
    Node group(uint32_t most) {
        const Node line = text("\n");
        const auto open = [&](const std::string& name) {
            return std::exchange(opened_, false) ? rules_.empty() : tag(name);
        };
        if (format_.syntax == CallSyntax::none)
            fail(Status::unsupported,
                 "the answer format '{}' has no way to write calls; choose another, or use a schema for the "
                 "content",
                 format_.family);
        if (format_.syntax == CallSyntax::llama) {
            const Node call = json_call(false);
            return rules_.sequence({call, rules_.repeat(rules_.sequence({text("; "), call}), 0, most - 1)});
        }
        if (format_.list || format_.syntax == CallSyntax::python) {
            const bool python = format_.syntax == CallSyntax::python;
            const Node start = open(format_.call_open);
            const Node call = python ? python_call() : json_call(format_.family == "cohere");
            return rules_.sequence(
                {start, text("["), call,
                 rules_.repeat(rules_.sequence({text(","), rules_.optional(text(" ")), call}), 0, most - 1),
                 text("]"), tag(format_.call_close)});
        }
        if (format_.syntax == CallSyntax::json) {
            const Node call = rules_.sequence(
                {rules_.optional(line), json_call(false), rules_.optional(line), tag(format_.call_close)});
            return repeated(open(format_.call_open), call,
                            rules_.sequence({rules_.optional(line), tag(format_.call_open)}), most);
        }
        if (format_.syntax == CallSyntax::xml) {
            const bool closes = format_.xml.function_close == format_.call_close;
            const Node end = closes ? rules_.empty() : rules_.sequence({line, tag(format_.call_close)});
            return repeated(open(format_.call_open), rules_.sequence({xml_call(), end}),
                            rules_.sequence({line, tag(format_.call_open)}), most);
        }
        const bool gemma = format_.syntax == CallSyntax::gemma;
        const Node call = rules_.sequence({gemma ? gemma_call() : named_call(), tag(format_.call_close)});
        if (format_.calls_open.empty())
            return repeated(open(format_.call_open), call, tag(format_.call_open), most);
        const Node next = rules_.sequence(
            {format_.fenced ? rules_.optional(line) : rules_.empty(), tag(format_.call_open)});
        return rules_.sequence({open(format_.calls_open), repeated(tag(format_.call_open), call, next, most),
                                tag(format_.calls_close)});
    }

    Node repeated(Node open, Node call, Node open_next, uint32_t most) {
        return rules_.sequence({open, call, rules_.repeat(rules_.sequence({open_next, call}), 0, most - 1)});
    }

    const AnswerFormat& format_;
    AnswerGrammarOptions options_;
    GrammarRules rules_;
    Json tools_document_;
    std::vector<const Json*> tools_;
    ToolTypes types_;
    std::deque<JsonSchemaRules> schemas_;
    std::optional<GrammarRules::Rule> gemma_value_;
    bool opened_ = false;
};

}  // namespace

ThinkingStart thinking_start(const AnswerFormat& format, std::string_view prompt) {
    if (format.harmony) return ThinkingStart::by_model;
    if (format.think_open.empty()) return ThinkingStart::none;
    if (prompt_opens_thinking(format, prompt)) return ThinkingStart::open;
    const size_t end = prompt.find_last_not_of(" \t\r\n");
    const std::string_view text =
        end == std::string_view::npos ? std::string_view() : prompt.substr(0, end + 1);
    const std::string_view tag = format.think_close;
    const bool closed = text.size() >= tag.size() && text.substr(text.size() - tag.size()) == tag;
    return closed ? ThinkingStart::none : ThinkingStart::by_model;
}

std::shared_ptr<const Grammar> tool_call_grammar(const AnswerFormat& format, std::string_view tools_json,
                                                 const ToolChoice& choice,
                                                 const AnswerGrammarOptions& options) {
    return AnswerRules(format, options).calls(tools_json, choice);
}

std::shared_ptr<const Grammar> content_grammar(const AnswerFormat& format, std::string_view schema,
                                               const AnswerGrammarOptions& options) {
    return AnswerRules(format, options).content(schema);
}

}  // namespace coterie::text
