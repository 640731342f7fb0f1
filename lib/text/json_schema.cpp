// Schemas to rules: alternatives, enumerations, types; strings and numbers. Objects and arrays are in
// json_schema_containers.cpp.
#include "text/json_schema.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/failure.h"
#include "text/grammar_automaton.h"
#include "text/json_schema_rules.h"

namespace coterie::text {
namespace {

using Node = GrammarRules::Node;

constexpr size_t largest_schema = 1 << 20;
constexpr int deepest_schema = 100;

bool of_json_type(const Json& value, const std::string& type) {
    if (type == "string") return value.is_string();
    if (type == "integer")
        return value.is_number_integer() ||
               (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
    if (type == "number") return value.is_number();
    if (type == "boolean") return value.is_boolean();
    if (type == "null") return value.is_null();
    if (type == "object") return value.is_object();
    return type == "array" && value.is_array();
}

std::vector<std::string> types_of(const Json& schema, const std::string& pointer) {
    const Json* type = schema.find("type");
    std::vector<std::string> types;
    const auto has_any = [&](std::initializer_list<const char*> keys) {
        return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return schema.contains(key); });
    };
    if (type) {
        if (type->is_string())
            types = {type->get<std::string>()};
        else if (type->is_array())
            for (const Json& name : *type)
                types.push_back(name.is_string() ? name.get<std::string>() : std::string());
        constexpr std::string_view known[] = {"string", "integer", "number", "boolean",
                                              "null",   "object",  "array"};
        for (const std::string& name : types)
            if (std::find(std::begin(known), std::end(known), name) == std::end(known))
                fail(Status::invalid_argument, "the JSON schema's '{}/type' has an unknown type '{}'",
                     pointer, name);
    } else if (has_any({"properties", "required", "additionalProperties", "patternProperties",
                        "propertyNames", "minProperties", "maxProperties"})) {
        types = {"object"};
    } else if (has_any({"items", "prefixItems", "minItems", "maxItems"})) {
        types = {"array"};
    } else if (has_any({"pattern", "format", "minLength", "maxLength"})) {
        types = {"string"};
    } else if (has_any({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})) {
        types = {"number"};
    } else {
        types = {"any"};
    }
    if (schema.value("nullable", Json(false)) == Json(true) &&
        std::find(types.begin(), types.end(), "null") == types.end() && types[0] != "any")
        types.emplace_back("null");
    return types;
}

// Lengths, in characters, of what a pattern can match.
struct Lengths {
    uint64_t least, most;
};
constexpr uint64_t endless = std::numeric_limits<uint32_t>::max();

Lengths lengths(const GrammarRules& rules, Node node) {
    const GrammarRules::Expression& e = rules.expression(node);
    Lengths result{0, 0};
    switch (e.kind) {
        case GrammarRules::Kind::set:
            return {1, 1};
        case GrammarRules::Kind::sequence:
            for (Node part : e.parts) {
                const Lengths of = lengths(rules, part);
                result = {std::min(endless, result.least + of.least),
                          std::min(endless, result.most + of.most)};
            }
            return result;
        case GrammarRules::Kind::choice:
            result.least = endless;
            for (Node part : e.parts) {
                const Lengths of = lengths(rules, part);
                result = {std::min(result.least, of.least), std::max(result.most, of.most)};
            }
            return result;
        case GrammarRules::Kind::repeat: {
            const Lengths of = lengths(rules, e.parts[0]);
            return {std::min(endless, of.least * e.least),
                    e.most >= endless && of.most > 0 ? endless : std::min(endless, of.most * e.most)};
        }
        default:
            return {0, endless};
    }
}

}  // namespace

JsonSchemaRules::JsonSchemaRules(GrammarRules& rules, const Json& document, JsonSchemaOptions options)
    : rules_(rules), document_(document), options_(options) {}

