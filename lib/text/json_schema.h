// JSON Schema as a grammar: the part that OpenAI documents for structured outputs, and pattern, format,
// prefixItems, allOf and recursion. Every text the grammar derives is valid; not every valid text is derived:
// keys come in the order of `properties`, objects with `properties` are closed unless additionalProperties
// says otherwise, numbers have at most 15 digits before and after the point, and white space is what
// JsonSpacing allows. What can't be followed is a Failure that names the JSON pointer, unless `lenient`,
// which then ignores it.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

#include "text/grammar.h"

namespace coterie::text {

enum class JsonSpacing : uint8_t {
    compact,  // {"a":[1,2]}
    spaced,   // a space may follow a colon or comma: what most models write by themselves
    free,     // also line feeds with indentation
};

struct JsonSchemaOptions {
    JsonSpacing spacing = JsonSpacing::spaced;
    bool lenient = false;
};

std::shared_ptr<const Grammar> json_schema_grammar(std::string_view schema,
                                                   const JsonSchemaOptions& options = {});
// Any JSON value, or any object (response_format json_object).
std::shared_ptr<const Grammar> any_json_grammar(bool object, const JsonSchemaOptions& options = {});

// `free_until`: what may precede, such as thinking: any text up to and with this tag, then the grammar.
// Empty: nothing.
std::shared_ptr<const Grammar> json_schema_grammar_after(std::string_view free_until, std::string_view schema,
                                                         const JsonSchemaOptions& options = {});

}  // namespace coterie::text
