#include "text/chat_template.h"

#include <variant>

#include "base/failure.h"
#include "text/chat_messages.h"
#include "text/go_template.h"
#include "text/jinja_text.h"

namespace coterie::text {
namespace {

using jinja::Dict;
using jinja::Value;

bool has(std::string_view text, std::string_view what) {
    return text.find(what) != std::string_view::npos;
}

// `{{ .Prompt }}`, `{{- range ... }}`: Go's. A Jinja template has `{%` or prints a name.
TemplateLanguage language_of(std::string_view source) {
    if (has(source, "{%")) return TemplateLanguage::jinja;
    for (size_t at = source.find("{{"); at != std::string_view::npos; at = source.find("{{", at + 2)) {
        size_t inside = at + 2;
        if (inside < source.size() && source[inside] == '-') ++inside;
        const std::string_view rest = jinja::stripped(source.substr(inside), true, false);
        for (std::string_view word : {".", "$", "range ", "if ", "with ", "template ", "define ", "/*"}) {
            if (rest.substr(0, word.size()) == word) return TemplateLanguage::go;
        }
    }
    return TemplateLanguage::jinja;
}

Value object(std::initializer_list<std::pair<const char*, Value>> entries) {
    Dict dict;
    for (const auto& [key, value] : entries) dict.set(key, value);
    return Value::dict(std::move(dict));
}

Value text(const char* what) {
    return Value::text(what);
}

Dict message(const char* role, Value content) {
    Dict dict;
    dict.set("role", text(role));
    dict.set("content", std::move(content));
    return dict;
}
Dict message(const char* role, const char* content) {
    return message(role, text(content));
}

// The text of the last message ends with this while the template runs; the prompt is cut where it shows up.
constexpr std::string_view continuation_mark = "CONTINUE_HERE_7f3a ";

void mark_continuation(Messages& messages) {
    if (messages.empty()) fail(Status::invalid_argument, "there is no last message to continue");
    Dict& last = messages.back();
    const Value content = *last.find("content");
    if (content.is_text()) {
        last.set("content", Value::text(content.as_text() + std::string(continuation_mark)));
        return;
    }
    std::vector<Value> parts = content.items();
    if (parts.empty()) fail(Status::invalid_argument, "the last message has no text to continue");
    Dict part = parts.back().as_dict();
    part.set("text", Value::text(part.find("text")->as_text() + std::string(continuation_mark)));
    parts.back() = Value::dict(std::move(part));
    last.set("content", Value::list(std::move(parts)));
}

std::string cut_at_continuation(const std::string& prompt) {
    const std::string_view bare = continuation_mark.substr(0, continuation_mark.size() - 1);
    const size_t at = prompt.rfind(bare);
    if (at == std::string::npos)
        fail(Status::invalid_argument,
             "the chat template does not show the last message, so it can't be continued");
    std::string_view before = std::string_view(prompt).substr(0, at);
    // A template that trims its messages ate the mark's space: then it would have trimmed the text's, too.
    if (prompt.compare(at, continuation_mark.size(), continuation_mark) != 0)
        before = jinja::stripped(before, false, true);
    return std::string(before);
}

}  // namespace

struct ChatTemplate::Engine {
    std::variant<jinja::Template, GoTemplate> program;
    bool tools_may_be_none = true;  // some templates loop over tools without asking whether there are any

    const jinja::Template* jinja() const { return std::get_if<jinja::Template>(&program); }

