#include "text/chat_messages.h"

#include <algorithm>

#include "base/failure.h"
#include "text/jinja_text.h"

namespace coterie::text {
namespace {

using jinja::Dict;
using jinja::Value;

Value parsed(std::string_view json, const char* what) {
    try {
        return jinja::parse_json(json);
    } catch (const jinja::Trouble& trouble) {
        fail(Status::invalid_argument, "the {} are {}", what, trouble.message);
    }
}

const std::string* text_at(const Dict& dict, std::string_view key) {
    const Value* found = dict.find(key);
    return found && found->is_text() ? &found->as_text() : nullptr;
}

bool is_blank(const Value* value) {
    return !value || value->is_none();
}

// Parts of text only, each as {type: text, text: ...}.
Value read_parts(const Value& content, size_t index) {
    std::vector<Value> parts;
    for (const Value& part : content.items()) {
        if (part.is_text()) {
            Dict made;
            made.set("type", Value::text("text"));
            made.set("text", part);
            parts.push_back(Value::dict(std::move(made)));
            continue;
        }
        const std::string* type = part.is_dict() ? text_at(part.as_dict(), "type") : nullptr;
        const std::string* text = part.is_dict() ? text_at(part.as_dict(), "text") : nullptr;
        if (part.is_dict() && !text) text = text_at(part.as_dict(), "refusal");
        if (!text && type && *type != "text")
            fail(Status::unsupported, "message {} has a part of type '{}'; only text can be read", index,
                 *type);
        if (!text)
            fail(Status::invalid_argument,
                 "message {} has a content part that is not {{\"type\": \"text\", \"text\": ...}}", index);
        Dict made;
        made.set("type", Value::text("text"));
        made.set("text", Value::text(*text));
        parts.push_back(Value::dict(std::move(made)));
    }
    return Value::list(std::move(parts));
}

std::string joined_parts(const Value& content) {
    if (content.is_none()) return {};
    if (content.is_text()) return content.as_text();
    std::string text;
    bool first = true;
    for (const Value& part : content.items()) {
        if (!first) text += '\n';
        first = false;
        text += *text_at(part.as_dict(), "text");
    }
    return text;
}

std::string content_text(const Dict& message) {
    return joined_parts(*message.find("content"));
}

Value read_calls(const Value& calls, size_t index, size_t& count) {
    if (!calls.is_list()) fail(Status::invalid_argument, "message {}: tool_calls is not a list", index);
    std::vector<Value> result;
    for (const Value& call : calls.items()) {
        const Value* function = call.is_dict() ? call.as_dict().find("function") : nullptr;
        if (!function || !function->is_dict() || !text_at(function->as_dict(), "name"))
            fail(Status::invalid_argument,
                 "message {}: a tool call needs {{\"function\": {{\"name\": ..., \"arguments\": ...}}}}",
                 index);
        Dict inner = function->as_dict();
        const Value* arguments = inner.find("arguments");
        if (is_blank(arguments) ||
            (arguments->is_text() && jinja::stripped(arguments->as_text(), true, true).empty())) {
            inner.set("arguments", Value::dict(Dict()));
        } else if (arguments->is_text()) {
            try {
                Value object = jinja::parse_json(arguments->as_text());
                if (object.is_dict()) inner.set("arguments", std::move(object));
            } catch (const jinja::Trouble&) {
                // Not JSON: the model wrote it so, and the template shall see what it wrote.
            }
        }
        Dict outer = call.as_dict();
        if (!text_at(outer, "id")) outer.set("id", Value::text(fmt::format("call{:05}", count)));
        if (!text_at(outer, "type")) outer.set("type", Value::text("function"));
        outer.set("function", Value::dict(std::move(inner)));
        ++count;
        result.push_back(Value::dict(std::move(outer)));
    }
    return Value::list(std::move(result));
}

// The reasoning of an answer, under whichever name it came, goes under the two names templates read.
void spread_reasoning(Dict& message) {
    for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
        const std::string* reasoning = text_at(message, name);
        if (!reasoning) continue;
        const Value value = Value::text(*reasoning);
        if (reasoning->empty()) {
            for (const char* other : {"reasoning_content", "thinking", "reasoning"}) message.erase(other);
            return;
        }
        if (!message.find("thinking")) message.set("thinking", value);
        message.set("reasoning_content", value);
        return;
    }
}

// Calls that wait for a result, in order: a result without an id or a name takes them from here.
struct OpenCall {
    std::string id, name;
};

void complete_result(Dict& message, std::vector<OpenCall>& open) {
    if (const std::string* name = text_at(message, "tool_name"); name && !text_at(message, "name"))
        message.set("name", Value::text(*name));
    const std::string* id = text_at(message, "tool_call_id");
    const std::string* name = text_at(message, "name");
    auto call = std::find_if(open.begin(), open.end(), [&](const OpenCall& one) {
        return id ? one.id == *id : !name || one.name == *name;
    });
    if (call == open.end()) return;
    const OpenCall found = *call;
    open.erase(call);
    if (!id) message.set("tool_call_id", Value::text(found.id));
    if (!name) message.set("name", Value::text(found.name));
}

// The calls of an answer as the text a model would have written: in the markup the template speaks of, else
// as JSON inside tags.
std::string calls_in_words(const Value& calls, std::string_view source) {
    const bool listed = source.find("<|tool_call|>") != std::string_view::npos;          // Granite
    const bool pythonic = source.find("<|tool_list_start|>") != std::string_view::npos;  // LFM2
    std::string text = pythonic ? "<|tool_call_start|>[" : listed ? "<|tool_call|>[" : "";
    bool first = true;
    for (const Value& call : calls.items()) {
        const Dict& function = call.as_dict().find("function")->as_dict();
        const Value& arguments = *function.find("arguments");
        if (!first) text += pythonic || listed ? ", " : "\n";
        first = false;
        if (pythonic && arguments.is_dict()) {
            std::string given;
            for (const auto& [name, value] : arguments.as_dict().entries())
                given += (given.empty() ? "" : ", ") + jinja::printed(name) + "=" + jinja::repr(value);
            text += function.find("name")->as_text() + "(" + given + ")";
            continue;
        }
        Dict plain;
        plain.set("name", *function.find("name"));
        plain.set("arguments", arguments);
        const std::string json = jinja::json_text(Value::dict(std::move(plain)));
        text += pythonic || listed ? json : "<tool_call>\n" + json + "\n</tool_call>";
    }
    return text + (pythonic ? "]<|tool_call_end|>" : listed ? "]" : "");
}

std::string tools_in_words(const Value& tools, const std::string& call_example) {
    std::string text =
        "You can call functions. These are their signatures, one JSON object a line:\n<tools>\n";
    for (const Value& tool : tools.items()) text += jinja::json_text(tool) + "\n";
    text += "</tools>\n\n";
    if (!call_example.empty()) return text + "To call a function, answer in this form:\n" + call_example;
    return text +
           "To call a function, answer with its name and arguments as a JSON object inside tags, once for "
           "each call:\n"
           "<tool_call>\n{\"name\": \"the function\", \"arguments\": {\"the argument\": \"its "
           "value\"}}\n</tool_call>";
}

void append_content(Dict& message, const std::string& text) {
    const std::string before = content_text(message);
    message.set("content",
                Value::text(before.empty() || text.empty() ? before + text : before + "\n\n" + text));
}

Dict made_message(const char* role, std::string content) {
    Dict message;
    message.set("role", Value::text(role));
    message.set("content", Value::text(std::move(content)));
    return message;
}

void put_tools_in_words(Messages& messages, Value& tools, const std::string& call_example) {
    const std::string text = tools_in_words(tools, call_example);
    if (!messages.empty() && role_of(messages.front()) == "system") {
        append_content(messages.front(), text);
    } else {
        messages.insert(messages.begin(), made_message("system", text));
    }
    tools = Value::none();
}

void put_calls_in_words(Messages& messages, const ChatCapabilities& capabilities, std::string_view source) {
    for (Dict& message : messages) {
        const Value* calls = message.find("tool_calls");
        if (calls && !capabilities.tool_calls) {
            const std::string said = content_text(message);
            const std::string text = said + (said.empty() ? "" : "\n") + calls_in_words(*calls, source);
            message.erase("tool_calls");
            message.set("content", Value::text(text));
        }
        if (role_of(message) == "tool" && !capabilities.tool_results)
            message =
                made_message("user", "<tool_response>\n" + content_text(message) + "\n</tool_response>");
    }
}

void fit_systems(Messages& messages, const ChatCapabilities& capabilities) {
    size_t leading = 0;
    while (leading < messages.size() && role_of(messages[leading]) == "system") ++leading;
    if (leading > 1 && !capabilities.several_systems) {
        for (size_t i = 1; i < leading; ++i) append_content(messages.front(), content_text(messages[i]));
        messages.erase(messages.begin() + 1, messages.begin() + static_cast<std::ptrdiff_t>(leading));
        leading = 1;
    }
    if (!capabilities.late_system) {
        for (size_t i = leading; i < messages.size(); ++i) {
            if (role_of(messages[i]) == "system") messages[i].set("role", Value::text("user"));
        }
    }
    if (leading == 0 || capabilities.system_role) return;
    const std::string system = content_text(messages.front());
    messages.erase(messages.begin());
    const auto user = std::find_if(messages.begin(), messages.end(),
                                   [](const Dict& one) { return role_of(one) == "user"; });
    if (user == messages.end()) {
        if (!system.empty()) messages.insert(messages.begin(), made_message("user", system));
    } else if (!system.empty()) {
        user->set("content", Value::text(system + "\n\n" + content_text(*user)));
    }
}

// Mistral's templates refuse ids that are not nine letters and digits.
void shorten_ids(Messages& messages) {
    Dict renamed;
    const auto fitting = [](const std::string& id) {
        return id.size() == 9 && std::all_of(id.begin(), id.end(), [](char c) {
                   return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
               });
    };
    const auto short_id = [&](const std::string& id) {
        if (fitting(id)) return id;
        if (const Value* known = renamed.find(id)) return known->as_text();
        std::string made = fmt::format("{:09}", renamed.size() + 1);
        renamed.set(id, Value::text(made));
        return made;
    };
    for (Dict& message : messages) {
        if (const std::string* id = text_at(message, "tool_call_id"))
            message.set("tool_call_id", Value::text(short_id(*id)));
        const Value* calls = message.find("tool_calls");
        if (!calls) continue;
        std::vector<Value> changed;
        for (const Value& call : calls->items()) {
            Dict copy = call.as_dict();
            copy.set("id", Value::text(short_id(*text_at(copy, "id"))));
            changed.push_back(Value::dict(std::move(copy)));
        }
        message.set("tool_calls", Value::list(std::move(changed)));
    }
}

void put_arguments_as_text(Messages& messages) {
    for (Dict& message : messages) {
        const Value* calls = message.find("tool_calls");
        if (!calls) continue;
        std::vector<Value> changed;
        for (const Value& call : calls->items()) {
            Dict outer = call.as_dict();
            Dict inner = outer.find("function")->as_dict();
            if (!inner.find("arguments")->is_text())
                inner.set("arguments", Value::text(jinja::json_text(*inner.find("arguments"))));
            outer.set("function", Value::dict(std::move(inner)));
            changed.push_back(Value::dict(std::move(outer)));
        }
        message.set("tool_calls", Value::list(std::move(changed)));
    }
}

}  // namespace

