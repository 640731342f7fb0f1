// Schemas into schemas: references followed, allOf and siblings joined, keywords checked. What comes out has
// no $ref and no allOf at its top; subschemas stay as they are until somebody asks for them.
#include <algorithm>

#include "base/failure.h"
#include "text/json_schema_rules.h"

namespace coterie::text {
namespace {

constexpr int most_steps = 64;
constexpr size_t most_branches = 256;

bool annotation(const std::string& key) {
    constexpr std::string_view known[] = {
        "title",       "description", "default",         "examples",         "example",       "$schema",
        "$id",         "id",          "$comment",        "deprecated",       "readOnly",      "writeOnly",
        "$defs",       "definitions", "contentEncoding", "contentMediaType", "contentSchema", "strict",
        "$vocabulary", "$anchor",     "discriminator",   "externalDocs",     "xml",           "name"};
    return std::find(std::begin(known), std::end(known), key) != std::end(known) || key.rfind("x-", 0) == 0;
}

bool keyword(const std::string& key) {
    constexpr std::string_view known[] = {"type",
                                          "properties",
                                          "required",
                                          "additionalProperties",
                                          "patternProperties",
                                          "propertyNames",
                                          "minProperties",
                                          "maxProperties",
                                          "enum",
                                          "const",
                                          "items",
                                          "prefixItems",
                                          "additionalItems",
                                          "minItems",
                                          "maxItems",
                                          "minLength",
                                          "maxLength",
                                          "pattern",
                                          "format",
                                          "minimum",
                                          "maximum",
                                          "exclusiveMinimum",
                                          "exclusiveMaximum",
                                          "multipleOf",
                                          "anyOf",
                                          "oneOf",
                                          "allOf",
                                          "$ref",
                                          "nullable"};
    return std::find(std::begin(known), std::end(known), key) != std::end(known);
}

std::vector<std::string> type_names(const Json& type) {
    if (type.is_string()) return {type.get<std::string>()};
    std::vector<std::string> names;
    for (const Json& name : type)
        if (name.is_string()) names.push_back(name.get<std::string>());
    return names;
}

Json common_types(const Json& a, const Json& b) {
    Json both = Json::array();
    const auto has = [](const std::vector<std::string>& names, const std::string& name) {
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    const std::vector<std::string> left = type_names(a), right = type_names(b);
    for (const std::string& name : left) {
        if (has(right, name) || (name == "integer" && has(right, "number")))
            both.push_back(name);
        else if (name == "number" && has(right, "integer"))
            both.push_back("integer");
    }
    return both;
}

Json both_of(const Json& a, const Json& b) {
    if (a == b || b == Json(true) || b == Json::object()) return a;
    if (a == Json(true) || a == Json::object()) return b;
    return Json{{"allOf", Json::array({a, b})}};
}

}  // namespace

void JsonSchemaRules::unsupported(const std::string& pointer, std::string_view what) const {
    if (!options_.lenient)
        fail(Status::unsupported,
             "the JSON schema at '{}' {}; remove it, or ask for a lenient reading, which ignores it",
             pointer.empty() ? "/" : pointer, what);
}

void JsonSchemaRules::check_keywords(const Json& schema, const std::string& pointer) const {
    for (const auto& [key, value] : schema.items()) {
        if (keyword(key) || annotation(key)) continue;
        if (key == "not" && value != Json::object()) {
            unsupported(pointer + "/not", "says what must not be, which constrained output can't follow");
            continue;
        }
        if (key == "not" ||
            ((key == "uniqueItems" || key == "unevaluatedProperties" || key == "unevaluatedItems") &&
             value == Json(false)))
            continue;
        unsupported(pointer + "/" + key, "has a keyword that constrained output can't follow");
    }
}

const Json& JsonSchemaRules::target(const std::string& reference, const std::string& pointer) const {
    if (reference == "#") return document_;
    if (reference.rfind("#/", 0) != 0)
        fail(Status::unsupported,
             "the JSON schema at '{}' refers to '{}'; only references inside the document, #/..., can be "
             "followed",
             pointer, reference);
    std::string path;
    for (size_t i = 1; i < reference.size(); ++i) {
        const std::string hex = reference[i] == '%' ? reference.substr(i + 1, 2) : "";
        if (hex.size() == 2 && hex.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos) {
            path += static_cast<char>(std::stoi(hex, nullptr, 16));
            i += 2;
        } else {
            path += reference[i];
        }
    }
    if (const Json* place = document_.at_pointer(path)) return *place;
    fail(Status::invalid_argument, "the JSON schema at '{}' refers to '{}', which isn't there", pointer,
         reference);
}

Json JsonSchemaRules::resolved(Json schema, const std::string& pointer) {
    for (int step = 0; schema.is_object(); ++step) {
        if (step > most_steps)
            fail(Status::invalid_argument, "the JSON schema at '{}' refers to itself without end", pointer);
        if (const Json* reference = schema.find("$ref")) {
            if (!reference->is_string())
                fail(Status::invalid_argument, "the JSON schema's '{}/$ref' is not a text", pointer);
            const Json& to = target(reference->get<std::string>(), pointer);
            schema.erase("$ref");
            schema.erase_if(annotation);
            schema = schema.empty() ? to : merged(to, schema, pointer, step);
        } else if (const Json* all = schema.find("allOf")) {
            if (!all->is_array())
                fail(Status::invalid_argument, "the JSON schema's '{}/allOf' is not a list", pointer);
            const Json parts = *all;
            schema.erase("allOf");
            for (const Json& part : parts) schema = merged(schema, part, pointer, step);
        } else {
            break;
        }
    }
    return schema;
}

void JsonSchemaRules::merge_objects(Json& into, const Json& a, const Json& b) {
    const auto schema_for = [](const Json& schema, const std::string& name) -> Json {
        if (schema.contains("properties") && schema["properties"].contains(name))
            return schema["properties"][name];
        return schema.contains("additionalProperties") ? schema["additionalProperties"] : Json(true);
    };
    Json properties = Json::object();
    for (const Json* side : {&a, &b}) {
        if (!side->contains("properties")) continue;
        for (const auto& entry : (*side)["properties"].items()) {
            if (properties.contains(entry.key)) continue;
            Json both = both_of(schema_for(a, entry.key), schema_for(b, entry.key));
            const bool impossible = both == Json(false) ||
                                    (both.contains("allOf") && both["allOf"][1] == Json(false)) ||
                                    (both.contains("allOf") && both["allOf"][0] == Json(false));
            properties[entry.key] = impossible ? Json(false) : std::move(both);
        }
    }
    if (!properties.empty()) into["properties"] = std::move(properties);
    if (a.contains("additionalProperties") || b.contains("additionalProperties")) {
        const Json left = a.value("additionalProperties", Json(true)),
                   right = b.value("additionalProperties", Json(true));
        into["additionalProperties"] =
            left == Json(false) || right == Json(false) ? Json(false) : both_of(left, right);
    }
}

Json JsonSchemaRules::merged(const Json& left, const Json& right, const std::string& pointer, int depth) {
    if (depth > most_steps)
        fail(Status::invalid_argument, "the JSON schema at '{}' refers to itself without end", pointer);
    const auto flat = [&](const Json& schema) {
        const bool nested = schema.is_object() && (schema.contains("$ref") || schema.contains("allOf"));
        if (!nested) return schema;
        if (++depth_ > most_steps)
            fail(Status::invalid_argument, "the JSON schema at '{}' refers to itself without end", pointer);
        Json result = resolved(schema, pointer);
        --depth_;
        return result;
    };
    const Json a = flat(left), b = flat(right);
    if (a == Json(false) || b == Json(false)) return Json(false);
    if (!a.is_object() || a.empty()) return b;
    if (!b.is_object() || b.empty()) return a;
    check_keywords(a, pointer);
    check_keywords(b, pointer);
    Json result = a;
    for (const auto& [key, value] : b.items()) {
        if (key == "properties" || key == "additionalProperties") continue;  // together, below
        if (!result.contains(key)) {
            result[key] = value;
            continue;
        }
        Json& mine = result[key];
        if (mine == value || annotation(key)) continue;
        if (key == "type") {
            mine = common_types(mine, value);
        } else if (key == "required") {
            for (const Json& name : value)
                if (std::find(mine.begin(), mine.end(), name) == mine.end()) mine.push_back(name);
        } else if (key == "enum") {
            Json common = Json::array();
            for (const Json& item : mine)
                if (std::find(value.begin(), value.end(), item) != value.end()) common.push_back(item);
            mine = std::move(common);
        } else if (key == "const") {
            return Json(false);
        } else if (key.rfind("min", 0) == 0 || key == "exclusiveMinimum") {
            if (mine.is_number() && value.is_number() && mine < value) mine = value;
        } else if (key.rfind("max", 0) == 0 || key == "exclusiveMaximum") {
            if (mine.is_number() && value.is_number() && value < mine) mine = value;
        } else if (key == "items" || key == "propertyNames" || key == "additionalItems") {
            mine = both_of(mine, value);
        } else if (key == "prefixItems" && mine.is_array() && value.is_array() &&
                   mine.size() == value.size()) {
            for (size_t i = 0; i < mine.size(); ++i) mine[i] = both_of(mine[i], value[i]);
        } else if (key == "nullable") {
            mine = Json(false);
        } else if (key == "anyOf" || key == "oneOf") {
            if (!mine.is_array() || !value.is_array() || mine.size() * value.size() > most_branches)
                fail(Status::unsupported, "the JSON schema at '{}' combines too many alternatives", pointer);
            Json product = Json::array();
            for (const Json& one : mine)
                for (const Json& other : value) product.push_back(both_of(one, other));
            mine = std::move(product);
        } else {
            unsupported(
                pointer + "/" + key,
                "has two different values joined by allOf or $ref that constrained output can't both follow");
        }
    }
    merge_objects(result, a, b);
    return result;
}

}  // namespace coterie::text