Node JsonSchemaRules::gap() {
    if (options_.spacing == JsonSpacing::compact) return rules_.empty();
    return options_.spacing == JsonSpacing::spaced ? rules_.optional(rules_.bytes(" ")) : edge();
}

Node JsonSchemaRules::edge() {
    if (options_.spacing != JsonSpacing::free) return rules_.empty();
    const Node indentation = rules_.repeat(rules_.set({{' ', ' '}, {'\t', '\t'}}), 0, 32);
    return rules_.optional(
        rules_.choice({rules_.bytes(" "), rules_.sequence({rules_.bytes("\n"), indentation})}));
}

Node JsonSchemaRules::quoted(Node inside) {
    return rules_.sequence({rules_.bytes("\""), inside, rules_.bytes("\"")});
}

Node JsonSchemaRules::literal(const Json& value) {
    return rules_.bytes(value.dump());
}

Node JsonSchemaRules::any_object() {
    if (!any_object_) {
        any_object_ = rules_.declare("object");
        const Node pair = rules_.sequence({quoted(rules_.json_characters(0, GrammarRules::unbounded)),
                                           rules_.bytes(":"), gap(), any_value()});
        const Node more = rules_.repeat(rules_.sequence({edge(), rules_.bytes(","), gap(), pair}), 0);
        rules_.define(*any_object_, rules_.sequence({rules_.bytes("{"), edge(),
                                                     rules_.optional(rules_.sequence({pair, more, edge()})),
                                                     rules_.bytes("}")}));
    }
    return rules_.rule(*any_object_);
}

Node JsonSchemaRules::any_value() {
    if (!any_value_) {
        any_value_ = rules_.declare("value");
        const Node value = rules_.rule(*any_value_);
        const Node more = rules_.repeat(rules_.sequence({edge(), rules_.bytes(","), gap(), value}), 0);
        const Node array =
            rules_.sequence({rules_.bytes("["), edge(),
                             rules_.optional(rules_.sequence({value, more, edge()})), rules_.bytes("]")});
        rules_.define(*any_value_, rules_.choice({any_object(), array,
                                                  quoted(rules_.json_characters(0, GrammarRules::unbounded)),
                                                  any_number(rules_, false), rules_.bytes("true"),
                                                  rules_.bytes("false"), rules_.bytes("null")}));
    }
    return rules_.rule(*any_value_);
}

Node JsonSchemaRules::value(const Json& schema, const std::string& pointer) {
    if (schema == Json(true) || schema == Json::object()) return any_value();
    if (schema == Json(false)) return rules_.nothing();
    if (!schema.is_object())
        fail(Status::invalid_argument, "the JSON schema at '{}' is neither an object nor true or false",
             pointer.empty() ? "/" : pointer);
    // The same schema is the same rule; so references may go in circles.
    const std::string key = schema.dump();
    if (const auto known = known_.find(key); known != known_.end()) return rules_.rule(known->second);
    if (known_.size() > 20000)
        fail(Status::invalid_argument,
             "the JSON schema is too large: it has more than 20000 different parts");
    if (++depth_ > deepest_schema)
        fail(Status::invalid_argument, "the JSON schema at '{}' is nested more than {} deep", pointer,
             deepest_schema);
    const auto rule = rules_.declare(pointer.empty() ? "/" : pointer);
    known_[key] = rule;
    rules_.define(rule, body(schema, pointer));
    --depth_;
    return rules_.rule(rule);
}