    std::string render(const Messages& messages, const Value& tools, const ChatOptions& options,
                       const std::string& bos, const std::string& eos, const jinja::Limits& limits) const {
        if (const auto* go = std::get_if<GoTemplate>(&program))
            return go->render_chat(messages, tools, options);
        Dict variables;
        variables.set("messages", as_value(messages));
        if (!tools.is_none() || tools_may_be_none) variables.set("tools", tools);
        if (has(jinja()->source(), "xml_tools"))
            variables.set("xml_tools", tools);  // SmolLM3's name for them
        variables.set("add_generation_prompt",
                      Value::boolean(options.add_generation_prompt && !options.continue_final_message));
        variables.set("bos_token", Value::text(bos));
        variables.set("eos_token", Value::text(eos));
        if (options.enable_thinking) {
            variables.set("enable_thinking", Value::boolean(*options.enable_thinking));
            variables.set("thinking", Value::boolean(*options.enable_thinking));
        }
        if (!options.reasoning_effort.empty())
            variables.set("reasoning_effort", Value::text(options.reasoning_effort));
        if (!options.variables_json.empty()) {
            const Value extra = jinja::parse_json(options.variables_json);
            if (!extra.is_dict())
                fail(Status::invalid_argument, "the template's variables are not a JSON object");
            for (const auto& [name, value] : extra.as_dict().entries()) variables.set(name, value);
        }
        return jinja()->render(variables, limits, options.now);
    }

    // What a small conversation becomes, or nothing when the template fails on it.
    std::optional<std::string> tried(const Messages& messages, const Value& tools = Value::none(),
                                     const ChatOptions& options = {}) const {
        try {
            jinja::Limits limits;
            limits.steps = 200'000;
            limits.bytes = uint64_t{8} << 20;
            ChatOptions fixed = options;
            fixed.now = 0;
            return render(messages, tools, fixed, "<bos>", "<eos>", limits);
        } catch (const Failure&) {
            return {};
        } catch (const jinja::Trouble&) {
            return {};
        }
    }