std::string role_of(const Dict& message) {
    return message.find("role")->as_text();
}

Messages read_messages(std::string_view json) {
    const Value list = parsed(json, "messages");
    if (!list.is_list()) fail(Status::invalid_argument, "the messages are not a JSON list");
    if (list.items().empty()) fail(Status::invalid_argument, "there are no messages");
    Messages messages;
    std::vector<OpenCall> open;
    size_t calls = 0;
    for (size_t i = 0; i < list.items().size(); ++i) {
        const Value& one = list.items()[i];
        if (!one.is_dict() || !text_at(one.as_dict(), "role"))
            fail(Status::invalid_argument, "message {} is not an object with a role", i);
        Dict message;
        for (const auto& [key, value] : one.as_dict().entries()) {
            if (!value.is_none()) message.set(key, value);
        }
        std::string role = jinja::lower(role_of(message));
        if (role == "function") role = "tool";
        message.set("role", Value::text(role));
        const Value* content = message.find("content");
        if (is_blank(content)) {
            message.set("content", Value::text(""));
        } else if (content->is_list()) {
            message.set("content", read_parts(*content, i));
        } else if (!content->is_text()) {
            if (role != "tool")
                fail(Status::invalid_argument, "message {}: content is neither a string nor a list of parts",
                     i);
            message.set("content", Value::text(jinja::json_text(*content)));
        }
        if (const Value* made = message.find("tool_calls")) {
            if (made->is_list() && made->items().empty()) {
                message.erase("tool_calls");
            } else {
                message.set("tool_calls", read_calls(*made, i, calls));
                open.clear();
                for (const Value& call : message.find("tool_calls")->items()) {
                    const Dict& function = call.as_dict().find("function")->as_dict();
                    open.push_back({*text_at(call.as_dict(), "id"), *text_at(function, "name")});
                }
            }
        }
        if (role == "tool") complete_result(message, open);
        if (role == "assistant") spread_reasoning(message);
        messages.push_back(std::move(message));
    }
    return messages;
}