Node JsonSchemaRules::body(const Json& given, const std::string& pointer) {
    check_keywords(given, pointer);
    // A reference alone is another schema's rule.
    if (given.contains("$ref") && given["$ref"].is_string() && given.size() == 1)
        return value(target(given["$ref"].get<std::string>(), pointer), pointer);
    const Json schema = resolved(given, pointer);
    if (!schema.is_object() || schema.empty()) return value(schema, pointer);
    check_keywords(schema, pointer);
    for (const char* key : {"anyOf", "oneOf"}) {
        if (!schema.contains(key)) continue;
        const Json branches = schema[key];
        if (!branches.is_array())
            fail(Status::invalid_argument, "the JSON schema's '{}/{}' is not a list", pointer, key);
        Json base = schema;
        base.erase(key);
        std::vector<Node> choices;
        for (size_t i = 0; i < branches.size(); ++i) {
            const std::string place = fmt::format("{}/{}/{}", pointer, key, i);
            choices.push_back(value(merged(base, branches[i], place, 0), place));
        }
        return rules_.choice(std::move(choices));
    }
    if (schema.contains("const")) return enumerated(schema, Json::array({schema["const"]}), pointer);
    if (schema.contains("enum")) return enumerated(schema, schema["enum"], pointer);
    std::vector<Node> choices;
    for (const std::string& type : types_of(schema, pointer))
        choices.push_back(of_type(type, schema, pointer));
    return rules_.choice(std::move(choices));
}

Node JsonSchemaRules::enumerated(const Json& schema, const Json& values, const std::string& pointer) {
    if (!values.is_array())
        fail(Status::invalid_argument, "the JSON schema's '{}/enum' is not a list", pointer);
    const std::vector<std::string> types = types_of(schema, pointer);
    // Values that contradict the schema's other keywords are left out.
    Json others = schema;
    others.erase("const");
    if (schema.contains("const") && schema.contains("enum")) {
        const Json& list = schema["enum"];
        if (std::find(list.begin(), list.end(), values[0]) == list.end()) return rules_.nothing();
    }
    others.erase("enum");
    std::shared_ptr<const Grammar> grammar;
    const bool only_type = std::all_of(others.items().begin(), others.items().end(), [](const auto& entry) {
        constexpr std::string_view plain[] = {"type",     "title",    "description", "default",
                                              "nullable", "examples", "$comment"};
        return std::find(std::begin(plain), std::end(plain), entry.key) != std::end(plain);
    });
    if (!only_type) {
        GrammarRules rules;
        JsonSchemaOptions compact = options_;
        compact.spacing = JsonSpacing::compact;
        JsonSchemaRules other_rules(rules, document_, compact);
        other_rules.depth_ = depth_ + 1;
        const auto root = rules.declare("enum");
        rules.define(root, other_rules.value(others, pointer));
        grammar = std::make_shared<const Grammar>(rules.compile(root));
    }
    std::vector<Node> choices;
    for (const Json& item : values) {
        const bool typed = types[0] == "any" ||
                           std::any_of(types.begin(), types.end(),
                                       [&](const std::string& type) { return of_json_type(item, type); });
        if (typed && (grammar == nullptr || grammar->derives(item.dump()))) choices.push_back(literal(item));
    }
    return rules_.choice(std::move(choices));
}

Node JsonSchemaRules::of_type(const std::string& type, const Json& schema, const std::string& pointer) {
    if (type == "any") return any_value();
    if (type == "null") return rules_.bytes("null");
    if (type == "boolean") return rules_.choice({rules_.bytes("true"), rules_.bytes("false")});
    if (type == "string") return string(schema, pointer);
    if (type == "object") return object(schema, pointer);
    if (type == "array") return array(schema, pointer);
    return number(schema, type == "integer", pointer);
}

std::optional<uint64_t> JsonSchemaRules::count(const Json& schema, const char* keyword,
                                               const std::string& pointer) const {
    const Json* found = schema.find(keyword);
    if (!found) return std::nullopt;
    const bool valid = found->is_number() && found->get<double>() >= 0 && found->get<double>() <= 1e9 &&
                       std::floor(found->get<double>()) == found->get<double>();
    if (!valid)
        fail(Status::invalid_argument, "the JSON schema's '{}/{}' is not a count from 0 to 1000000000",
             pointer, keyword);
    return static_cast<uint64_t>(found->get<double>());
}

