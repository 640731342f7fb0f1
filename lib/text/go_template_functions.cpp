#include "text/go_template_functions.h"

#include <algorithm>
#include <ctime>

#include "text/jinja_interpreter.h"
#include "text/jinja_text.h"

namespace coterie::text::go {
namespace {

using jinja::Dict;
using jinja::trouble;
using jinja::Value;

Value ordered(const Value& value, std::initializer_list<const char*> first) {
    if (!value.is_dict()) return value;
    Dict result;
    for (const char* key : first) {
        if (const Value* found = value.as_dict().find(key)) result.set(key, *found);
    }
    for (const auto& [key, item] : value.as_dict().entries()) {
        if (!result.find(key)) result.set(key, item);
    }
    return Value::dict(std::move(result));
}

Value with(const Value& value, const char* key, const Value& replacement) {
    Dict result = value.as_dict();
    result.set(key, replacement);
    return Value::dict(std::move(result));
}

const Value* member(const Value& value, const char* key) {
    return value.is_dict() ? value.as_dict().find(key) : nullptr;
}

void need(const std::vector<Value>& arguments, size_t least, size_t most, const std::string& name) {
    if (arguments.size() < least || arguments.size() > most)
        trouble("{} does not take {} arguments", name, arguments.size());
}

Value index_of(const std::vector<Value>& arguments) {
    Value value = arguments.front();
    for (size_t i = 1; i < arguments.size(); ++i) {
        if (value.is_none()) return value;
        if (value.is_dict()) {
            const Value* found = value.as_dict().find(arguments[i]);
            value = found ? *found : Value::none();
            continue;
        }
        const int64_t at = jinja::whole_argument(arguments[i], "index");
        const int64_t length = value.is_text()   ? static_cast<int64_t>(value.as_text().size())
                               : value.is_list() ? static_cast<int64_t>(value.items().size())
                                                 : -1;
        if (at < 0 || at >= length) trouble("index {} is out of range", at);
        value = value.is_text()
                    ? Value::integer(static_cast<unsigned char>(value.as_text()[static_cast<size_t>(at)]))
                    : Value(value.items()[static_cast<size_t>(at)]);
    }
    return value;
}

Value slice_of(const std::vector<Value>& arguments) {
    const Value& value = arguments.front();
    if (!value.is_text() && !value.is_list()) trouble("slice can't cut a {}", jinja::type_name(value));
    const int64_t length =
        static_cast<int64_t>(value.is_text() ? value.as_text().size() : value.items().size());
    const int64_t first = arguments.size() > 1 ? jinja::whole_argument(arguments[1], "slice") : 0;
    const int64_t last = arguments.size() > 2 ? jinja::whole_argument(arguments[2], "slice") : length;
    if (first < 0 || last > length || first > last) trouble("slice {}:{} is out of range", first, last);
    if (value.is_text())
        return Value::text(
            value.as_text().substr(static_cast<size_t>(first), static_cast<size_t>(last - first)));
    return Value::list({value.items().begin() + first, value.items().begin() + last});
}

bool compared(const std::string& name, const Value& left, const Value& right) {
    if (name == "lt") return jinja::less(left, right);
    if (name == "gt") return jinja::less(right, left);
    if (name == "le") return !jinja::less(right, left);
    return !jinja::less(left, right);
}

// nil and the empty string are told apart by Go's types; here an absent text equals an empty one.
bool same(const Value& left, const Value& right) {
    if (left.is_none() && right.is_text()) return right.as_text().empty();
    if (right.is_none() && left.is_text()) return left.as_text().empty();
    return jinja::equal(left, right);
}

Value date(std::optional<int64_t> now, int64_t days_back) {
    std::tm parts{};
    const std::time_t seconds =
        static_cast<std::time_t>(now.value_or(std::time(nullptr)) - days_back * 86400);
    if (now) {
        gmtime_r(&seconds, &parts);
    } else {
        localtime_r(&seconds, &parts);
    }
    char text[32];
    return Value::text(std::string(text, std::strftime(text, sizeof text, "%Y-%m-%d", &parts)));
}

// %v and %q are Go's own; the other conversions are those of C.
std::string formatted(const std::vector<Value>& arguments) {
    const std::string& format = jinja::text_argument(arguments.front(), "printf");
    std::string plain;
    std::vector<Value> values;
    size_t used = 1;
    for (size_t i = 0; i < format.size(); ++i) {
        plain += format[i];
        if (format[i] != '%') continue;
        if (i + 1 < format.size() && format[i + 1] == '%') {
            plain += format[++i];
            continue;
        }
        while (i + 1 < format.size() &&
               std::string_view("+-# 0123456789.").find(format[i + 1]) != std::string_view::npos)
            plain += format[++i];
        if (i + 1 >= format.size()) trouble("printf: the format ends inside a conversion");
        const char type = format[++i];
        if (used >= arguments.size()) trouble("printf: the format needs more values");
        const Value& value = arguments[used++];
        if (type == 'v' || type == 's' || type == 't') {
            plain += 's';
            values.push_back(Value::text(shown(value)));
        } else if (type == 'q') {
            plain += 's';
            values.push_back(Value::text(marshalled(Value::text(shown(value)))));
        } else {
            plain += type;
            values.push_back(value);
        }
    }
    return jinja::percent_formatted(plain, Value::tuple(std::move(values)));
}

std::string typescript_type(const Value& property) {
    const Value* any = member(property, "anyOf");
    const Value* type = member(property, "type");
    std::vector<std::string> parts;
    if (any && any->is_list()) {
        for (const Value& one : any->items()) parts.push_back(typescript_type(one));
    } else if (type && type->is_list()) {
        for (const Value& one : type->items()) {
            Dict alone;
            alone.set("type", one);
            parts.push_back(typescript_type(Value::dict(std::move(alone))));
        }
    } else {
        const std::string name = type && type->is_text() ? type->as_text() : "";
        if (name == "integer" || name == "number") return "number";
        if (name == "array") return "any[]";
        if (name == "object") return "Record<string, any>";
        return name == "string" || name == "boolean" || name == "null" ? name : "any";
    }
    std::string joined;
    for (const std::string& part : parts) joined += (joined.empty() ? "" : " | ") + part;
    return joined.empty() ? "any" : joined;
}

}  // namespace

std::string marshalled(const Value& value) {
    jinja::JsonStyle style;
    style.item_separator = ",";
    style.key_separator = ":";
    const std::string plain = jinja::json_text(value, style);
    std::string escaped;
    for (size_t i = 0; i < plain.size(); ++i) {
        const char c = plain[i];
        if (c == '<' || c == '>' || c == '&') {
            escaped += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else if (plain.compare(i, 3, "\u2028") == 0 || plain.compare(i, 3, "\u2029") == 0) {
            escaped += plain[i + 2] == '\xa8' ? "\\u2028" : "\\u2029";
            i += 2;
        } else {
            escaped += c;
        }
    }
    return escaped;
}

std::string shown(const Value& value) {
    if (value.is_none() || value.is_undefined()) return "";
    if (value.is_boolean()) return value.as_boolean() ? "true" : "false";
    if (value.is_real()) return fmt::format("{:g}", value.as_double());
    if (value.is_list()) {  // Ollama's lists of tools and calls print as JSON, Go's own lists as words
        const bool plain = std::none_of(value.items().begin(), value.items().end(),
                                        [](const Value& item) { return item.is_dict(); });
        if (plain) {
            std::string words;
            for (const Value& item : value.items()) words += (words.empty() ? "" : " ") + shown(item);
            return "[" + words + "]";
        }
    }
    if (value.is_dict() || value.is_list()) return marshalled(value);
    return jinja::printed(value);
}

Value call_function(const std::string& name, const std::vector<Value>& arguments,
                    std::optional<int64_t> now) {
    if (name == "eq") {
        need(arguments, 2, 100, name);
        return Value::boolean(std::any_of(arguments.begin() + 1, arguments.end(),
                                          [&](const Value& one) { return same(arguments.front(), one); }));
    }
    if (name == "ne") {
        need(arguments, 2, 2, name);
        return Value::boolean(!same(arguments[0], arguments[1]));
    }
    if (name == "lt" || name == "le" || name == "gt" || name == "ge") {
        need(arguments, 2, 2, name);
        return Value::boolean(compared(name, arguments[0], arguments[1]));
    }
    if (name == "not") {
        need(arguments, 1, 1, name);
        return Value::boolean(!jinja::truth(arguments[0]));
    }
    if (name == "len") {
        need(arguments, 1, 1, name);
        const Value& value = arguments[0];
        if (value.is_none()) return Value::integer(0);
        if (value.is_text()) return Value::integer(static_cast<int64_t>(value.as_text().size()));
        return Value::integer(jinja::length_of(value));
    }
    if (name == "index") {
        need(arguments, 1, 10, name);
        return index_of(arguments);
    }
    if (name == "slice") {
        need(arguments, 1, 3, name);
        return slice_of(arguments);
    }
    if (name == "json") {
        need(arguments, 1, 1, name);
        return Value::text(marshalled(arguments[0]));
    }
    if (name == "print" || name == "println") {
        std::string text;
        for (size_t i = 0; i < arguments.size(); ++i) {
            const bool spaced =
                i > 0 && (name == "println" || (!arguments[i].is_text() && !arguments[i - 1].is_text()));
            text += (spaced ? " " : "") + shown(arguments[i]);
        }
        return Value::text(name == "println" ? text + "\n" : text);
    }
    if (name == "printf") {
        need(arguments, 1, 100, name);
        return Value::text(formatted(arguments));
    }
    if (name == "currentDate") return date(now, 0);
    if (name == "yesterdayDate") return date(now, 1);
    if (name == "toTypeScriptType") {
        need(arguments, 1, 1, name);
        return Value::text(typescript_type(arguments[0]));
    }
    trouble("there is no function named '{}'", name);
}

Value ordered_tools(const Value& tools) {
    if (!tools.is_list()) return Value::list({});
    std::vector<Value> result;
    for (const Value& tool : tools.items()) {
        Value fitted = ordered(tool, {"type", "function"});
        const Value* function = member(fitted, "function");
        Value parameters =
            member(*function, "parameters") ? *member(*function, "parameters") : Value::dict(Dict());
        if (const Value* properties = member(parameters, "properties"); properties && properties->is_dict()) {
            Dict each;
            for (const auto& [name, property] : properties->as_dict().entries())
                each.set(name, ordered(property, {"anyOf", "type", "items", "description", "enum"}));
            parameters = with(parameters, "properties", Value::dict(std::move(each)));
        }
        parameters = ordered(parameters, {"type", "$defs", "items", "required", "properties"});
        const Value whole =
            with(ordered(*function, {"name", "description", "parameters"}), "parameters", parameters);
        result.push_back(with(fitted, "function", ordered(whole, {"name", "description", "parameters"})));
    }
    return Value::list(std::move(result));
}

}  // namespace coterie::text::go