Value read_tools(std::string_view json) {
    if (jinja::stripped(json, true, true).empty()) return Value::none();
    const Value list = parsed(json, "tools");
    if (list.is_none()) return list;
    if (!list.is_list()) fail(Status::invalid_argument, "the tools are not a JSON list");
    std::vector<Value> tools;
    for (size_t i = 0; i < list.items().size(); ++i) {
        const Value& tool = list.items()[i];
        const Value* function = tool.is_dict() ? tool.as_dict().find("function") : nullptr;
        const bool bare = tool.is_dict() && !function && text_at(tool.as_dict(), "name");
        if (!bare && (!function || !function->is_dict() || !text_at(function->as_dict(), "name")))
            fail(Status::invalid_argument,
                 "tool {} is not {{\"type\": \"function\", \"function\": {{\"name\": ...}}}}", i);
        if (!bare) {
            tools.push_back(tool);
            continue;
        }
        Dict wrapped, inner;
        for (const auto& [key, value] : tool.as_dict().entries()) {
            if (key.as_text() != "type") inner.set(key, value);
        }
        wrapped.set("type", Value::text("function"));
        wrapped.set("function", Value::dict(std::move(inner)));
        tools.push_back(Value::dict(std::move(wrapped)));
    }
    return tools.empty() ? Value::none() : Value::list(std::move(tools));
}