Node JsonSchemaRules::string(const Json& schema, const std::string& pointer) {
    const uint64_t least = count(schema, "minLength", pointer).value_or(0);
    const uint64_t most = count(schema, "maxLength", pointer).value_or(GrammarRules::unbounded);
    if (least > most) return rules_.nothing();
    std::string_view by_format;
    if (const Json* format = schema.find("format")) {
        if (format->is_string()) by_format = format_pattern(format->get<std::string>());
        if (by_format.empty())
            unsupported(pointer + "/format",
                        "has a format that isn't known (known: date-time, date, time, duration, email, "
                        "hostname, ipv4, ipv6, uuid, uri)");
    }
    if (const Json* given = schema.find("pattern")) {
        if (!given->is_string())
            fail(Status::invalid_argument, "the JSON schema's '{}/pattern' is not a text", pointer);
        if (!by_format.empty()) unsupported(pointer, "has both a pattern and a format");
        try {
            return pattern(given->get<std::string>(), schema, pointer);
        } catch (const Failure& failure) {
            if (failure.status() != Status::unsupported || !options_.lenient) throw;
        }
    } else if (!by_format.empty()) {
        return pattern(by_format, schema, pointer);
    }
    return quoted(rules_.json_characters(static_cast<uint32_t>(least), static_cast<uint32_t>(most)));
}

// A pattern and bounds of the length hold together if every match is within the bounds, or if the pattern is
// one repeated character. Else the bounds can't be followed.
Node JsonSchemaRules::pattern(std::string_view source, const Json& schema, const std::string& pointer) {
    GrammarRules plain;
    const Node matched = regex_node(plain, source, false, true);
    const uint64_t least = count(schema, "minLength", pointer).value_or(0);
    const uint64_t most = count(schema, "maxLength", pointer).value_or(endless);
    const Lengths possible = lengths(plain, matched);
    if (possible.least >= least && possible.most <= most)
        return quoted(regex_node(rules_, source, true, true));
    const GrammarRules::Expression& e = plain.expression(matched);
    if (e.kind == GrammarRules::Kind::repeat &&
        plain.expression(e.parts[0]).kind == GrammarRules::Kind::set) {
        const auto from = static_cast<uint32_t>(std::max<uint64_t>(e.least, least));
        const auto to = static_cast<uint32_t>(std::min<uint64_t>(e.most, most));
        if (from > to) return rules_.nothing();
        return quoted(rules_.repeat(json_set(rules_, plain.expression(e.parts[0]).ranges), from, to));
    }
    unsupported(pointer, "bounds the length of a text whose pattern or format allows other lengths");
    return quoted(regex_node(rules_, source, true, true));
}

