// What the caller's tools say about a call: which names exist, and what type a parameter has. Needed where a
// family writes argument values without quotes (XML, Python), and where only a known name tells a call from a
// JSON answer.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace coterie::text {

// A set of JSON types, as bits; 0 when nothing is known.
enum JsonTypes : uint8_t {
    type_string = 1,
    type_integer = 2,
    type_number = 4,
    type_boolean = 8,
    type_null = 16,
    type_object = 32,
    type_array = 64,
};

class ToolTypes {
  public:
    ToolTypes() = default;
    explicit ToolTypes(std::string_view tools_json);  // throws a Failure when it isn't a list of tools

    bool known(std::string_view name) const { return tools_.find(name) != tools_.end(); }
    bool empty() const { return tools_.empty(); }
    uint8_t types(std::string_view name, std::string_view parameter) const;

  private:
    std::map<std::string, std::map<std::string, uint8_t, std::less<>>, std::less<>> tools_;
};

// An unquoted value as JSON of one of the types, or as a JSON string if it is none of them.
std::string typed_value(std::string_view raw, uint8_t types);

// A Python literal (numbers, strings, True, None, lists, tuples, dicts) as JSON. False if it isn't one.
bool python_literal(std::string_view source, size_t& at, std::string& out, int depth = 0);

}  // namespace coterie::text
