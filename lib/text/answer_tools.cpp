#include "text/answer_tools.h"

#include <algorithm>

#include "base/failure.h"
#include "base/json.h"
#include "text/answer_json.h"

namespace coterie::text {
namespace {

bool space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}
bool digit(char byte) {
    return byte >= '0' && byte <= '9';
}
bool letter(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
}

uint8_t type_bit(const std::string& name) {
    if (name == "string") return type_string;
    if (name == "integer") return type_integer;
    if (name == "number") return type_number | type_integer;
    if (name == "boolean") return type_boolean;
    if (name == "null") return type_null;
    if (name == "object") return type_object;
    if (name == "array") return type_array;
    return 0;
}

uint8_t value_type(const Json& value) {
    if (value.is_string()) return type_string;
    if (value.is_number_integer()) return type_integer;
    if (value.is_number_float()) return type_number;
    if (value.is_boolean()) return type_boolean;
    if (value.is_null()) return type_null;
    return value.is_object() ? type_object : type_array;
}

// The types a schema admits; 0 when it doesn't say. References lead into the tool's own parameters.
uint8_t schema_types(const Json& schema, const Json& root, int depth) {
    if (!schema.is_object() || depth > 16) return 0;
    if (const Json* type = schema.find("type")) {
        if (type->is_string()) return type_bit(type->get<std::string>());
        uint8_t bits = 0;
        if (type->is_array())
            for (const Json& name : *type)
                if (name.is_string()) bits |= type_bit(name.get<std::string>());
        return bits;
    }
    if (schema.contains("const")) return value_type(schema["const"]);
    if (const Json* values = schema.find("enum"); values && values->is_array()) {
        uint8_t bits = 0;
        for (const Json& value : *values) bits |= value_type(value);
        return bits;
    }
    if (const Json* reference = schema.find("$ref"); reference && reference->is_string()) {
        const auto path = reference->get<std::string>();
        if (path.rfind("#/", 0) != 0) return 0;
        const Json* place = root.at_pointer(path.substr(1));
        return place ? schema_types(*place, root, depth + 1) : 0;
    }
    for (const char* key : {"anyOf", "oneOf"}) {
        const Json* branches = schema.find(key);
        if (!branches || !branches->is_array()) continue;
        uint8_t bits = 0;
        for (const Json& branch : *branches) {
            const uint8_t types = schema_types(branch, root, depth + 1);
            if (types == 0) return 0;
            bits |= types;
        }
        return bits;
    }
    if (schema.contains("properties")) return type_object;
    return schema.contains("items") ? type_array : 0;
}

bool python_string(std::string_view source, size_t& at, std::string& out) {
    const char quote = source[at];
    const std::string_view triple = source.substr(at, 3);
    const bool is_triple = triple.size() == 3 && triple[1] == quote && triple[2] == quote;
    at += is_triple ? 3 : 1;
    JsonEscaper escaper;
    out += '"';
    for (; at < source.size(); ++at) {
        const char byte = source[at];
        if (byte == quote && (!is_triple || source.substr(at, 3) == triple)) {
            at += is_triple ? 3 : 1;
            escaper.flush(out);
            out += '"';
            return true;
        }
        if (byte != '\\' || at + 1 == source.size()) {
            escaper.feed(byte, out);
            continue;
        }
        const char escaped = source[++at];
        constexpr std::string_view from = "nrtbf0\\'\"", to{"\n\r\t\b\f\0\\'\"", 9};
        if (const size_t which = from.find(escaped); which != std::string_view::npos) {
            escaper.feed(to[which], out);
        } else if (escaped == 'u' || escaped == 'x') {
            const size_t digits = escaped == 'u' ? 4 : 2;
            const std::string hex(source.substr(at + 1, digits));
            if (hex.size() != digits || hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
                return false;
            const auto unit = static_cast<uint32_t>(std::stoul(hex, nullptr, 16));
            if (unit >= 0xD800 && unit <= 0xDFFF) return false;
            escaper.flush(out);
            out += fmt::format("\\u{:04x}", unit);
            at += digits;
        } else if (escaped != '\n') {
            escaper.feed('\\', out);
            escaper.feed(escaped, out);
        }
    }
    return false;
}

void skip_space(std::string_view source, size_t& at) {
    while (at < source.size() && space(source[at])) ++at;
}

bool python_sequence(std::string_view source, size_t& at, std::string& out, int depth) {
    const bool dict = source[at] == '{';
    const char close = dict ? '}' : source[at] == '[' ? ']' : ')';
    ++at;
    out += dict ? '{' : '[';
    for (bool first = true;; first = false) {
        skip_space(source, at);
        if (at < source.size() && source[at] == close) break;
        if (!first) out += ',';
        if (dict && (at >= source.size() || (source[at] != '"' && source[at] != '\''))) return false;
        if (!python_literal(source, at, out, depth + 1)) return false;
        skip_space(source, at);
        if (dict) {
            if (at >= source.size() || source[at] != ':') return false;
            ++at;
            out += ':';
            if (!python_literal(source, at, out, depth + 1)) return false;
            skip_space(source, at);
        }
        if (at < source.size() && source[at] == ',') {
            ++at;
            continue;
        }
        if (at >= source.size() || source[at] != close) return false;
        break;
    }
    ++at;
    out += dict ? '}' : ']';
    return true;
}

}  // namespace

ToolTypes::ToolTypes(std::string_view tools_json) {
    if (tools_json.empty()) return;
    const std::optional<Json> tools = Json::parse(tools_json);
    if (!tools || !tools->is_array())
        fail(Status::invalid_argument,
             "the tools are not a JSON list: pass the list of tools as OpenAI defines it");
    for (const Json& entry : *tools) {
        const Json& tool = entry.is_object() && entry.contains("function") ? entry["function"] : entry;
        if (!tool.is_object() || !tool.contains("name") || !tool["name"].is_string())
            fail(Status::invalid_argument,
                 "a tool has no name: each must be {{\"type\": \"function\", "
                 "\"function\": {{\"name\": ..., \"parameters\": ...}}}}");
        auto& types = tools_[tool["name"].get<std::string>()];
        const char* key = tool.contains("parameters") ? "parameters" : "input_schema";
        if (!tool.contains(key) || !tool[key].is_object() || !tool[key].contains("properties")) continue;
        const Json& root = tool[key];
        if (!root["properties"].is_object()) continue;
        for (const auto& property : root["properties"].items())
            types[property.key] = schema_types(property.value, root, 0);
    }
}

uint8_t ToolTypes::types(std::string_view name, std::string_view parameter) const {
    const auto tool = tools_.find(name);
    if (tool == tools_.end()) return 0;
    const auto found = tool->second.find(parameter);
    return found == tool->second.end() ? 0 : found->second;
}

bool python_literal(std::string_view source, size_t& at, std::string& out, int depth) {
    skip_space(source, at);
    if (depth > 64 || at >= source.size()) return false;
    const char first = source[at];
    if (first == '"' || first == '\'') return python_string(source, at, out);
    if (first == '[' || first == '{' || first == '(') return python_sequence(source, at, out, depth);
    size_t end = at;
    if (letter(first)) {
        while (end < source.size() && letter(source[end])) ++end;
        const std::string_view word = source.substr(at, end - at);
        if (word == "True" || word == "true")
            out += "true";
        else if (word == "False" || word == "false")
            out += "false";
        else if (word == "None" || word == "null")
            out += "null";
        else
            return false;
        at = end;
        return true;
    }
    while (end < source.size() &&
           (digit(source[end]) || std::string_view("+-.eE").find(source[end]) != std::string_view::npos))
        ++end;
    const std::optional<Json> number = Json::parse(source.substr(at, end - at));
    if (!number || !number->is_number()) return false;
    out += source.substr(at, end - at);
    at = end;
    return true;
}

std::string typed_value(std::string_view raw, uint8_t types) {
    if (types == type_string) return json_quoted(raw);
    size_t from = 0, to = raw.size();
    while (from < to && space(raw[from])) ++from;
    while (to > from && space(raw[to - 1])) --to;
    const std::string_view trimmed = raw.substr(from, to - from);
    std::string json(trimmed);
    std::optional<Json> value = Json::parse(trimmed);
    if (!value) {
        std::string converted;
        size_t at = 0;
        // Quotes around a whole value are the text's own, whatever language they look like.
        if (trimmed.empty() || trimmed.front() == '\'' || !python_literal(trimmed, at, converted) ||
            at != trimmed.size())
            return json_quoted(raw);
        value = Json::parse(converted);
        if (!value) return json_quoted(raw);
        json = std::move(converted);
    }
    uint8_t type = value_type(*value);
    if (types == 0) return type == type_string ? json_quoted(raw) : json;
    if (type == type_number && (types & (type_number | type_integer)) == type_integer) {
        // An integer written as 3.0
        const double number = value->get<double>();
        if (number == static_cast<double>(static_cast<int64_t>(std::clamp(number, -9e15, 9e15))))
            return fmt::format("{}", static_cast<int64_t>(number));
    }
    const bool quoted_string =
        type == type_string;  // "text" with quotes, for a parameter that isn't only a string
    if (quoted_string || (type & types) == 0) return json_quoted(raw);
    return json;
}

}  // namespace coterie::text