Node JsonSchemaRules::number(const Json& schema, bool integer, const std::string& pointer) {
    NumberBounds bounds;
    const auto bound = [&](const char* keyword) -> std::optional<double> {
        const Json* found = schema.find(keyword);
        if (!found || found->is_boolean()) return std::nullopt;
        if (!found->is_number())
            fail(Status::invalid_argument, "the JSON schema's '{}/{}' is not a number", pointer, keyword);
        return found->get<double>();
    };
    bounds.least = bound("minimum");
    bounds.most = bound("maximum");
    // Draft 4 writes exclusiveMinimum: true next to minimum.
    bounds.above_least = schema.value("exclusiveMinimum", Json(false)) == Json(true);
    bounds.below_most = schema.value("exclusiveMaximum", Json(false)) == Json(true);
    if (const auto above = bound("exclusiveMinimum"); above && (!bounds.least || *above >= *bounds.least)) {
        bounds.least = above;
        bounds.above_least = true;
    }
    if (const auto below = bound("exclusiveMaximum"); below && (!bounds.most || *below <= *bounds.most)) {
        bounds.most = below;
        bounds.below_most = true;
    }
    const double factor = bound("multipleOf").value_or(0);
    if (schema.contains("multipleOf") && !(factor > 0))
        fail(Status::invalid_argument, "the JSON schema's '{}/multipleOf' is not above zero", pointer);
    unsigned places = 12;
    if (factor > 0 && std::floor(factor) != factor) {
        if (integer) {
            unsupported(pointer + "/multipleOf", "wants integers to be multiples of a fraction");
        } else {
            for (places = 1; places <= 9 && std::abs(factor * std::pow(10, places) - 1) > 1e-9; ++places) {
            }
            if (places > 9)
                unsupported(pointer + "/multipleOf",
                            "wants multiples of a fraction other than 0.1, 0.01 and so on");
            if (!bounds.least && !bounds.most) bounds.least = -1e18;
        }
    }
    if (factor >= 1) integer = integer || std::floor(factor) == factor;
    if (!integer)
        return bounds.least || bounds.most ? bounded_number(rules_, bounds, places)
                                           : any_number(rules_, false);
    constexpr double largest = 999'999'999'999'999.0;
    double least = bounds.least ? std::ceil(*bounds.least) : -largest,
           most = bounds.most ? std::floor(*bounds.most) : largest;
    if (bounds.above_least && least == *bounds.least) ++least;
    if (bounds.below_most && most == *bounds.most) --most;
    least = std::max(least, -largest);
    most = std::min(most, largest);
    if (least > most) return rules_.nothing();
    const bool bounded = bounds.least || bounds.most;
    if (factor > 1 && std::floor(factor) == factor) {
        constexpr double most_listed = 5000, largest_factor = 1000;
        const double first = std::ceil(least / factor) * factor;
        if (bounded && (most - first) / factor <= most_listed) {
            std::vector<Node> choices;
            for (double each = first; each <= most; each += factor)
                choices.push_back(rules_.bytes(std::to_string(static_cast<int64_t>(each))));
            return rules_.choice(std::move(choices));
        }
        if (!bounded && factor <= largest_factor) return multiples(rules_, static_cast<uint32_t>(factor));
        unsupported(pointer + "/multipleOf", "wants multiples of a large number, or in a large range");
    }
    return bounded ? bounded_integer(rules_, static_cast<int64_t>(least), static_cast<int64_t>(most))
                   : any_number(rules_, true);
}

std::shared_ptr<const Grammar> json_schema_grammar_after(std::string_view free_until, std::string_view schema,
                                                         const JsonSchemaOptions& options) {
    if (schema.size() > largest_schema)
        fail(Status::invalid_argument, "a JSON schema has {} bytes; at most {} are accepted", schema.size(),
             largest_schema);
    std::string why;
    const std::optional<Json> document = Json::parse(schema, &why);
    if (!document) fail(Status::invalid_argument, "a JSON schema is not valid JSON: {}", why);
    GrammarRules rules;
    JsonSchemaRules schemas(rules, *document, options);
    const auto root = rules.declare("root");
    const Node value = schemas.value(*document, "");
    rules.define(root,
                 free_until.empty()
                     ? value
                     : rules.sequence({rules.until(free_until),
                                       rules.repeat(rules.set({{' ', ' '}, {'\n', '\n'}}), 0, 4), value}));
    return std::make_shared<const Grammar>(rules.compile(root));
}

std::shared_ptr<const Grammar> json_schema_grammar(std::string_view schema,
                                                   const JsonSchemaOptions& options) {
    return json_schema_grammar_after({}, schema, options);
}

std::shared_ptr<const Grammar> any_json_grammar(bool object, const JsonSchemaOptions& options) {
    GrammarRules rules;
    const Json document = Json::object();
    JsonSchemaRules schemas(rules, document, options);
    const auto root = rules.declare("root");
    rules.define(root, object ? schemas.any_object() : schemas.any_value());
    return std::make_shared<const Grammar>(rules.compile(root));
}

}  // namespace coterie::text
