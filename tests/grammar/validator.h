// A plain JSON Schema validator of the same subset, written from the standard and apart from the library: it
// follows
// `$ref`, judges every keyword by its definition, and matches patterns with PCRE2.
#pragma once
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace grammar_test {

using Json = nlohmann::ordered_json;

inline bool matches(const std::string& pattern, const std::string& text) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                     PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
    if (code == nullptr) throw std::string("PCRE2 refuses the pattern " + pattern);
    pcre2_match_data* data = pcre2_match_data_create_from_pattern(code, nullptr);
    const int count =
        pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, data, nullptr);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
    return count >= 0;
}

inline size_t characters(const std::string& text) {
    size_t count = 0;
    for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xC0) != 0x80 ? 1 : 0;
    return count;
}

class Validator {
  public:
    explicit Validator(const Json& document) : document_(document) {}

    // Why the value is invalid; empty if it is valid.
    std::string complaint(const Json& value) const { return check(document_, value); }

  private:
    static bool is(const Json& value, const std::string& type) {
        if (type == "integer")
            return value.is_number() && std::floor(value.get<double>()) == value.get<double>();
        if (type == "number") return value.is_number();
        return type == (value.is_object()    ? "object"
                        : value.is_array()   ? "array"
                        : value.is_string()  ? "string"
                        : value.is_boolean() ? "boolean"
                        : value.is_null()    ? "null"
                                             : "");
    }

    static bool equal(const Json& a, const Json& b) {
        if (a.is_number() && b.is_number()) return a.get<double>() == b.get<double>();
        return a == b;
    }

    std::string check(const Json& schema, const Json& value) const {
        if (schema.is_boolean()) return schema.get<bool>() ? "" : "false admits nothing";
        if (schema.contains("$ref")) {
            const std::string path = schema["$ref"].get<std::string>().substr(1);
            if (std::string why = check(document_.at(Json::json_pointer(path)), value); !why.empty())
                return why;
        }
        if (schema.contains("type")) {
            const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
            bool any = schema.contains("nullable") && value.is_null();
            for (const Json& type : types) any = any || is(value, type.get<std::string>());
            if (!any) return value.dump() + " has the wrong type";
        }
        if (schema.contains("const") && !equal(schema["const"], value))
            return value.dump() + " is not the constant";
        if (schema.contains("enum")) {
            bool any = false;
            for (const Json& each : schema["enum"]) any = any || equal(each, value);
            if (!any) return value.dump() + " is not among the values";
        }
        for (const Json& part : schema.value("allOf", Json::array()))
            if (std::string why = check(part, value); !why.empty()) return why;
        for (const char* key : {"anyOf", "oneOf"}) {
            if (!schema.contains(key)) continue;
            bool any = false;
            for (const Json& part : schema[key]) any = any || check(part, value).empty();
            if (!any) return value.dump() + " is none of the alternatives";
        }
        if (value.is_number()) return check_number(schema, value.get<double>());
        if (value.is_string()) return check_string(schema, value.get<std::string>());
        if (value.is_array()) return check_array(schema, value);
        return value.is_object() ? check_object(schema, value) : "";
    }

    static std::string check_number(const Json& schema, double value) {
        const auto bound = [&](const char* key, double otherwise) {
            return schema.value(key, Json(otherwise)).get<double>();
        };
        const double huge = 1e300;
        if (value < bound("minimum", -huge) || value > bound("maximum", huge) ||
            value <= bound("exclusiveMinimum", -huge) || value >= bound("exclusiveMaximum", huge))
            return std::to_string(value) + " is out of bounds";
        if (schema.contains("multipleOf") &&
            std::abs(std::remainder(value, schema["multipleOf"].get<double>())) > 1e-9)
            return std::to_string(value) + " is no multiple";
        return "";
    }

    static std::string check_string(const Json& schema, const std::string& value) {
        const size_t length = characters(value);
        if (length < schema.value("minLength", size_t{0}) || length > schema.value("maxLength", length))
            return "'" + value + "' has the wrong length";
        if (schema.contains("pattern") && !matches(schema["pattern"].get<std::string>(), value))
            return "'" + value + "' doesn't match";
        return "";
    }

    std::string check_array(const Json& schema, const Json& value) const {
        if (value.size() < schema.value("minItems", size_t{0}) ||
            value.size() > schema.value("maxItems", value.size()))
            return value.dump() + " has the wrong size";
        const Json prefix = schema.value("prefixItems", Json::array());
        for (size_t i = 0; i < value.size(); ++i)
            if (std::string why =
                    check(i < prefix.size() ? prefix[i] : schema.value("items", Json(true)), value[i]);
                !why.empty())
                return why;
        return "";
    }

    std::string check_object(const Json& schema, const Json& value) const {
        for (const Json& name : schema.value("required", Json::array()))
            if (!value.contains(name.get<std::string>())) return "lacks " + name.dump();
        if (value.size() < schema.value("minProperties", size_t{0}) ||
            value.size() > schema.value("maxProperties", value.size()))
            return "has the wrong count";
        const Json properties = schema.value("properties", Json::object()),
                   patterns = schema.value("patternProperties", Json::object());
        for (const auto& [name, item] : value.items()) {
            bool known = properties.contains(name);
            if (known)
                if (std::string why = check(properties[name], item); !why.empty()) return name + ": " + why;
            for (const auto& [pattern, also] : patterns.items()) {
                if (!matches(pattern, name)) continue;
                known = true;
                if (std::string why = check(also, item); !why.empty()) return name + ": " + why;
            }
            if (!known)
                if (std::string why = check(schema.value("additionalProperties", Json(true)), item);
                    !why.empty())
                    return name + ": " + why;
            if (std::string why = check(schema.value("propertyNames", Json(true)), Json(name)); !why.empty())
                return why;
        }
        return "";
    }

    const Json& document_;
};

}  // namespace grammar_test
