// Objects and arrays of a JSON schema. Properties come in their order, optional ones may be left out; a rule
// for each property and count of properties before it (as far as it matters) keeps the commas right.
#include <algorithm>
#include <map>

#include "base/failure.h"
#include "text/grammar_automaton.h"
#include "text/json_schema_rules.h"

namespace coterie::text {
namespace {

using Node = GrammarRules::Node;

// Names letter by letter, to tell other keys from them.
struct NameTree {
    std::map<uint32_t, NameTree> next;
    bool ends = false;
};

Node other_than(GrammarRules& rules, const NameTree& tree) {
    const CodePointRanges every = {{0, last_code_point}};
    std::vector<Node> choices;
    if (!tree.ends) choices.push_back(rules.empty());
    CodePointRanges taken;
    for (const auto& [letter, rest] : tree.next) {
        taken.emplace_back(letter, letter);
        choices.push_back(rules.sequence({json_set(rules, {{letter, letter}}), other_than(rules, rest)}));
    }
    choices.push_back(
        rules.sequence({json_set(rules, complement(taken)), rules.repeat(json_set(rules, every), 0)}));
    return rules.choice(std::move(choices));
}

}  // namespace

Node JsonSchemaRules::key_other_than(const std::vector<std::string>& names) {
    if (names.empty()) return rules_.json_characters(0, GrammarRules::unbounded);
    NameTree tree;
    for (const std::string& name : names) {
        NameTree* at = &tree;
        for (uint32_t letter : code_points(name)) at = &at->next[letter];
        at->ends = true;
    }
    return other_than(rules_, tree);
}

// `key: value` for what isn't among the named properties.
Node JsonSchemaRules::more_properties(const Json& schema, const std::vector<std::string>& names,
                                      const std::string& pointer, bool& allowed) {
    const bool patterns = schema.contains("patternProperties") && schema["patternProperties"].is_object() &&
                          !schema["patternProperties"].empty();
    const Json additional = schema.value("additionalProperties", Json(names.empty() && !patterns));
    allowed = false;
    if (patterns && names.empty()) {
        const Json& listed = schema["patternProperties"];
        if (listed.size() > 1)
            unsupported(pointer + "/patternProperties",
                        "has several patterns, which could contradict each other");
        allowed = true;
        const std::string source = listed.items()[0].key;
        return rules_.sequence({quoted(regex_node(rules_, source, true, true)), rules_.bytes(":"), gap(),
                                value(listed.items()[0].value, pointer + "/patternProperties/" + source)});
    }
    // Other keys could match a pattern, so there are none.
    if (additional == Json(false) || patterns) return rules_.nothing();
    allowed = true;
    Node key = quoted(key_other_than(names));
    if (schema.contains("propertyNames")) {
        if (names.empty()) {
            Json text =
                merged(Json{{"type", "string"}}, schema["propertyNames"], pointer + "/propertyNames", 0);
            key = value(text, pointer + "/propertyNames");
        } else {
            unsupported(pointer + "/propertyNames",
                        "limits the names of further properties next to named ones");
        }
    }
    return rules_.sequence(
        {key, rules_.bytes(":"), gap(), value(additional, pointer + "/additionalProperties")});
}

Node JsonSchemaRules::object(const Json& schema, const std::string& pointer) {
    struct Property {
        std::string name;
        bool required;
        Node pair;
    };
    std::vector<Property> properties;
    std::vector<std::string> names;
    std::set<std::string> required;
    if (const Json* list = schema.find("required"); list && list->is_array())
        for (const Json& name : *list)
            if (name.is_string()) required.insert(name.get<std::string>());
    const Json* listed = schema.find("properties");
    const bool named = listed != nullptr;
    if (named && !listed->is_object())
        fail(Status::invalid_argument, "the JSON schema's '{}/properties' is not an object", pointer);
    const auto add = [&](const std::string& name, Json property) {
        const std::string place = pointer + "/properties/" + name;
        if (schema.contains("patternProperties") && schema["patternProperties"].is_object())
            for (const auto& [pattern, also] : schema["patternProperties"].items()) {
                GrammarRules rules;
                const auto root = rules.declare("name");
                rules.define(root, regex_node(rules, pattern, false, true));
                if (Grammar(rules.compile(root)).derives(name)) property = merged(property, also, place, 0);
            }
        const Node pair =
            rules_.sequence({rules_.bytes(Json(name).dump() + ":"), gap(), value(property, place)});
        if (property != Json(false) || required.count(name) > 0)
            properties.push_back({name, required.count(name) > 0, pair});
        names.push_back(name);
    };
    if (named)
        for (const auto& entry : listed->items()) add(entry.key, entry.value);
    for (const std::string& name : required)
        if (!named || !listed->contains(name)) add(name, schema.value("additionalProperties", Json(true)));
    if (properties.size() > 5000)
        fail(Status::invalid_argument, "the JSON schema's '{}/properties' has more than 5000 entries",
             pointer);

    const uint64_t least = count(schema, "minProperties", pointer).value_or(0);
    const uint64_t most = count(schema, "maxProperties", pointer).value_or(GrammarRules::unbounded);
    const bool bounded = most < GrammarRules::unbounded;
    bool more_allowed = false;
    Json closed = schema;
    if (named && !schema.contains("additionalProperties")) closed["additionalProperties"] = false;
    const Node more = more_properties(closed, names, pointer, more_allowed);
    // Counts beyond `cap` make no difference.
    const uint64_t cap = std::max<uint64_t>({1, least, bounded ? most : 0});
    if (properties.size() * (std::min<uint64_t>(cap, properties.size()) + 1) > 100000)
        fail(Status::unsupported, "the JSON schema at '{}' counts too many properties", pointer);
    const auto tail = [&](uint64_t before) {
        const uint64_t from = least > before ? least - before : 0;
        if (bounded && most < before) return rules_.nothing();
        if (!more_allowed) return from == 0 ? rules_.empty() : rules_.nothing();
        const uint32_t to = bounded ? static_cast<uint32_t>(most - before) : GrammarRules::unbounded;
        const Node next = rules_.sequence({edge(), rules_.bytes(","), gap(), more});
        if (before > 0) return rules_.repeat(next, static_cast<uint32_t>(from), to);
        if (to == 0) return rules_.empty();
        const Node some =
            rules_.sequence({more, rules_.repeat(next, from > 0 ? static_cast<uint32_t>(from - 1) : 0,
                                                 bounded ? to - 1 : to)});
        return from == 0 ? rules_.optional(some) : some;
    };
    const uint64_t counts = std::min<uint64_t>(cap, properties.size());
    std::vector<Node> after(counts + 1);
    for (uint64_t before = 0; before <= counts; ++before) after[before] = tail(before);
    for (size_t i = properties.size(); i-- > 0;) {
        std::vector<Node> here(counts + 1);
        for (uint64_t before = 0; before <= counts && before <= i; ++before) {
            std::vector<Node> parts;
            if (before > 0) parts = {edge(), rules_.bytes(","), gap()};
            parts.push_back(properties[i].pair);
            // A count at the cap stays there, unless the cap is a maximum: then no more fit.
            if (bounded && before >= most)
                parts.push_back(rules_.nothing());
            else
                parts.push_back(after[std::min(before + 1, counts)]);
            std::vector<Node> choices{rules_.sequence(std::move(parts))};
            if (!properties[i].required) choices.push_back(after[before]);
            const auto rule = rules_.declare(pointer);
            rules_.define(rule, rules_.choice(std::move(choices)));
            here[before] = rules_.rule(rule);
        }
        after = std::move(here);
    }
    return rules_.sequence({rules_.bytes("{"), edge(), after[0], edge(), rules_.bytes("}")});
}

Node JsonSchemaRules::array(const Json& schema, const std::string& pointer) {
    const uint64_t least = count(schema, "minItems", pointer).value_or(0);
    uint64_t most = count(schema, "maxItems", pointer).value_or(GrammarRules::unbounded);
    const Json* first = nullptr;  // the schemas of the first items
    Json rest = true;
    if (const Json* prefix = schema.find("prefixItems"); prefix && prefix->is_array()) {
        first = &*prefix;
        rest = schema.value("items", Json(false));
    } else if (const Json* items = schema.find("items")) {
        if (items->is_array()) {  // as drafts before 2020 wrote it
            first = &*items;
            rest = schema.value("additionalItems", Json(false));
        } else {
            rest = *items;
        }
    }
    const uint64_t prefix_count = first == nullptr ? 0 : first->size();
    if (rest == Json(false)) most = std::min(most, prefix_count);
    if (least > most) return rules_.nothing();
    const bool bounded = most < GrammarRules::unbounded;
    const auto separated = [&](Node item) {
        return rules_.sequence({edge(), rules_.bytes(","), gap(), item});
    };
    // What follows once `before` items are there.
    const auto tail = [&](uint64_t before) {
        if (bounded && before >= most) return rules_.empty();
        const Node item = value(rest, pointer + "/items");
        const auto from = static_cast<uint32_t>(least > before ? least - before : 0);
        const uint32_t to = bounded ? static_cast<uint32_t>(most - before) : GrammarRules::unbounded;
        if (before > 0) return rules_.repeat(separated(item), from, to);
        const Node some = rules_.sequence(
            {item, rules_.repeat(separated(item), from > 0 ? from - 1 : 0, bounded ? to - 1 : to)});
        return from == 0 ? rules_.optional(some) : some;
    };
    Node items = tail(prefix_count);
    for (uint64_t i = std::min(prefix_count, most); i-- > 0;) {
        const Node item = value((*first)[i], fmt::format("{}/prefixItems/{}", pointer, i));
        const Node some = rules_.sequence({i == 0 ? item : separated(item), items});
        items = i >= least ? rules_.optional(some) : some;
    }
    return rules_.sequence({rules_.bytes("["), edge(), items, edge(), rules_.bytes("]")});
}

}  // namespace coterie::text
