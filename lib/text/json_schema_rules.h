// Inside of json_schema.h: schemas to rules, for grammars that contain JSON among other things (calls of
// tools).
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/grammar_rules.h"
#include "text/json_schema.h"

namespace coterie::text {

class JsonSchemaRules {
  public:
    using Node = GrammarRules::Node;

    // `document`: what references lead into. It must outlive this.
    JsonSchemaRules(GrammarRules& rules, const Json& document, JsonSchemaOptions options);
    Node value(const Json& schema, const std::string& pointer);
    Node any_value();
    Node any_object();
    Node literal(const Json& value);  // as itself, compact
    Node gap();                       // white space after a colon or comma

  private:
    // schemas to schemas
    Json resolved(Json schema, const std::string& pointer);
    Json merged(const Json& a, const Json& b, const std::string& pointer, int depth);
    void merge_objects(Json& into, const Json& a, const Json& b);
    const Json& target(const std::string& reference, const std::string& pointer) const;
    void check_keywords(const Json& schema, const std::string& pointer) const;
    void unsupported(const std::string& pointer, std::string_view what) const;  // returns only if lenient

    // schemas to nodes
    Node body(const Json& schema, const std::string& pointer);
    Node enumerated(const Json& schema, const Json& values, const std::string& pointer);
    Node of_type(const std::string& type, const Json& schema, const std::string& pointer);
    Node object(const Json& schema, const std::string& pointer);
    Node more_properties(const Json& schema, const std::vector<std::string>& names,
                         const std::string& pointer, bool& allowed);
    Node array(const Json& schema, const std::string& pointer);
    Node string(const Json& schema, const std::string& pointer);
    Node pattern(std::string_view pattern, const Json& schema, const std::string& pointer);
    Node number(const Json& schema, bool integer, const std::string& pointer);
    Node key_other_than(const std::vector<std::string>& names);
    Node quoted(Node inside);
    Node edge();  // white space inside brackets
    std::optional<uint64_t> count(const Json& schema, const char* keyword, const std::string& pointer) const;

    GrammarRules& rules_;
    const Json& document_;
    JsonSchemaOptions options_;
    std::map<std::string, GrammarRules::Rule> known_;
    std::optional<GrammarRules::Rule> any_value_, any_object_;
    int depth_ = 0;
};

// Numbers between bounds, in json_schema_numbers.cpp. `digits`: most digits behind the point; 0 for integers.
struct NumberBounds {
    std::optional<double> least, most;
    bool above_least = false, below_most = false;  // exclusive
};
GrammarRules::Node any_number(GrammarRules& rules, bool integer);
// Nothing if no number lies between.
GrammarRules::Node bounded_number(GrammarRules& rules, const NumberBounds& bounds, unsigned digits);
GrammarRules::Node bounded_integer(GrammarRules& rules, int64_t least, int64_t most);
GrammarRules::Node multiples(GrammarRules& rules, uint32_t factor);

// The regular expression of a format; empty if unknown. In json_schema_formats.cpp.
std::string_view format_pattern(std::string_view format);

}  // namespace coterie::text