    ChatCapabilities probed(std::string_view source);
    void probe_calls(ChatCapabilities& found, const Value& tools) const;
    void probe_thinking(ChatCapabilities& found, std::string_view source) const;
    std::string call_example(const ChatCapabilities& found) const;
};

ChatCapabilities ChatTemplate::Engine::probed(std::string_view source) {
    ChatCapabilities found;
    const auto shows = [&](const Messages& messages, std::initializer_list<std::string_view> needles) {
        const auto prompt = tried(messages);
        if (!prompt || has(*prompt, "'type': 'text'")) return false;
        for (std::string_view needle : needles) {
            if (!has(*prompt, needle)) return false;
        }
        return true;
    };
    const auto parts = [](const char* words) {
        return Value::list({object({{"type", text("text")}, {"text", text(words)}})});
    };
    if (!tried({message("user", "uuu")})) {
        tools_may_be_none = false;
        if (!tried({message("user", "uuu")})) tools_may_be_none = true;
    }
    found.text_content = shows({message("user", "uuu")}, {"uuu"});
    found.typed_content = shows(
        {message("user", parts("uuu")), message("assistant", parts("aaa")), message("user", parts("vvv"))},
        {"uuu", "aaa", "vvv"});
    const auto content = [&](const char* words) {
        return found.text_content || !found.typed_content ? text(words) : parts(words);
    };
    if (!found.text_content && !found.typed_content) found.text_content = true;
    const auto says = [&](const char* role, const char* words) { return message(role, content(words)); };
    found.system_role = shows({says("system", "sss"), says("user", "uuu")}, {"sss", "uuu"});
    found.several_systems =
        shows({says("system", "sss"), says("system", "ttt"), says("user", "uuu")}, {"sss", "ttt", "uuu"});
    found.late_system =
        shows({says("user", "uuu"), says("assistant", "aaa"), says("system", "ttt"), says("user", "vvv")},
              {"uuu", "aaa", "ttt", "vvv"});
    if (found.typed_content && found.system_role)
        found.typed_content =
            shows({message("system", parts("sss")), message("user", parts("uuu"))}, {"sss"});
    const Value tools = Value::list({object(
        {{"type", text("function")},
         {"function",
          object({{"name", text("probe_tool")},
                  {"description", text("probes")},
                  {"parameters",
                   object({{"type", text("object")},
                           {"properties", object({{"argument_name", object({{"type", text("string")},
                                                                            {"description", text("d")}})}})},
                           {"required", Value::list({text("argument_name")})}})}})}})});
    const auto with_tools = tried({says("user", "uuu")}, tools);
    found.tools = with_tools && has(*with_tools, "probe_tool");
    if (!found.tools) {
        Dict system = says("system", "sss");
        system.set("tools", Value::text(jinja::json_text(tools)));
        const auto prompt = tried({std::move(system), says("user", "uuu")});
        found.tools = found.tools_in_system = prompt && has(*prompt, "probe_tool");
    }
    probe_calls(found, tools);
    // A template that knows no tools and yet prints results prints any role: its model has never seen this
    // one.
    if (!found.tools && !found.tool_calls) found.tool_results = false;
    probe_thinking(found, source);
    return found;
}

void ChatTemplate::Engine::probe_calls(ChatCapabilities& found, const Value& tools) const {
    const auto content = [&](const char* words) {
        if (found.text_content) return text(words);
        return Value::list({object({{"type", text("text")}, {"text", text(words)}})});
    };
    const auto prompt_with = [&](Value arguments, bool null_content) {
        Dict call = message("assistant", null_content ? Value::none() : content(""));
        call.set("tool_calls",
                 Value::list({object({{"id", text("call00001")},
                                      {"type", text("function")},
                                      {"function", object({{"name", text("probe_call")},
                                                           {"arguments", std::move(arguments)}})}})}));
        Dict result = message("tool", content("rrr"));
        result.set("name", text("probe_call"));
        result.set("tool_call_id", text("call00001"));
        return tried({message("user", content("uuu")), std::move(call), std::move(result)},
                     found.tools ? tools : Value::none());
    };
    const Value arguments = object({{"argument_name", text("vvv")}});
    const Value as_text = text("{\"argument_name\": \"vvv\"}");
    const auto shown = [](const std::optional<std::string>& prompt) {
        return prompt && has(*prompt, "probe_call") && has(*prompt, "vvv") &&
               !has(*prompt, "'argument_name': 'vvv'");
    };
    std::optional<std::string> prompt;
    for (const bool null_content : {false, true}) {
        for (const bool text_arguments : {false, true}) {
            if (shown(prompt)) continue;
            auto tried_so = prompt_with(text_arguments ? as_text : arguments, null_content);
            if (!shown(tried_so) && (null_content || text_arguments)) continue;
            found.null_beside_calls = null_content;
            found.arguments_as_text = text_arguments;
            prompt = std::move(tried_so);
        }
    }
    found.tool_calls = shown(prompt);
    if (found.tool_calls) found.call_example = call_example(found);
    found.tool_results = prompt && has(*prompt, "rrr");
    if (found.typed_content && found.tool_results && found.text_content) {
        Dict result = message("tool", Value::list({object({{"type", text("text")}, {"text", text("rrr")}})}));
        result.set("name", text("probe_call"));
        result.set("tool_call_id", text("call00001"));
        const auto typed = tried({message("user", "uuu"), std::move(result)});
        if (typed && has(*typed, "'type': 'text'")) found.typed_content = false;
    }
}

// The turn of an answer that calls, less what opens and closes every answer.
std::string ChatTemplate::Engine::call_example(const ChatCapabilities& found) const {
    const auto content = [&](const char* words) {
        if (found.text_content) return text(words);
        return Value::list({object({{"type", text("text")}, {"text", text(words)}})});
    };
    const Value arguments = object({{"argument_name", text("value")}});
    Dict call = message("assistant", found.null_beside_calls ? Value::none() : content(""));
    call.set(
        "tool_calls",
        Value::list({object({{"id", text("call00001")},
                             {"type", text("function")},
                             {"function", object({{"name", text("function_name")},
                                                  {"arguments", found.arguments_as_text
                                                                    ? Value::text(jinja::json_text(arguments))
                                                                    : arguments}})}})}));
    ChatOptions closed;
    closed.add_generation_prompt = false;
    const Dict user = message("user", content("uuu"));
    const auto called = tried({user, std::move(call)}, Value::none(), closed);
    const auto answered = tried({user, message("assistant", content("aaa"))}, Value::none(), closed);
    const auto opened = tried({user});
    if (!called || !answered || !opened || !has(*called, "function_name")) return {};
    size_t begin = 0;
    while (begin < called->size() && begin < opened->size() && (*called)[begin] == (*opened)[begin]) ++begin;
    while (begin > 0 && begin < called->size() &&
           (static_cast<unsigned char>((*called)[begin]) & 0xC0) == 0x80)
        --begin;
    const size_t said = answered->rfind("aaa");
    const std::string_view ending =
        said == std::string::npos ? "" : std::string_view(*answered).substr(said + 3);
    std::string_view example = std::string_view(*called).substr(begin);
    if (!ending.empty() && example.size() > ending.size() &&
        example.substr(example.size() - ending.size()) == ending)
        example.remove_suffix(ending.size());
    // Some write an empty thought before the last answer.
    const size_t thought = example.find("</think>");
    if (thought < example.find("function_name")) example.remove_prefix(thought + 8);
    return std::string(jinja::stripped(example, true, true));
}

void ChatTemplate::Engine::probe_thinking(ChatCapabilities& found, std::string_view source) const {
    const Value user = found.text_content
                           ? text("uuu")
                           : Value::list({object({{"type", text("text")}, {"text", text("uuu")}})});
    const auto with = [&](const ChatOptions& options) {
        return tried({message("user", user)}, Value::none(), options);
    };
    ChatOptions on, off, low, high, bare;
    on.enable_thinking = true;
    off.enable_thinking = false;
    low.reasoning_effort = "low";
    high.reasoning_effort = "high";
    found.thinking_switch = with(on) != with(off);
    found.reasoning_effort = with(low) != with(high);
    Dict answer = message("assistant", found.text_content ? text("aaa") : user);
    answer.set("reasoning_content", text("rrr"));
    answer.set("thinking", text("rrr"));
    bare.add_generation_prompt = false;
    const auto history = tried({message("user", user), std::move(answer)}, Value::none(), bare);
    found.reasoning_history = history && has(*history, "rrr");
    found.thinking = found.thinking_switch || found.reasoning_effort || found.reasoning_history ||
                     has(source, "<think>") || has(source, "</think>") || has(source, ".Thinking");
}

ChatTemplate::ChatTemplate(std::string source, std::string bos_token, std::string eos_token,
                           TemplateLanguage language)
    : source_(std::move(source)),
      bos_token_(std::move(bos_token)),
      eos_token_(std::move(eos_token)),
      language_(language == TemplateLanguage::automatic ? language_of(source_) : language) {
    if (language_ == TemplateLanguage::go) {
        auto engine = std::make_unique<Engine>(Engine{GoTemplate(source_)});
        capabilities_ = std::get<GoTemplate>(engine->program).capabilities();
        engine_ = std::move(engine);
        return;
    }
    auto engine = std::make_unique<Engine>(Engine{jinja::Template(source_)});
    capabilities_ = engine->probed(source_);
    engine_ = std::move(engine);
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(std::string_view messages_json, std::string_view tools_json,
                                 const ChatOptions& options) const {
    try {
        Messages messages = read_messages(messages_json);
        Value tools = read_tools(tools_json);
        if (options.strip_reasoning) strip_reasoning(messages);
        fit_to_template(messages, tools, capabilities_, source_);
        if (options.continue_final_message) mark_continuation(messages);
        const jinja::Limits limits;
        std::string prompt;
        try {
            prompt = engine_->render(messages, tools, options, bos_token_, eos_token_, limits);
        } catch (const Failure& failure) {
            // Many templates insist on turns that alternate. If that does not help, the first complaint is
            // the one to tell.
            if (failure.status() != Status::invalid_argument) throw;
            const Messages merged = with_alternating_roles(messages);
            if (merged.size() == messages.size()) throw;
            try {
                prompt = engine_->render(merged, tools, options, bos_token_, eos_token_, limits);
            } catch (const Failure&) {
                throw failure;
            }
        }
        return options.continue_final_message ? cut_at_continuation(prompt) : prompt;
    } catch (const jinja::Trouble& trouble) {
        fail(Status::invalid_argument, "the conversation can't be put into the chat template: {}",
             trouble.message);
    }
}

}  // namespace coterie::text