void fit_to_template(Messages& messages, Value& tools, const ChatCapabilities& capabilities,
                     std::string_view source) {
    if (source.find("developer") == std::string_view::npos) {
        for (Dict& message : messages) {
            if (role_of(message) == "developer") message.set("role", Value::text("system"));
        }
    }
    if (!capabilities.typed_content) {
        for (Dict& message : messages) message.set("content", Value::text(content_text(message)));
    }
    if (!tools.is_none() && !capabilities.tools)
        put_tools_in_words(messages, tools, capabilities.call_example);
    if (!tools.is_none() && capabilities.tools_in_system) {
        if (messages.empty() || role_of(messages.front()) != "system")
            messages.insert(messages.begin(), made_message("system", ""));
        messages.front().set("tools", Value::text(jinja::json_text(tools)));
        tools = Value::none();
    }
    put_calls_in_words(messages, capabilities, source);
    if (capabilities.arguments_as_text) put_arguments_as_text(messages);
    if (capabilities.null_beside_calls) {
        for (Dict& message : messages) {
            if (message.find("tool_calls") && content_text(message).empty())
                message.set("content", Value::none());
        }
    }
    fit_systems(messages, capabilities);
    if (source.find("!= 9") != std::string_view::npos || source.find("!=9") != std::string_view::npos)
        shorten_ids(messages);
    if (!capabilities.text_content && capabilities.typed_content) {
        for (Dict& message : messages) {
            if (!message.find("content")->is_text()) continue;  // null beside calls stays null
            Dict part;
            part.set("type", Value::text("text"));
            part.set("text", *message.find("content"));
            message.set("content", Value::list({Value::dict(std::move(part))}));
        }
    }
}

Messages with_alternating_roles(const Messages& messages) {
    Messages merged;
    for (Dict message : messages) {
        if (role_of(message) == "system" && !merged.empty() && role_of(merged.back()) != "system")
            message.set("role", Value::text("user"));
        const std::string role = role_of(message);
        const bool plain =
            !message.find("tool_calls") && (role == "user" || role == "system" || role == "assistant");
        if (plain && !merged.empty() && role_of(merged.back()) == role && !merged.back().find("tool_calls")) {
            append_content(merged.back(), content_text(message));
        } else {
            merged.push_back(std::move(message));
        }
    }
    return merged;
}

void strip_reasoning(Messages& messages) {
    for (Dict& message : messages) {
        if (role_of(message) != "assistant") continue;
        for (const char* name : {"reasoning_content", "thinking", "reasoning"}) message.erase(name);
        if (!message.find("content")->is_text()) continue;
        const std::string& content = message.find("content")->as_text();
        const size_t end = content.rfind("</think>");
        if (end != std::string::npos)
            message.set("content", Value::text(std::string(jinja::stripped(
                                       std::string_view(content).substr(end + 8), true, false))));
    }
}

Value as_value(const Messages& messages) {
    std::vector<Value> list;
    list.reserve(messages.size());
    for (const Dict& message : messages) list.push_back(Value::dict(message));
    return Value::list(std::move(list));
}

}  // namespace coterie::text
