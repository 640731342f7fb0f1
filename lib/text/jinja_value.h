// The values a Jinja template computes with: Python's, as far as chat templates can see them.
// Strings, lists and dicts are immutable and shared; only an Object (a namespace) changes. Every value knows
// its depth and its weight (about the bytes of its full text), so no walk over it can overflow the stack or
// run away: makers of values refuse what is too deep or too heavy. Errors are thrown as Trouble, which the
// interpreter turns into a Failure that names the line.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace coterie::text::jinja {

struct Trouble {
    std::string message;
    bool raised_by_template =
        false;  // through raise_exception: the conversation is at fault, not the template
};

template <typename... Parts>
[[noreturn]] void trouble(fmt::format_string<Parts...> format, Parts&&... parts) {
    throw Trouble{fmt::format(format, std::forward<Parts>(parts)...)};
}

constexpr uint32_t max_value_depth = 200;
constexpr uint64_t max_value_weight = uint64_t{1} << 26;
void require_weight(uint64_t weight);  // throws Trouble beyond it: asked before a big text is made

struct List;
class Dict;
class Object;

// Which Python sequence a list stands for: they differ in truth, length, indexing and printing.
enum class Sequence : uint8_t { list, tuple, generator, keys, values, items, range };

class Value {
  public:
    struct Undefined {
        std::shared_ptr<const std::string> why;
    };
    struct None {};

    Value() = default;  // undefined
    static Value undefined(std::string why);
    static Value none();
    static Value boolean(bool truth_value);
    static Value integer(int64_t number);
    static Value real(double number);
    static Value text(std::string string);
    static Value list(std::vector<Value> items, Sequence sequence = Sequence::list);
    static Value tuple(std::vector<Value> items) { return list(std::move(items), Sequence::tuple); }
    static Value dict(Dict entries);
    static Value object(std::shared_ptr<Object> object);

    bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
    bool is_none() const { return std::holds_alternative<None>(data_); }
    bool is_boolean() const { return std::holds_alternative<bool>(data_); }
    bool is_integer() const { return std::holds_alternative<int64_t>(data_); }
    bool is_real() const { return std::holds_alternative<double>(data_); }
    bool is_text() const { return std::holds_alternative<Text>(data_); }
    bool is_list() const { return std::holds_alternative<ListPointer>(data_); }
    bool is_dict() const { return std::holds_alternative<DictPointer>(data_); }
    bool is_object() const { return std::holds_alternative<ObjectPointer>(data_); }
    bool is_number() const { return is_boolean() || is_integer() || is_real(); }
    bool is_whole() const { return is_boolean() || is_integer(); }  // what Python takes for an int
    bool is_sequence(Sequence sequence) const;

    // The kind must have been asked for before.
    bool as_boolean() const { return std::get<bool>(data_); }
    int64_t as_whole() const { return is_boolean() ? int64_t{as_boolean()} : std::get<int64_t>(data_); }
    double as_double() const { return is_real() ? std::get<double>(data_) : static_cast<double>(as_whole()); }
    const std::string& as_text() const { return *std::get<Text>(data_); }
    const List& as_list() const { return *std::get<ListPointer>(data_); }
    const Dict& as_dict() const { return *std::get<DictPointer>(data_); }
    Object& as_object() const { return *std::get<ObjectPointer>(data_); }
    const std::vector<Value>& items() const;
    std::string why_undefined() const;

    uint32_t depth() const;
    uint64_t weight() const;
    bool same_as(const Value& other) const;  // Python's `is`

  private:
    using Text = std::shared_ptr<const std::string>;
    using ListPointer = std::shared_ptr<const List>;
    using DictPointer = std::shared_ptr<const Dict>;
    using ObjectPointer = std::shared_ptr<Object>;
    std::variant<Undefined, None, bool, int64_t, double, Text, ListPointer, DictPointer, ObjectPointer> data_;
};

struct List {
    std::vector<Value> items;
    Sequence sequence = Sequence::list;
    uint32_t depth = 1;
    uint64_t weight = 2;
};

// Keeps the order of insertion, as Python's.
class Dict {
  public:
    using Entry = std::pair<Value, Value>;
    void set(Value key, Value value);
    void set(std::string_view key, Value value) { set(Value::text(std::string(key)), std::move(value)); }
    bool erase(std::string_view key);
    const Value* find(const Value& key) const;
    const Value* find(std::string_view key) const;
    const std::vector<Entry>& entries() const { return entries_; }
    size_t size() const { return entries_.size(); }
    void clear();
    uint32_t depth() const { return depth_; }
    uint64_t weight() const { return weight_; }

  private:
    size_t place(const Value& key, size_t hash) const;
    std::vector<Entry> entries_;
    std::unordered_multimap<size_t, uint32_t> index_;  // filled only once there are many entries
    uint32_t depth_ = 1;
    uint64_t weight_ = 2;
};

// Positional and named arguments of a call.
struct Arguments {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> named;
};

// Everything with behaviour: namespaces, macros, functions, bound methods, the `loop` variable.
class Object {
  public:
    virtual ~Object() = default;
    virtual const char* type_name() const = 0;
    virtual Value attribute(const std::string& name) const;
    virtual bool callable() const { return false; }
    virtual Value call(const Arguments& arguments);
    virtual uint32_t depth() const { return 0; }
};

const char* type_name(const Value& value);  // as Python names it
bool truth(const Value& value);
bool equal(const Value& left, const Value& right);
bool less(const Value& left, const Value& right, const char* sign = "<");
bool contains(const Value& container, const Value& item);
size_t hash_of(const Value& value);
int64_t length_of(const Value& value);
std::vector<Value> elements(const Value& value);  // what a `for` loop sees

std::string printed(const Value& value);  // str(value)
std::string repr(const Value& value);
std::string printed_real(double value);

struct JsonStyle {
    bool ensure_ascii = false;
    bool sort_keys = false;
    bool pretty = false;
    std::string indent;
    std::string item_separator = ", ";
    std::string key_separator = ": ";
};
std::string json_text(const Value& value, const JsonStyle& style = {});
// Throws Trouble when the text is not JSON.
Value parse_json(std::string_view text);

}  // namespace coterie::text::jinja
