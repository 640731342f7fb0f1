// How values become text: Python's str() and repr(), json.dumps, and the way back from JSON.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "text/jinja_text.h"
#include "text/jinja_value.h"

namespace coterie::text::jinja {
namespace {

std::string repr_text(std::string_view text) {
    const bool single = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
    const char quote = single ? '"' : '\'';
    std::string result(1, quote);
    for (size_t at = 0; at < text.size();) {
        const size_t bytes = code_point_bytes(text, at);
        const uint32_t c = code_point_at(text, at);
        if (c == static_cast<uint32_t>(quote) || c == '\\') {
            result += '\\';
            result += static_cast<char>(c);
        } else if (c == '\n') {
            result += "\\n";
        } else if (c == '\r') {
            result += "\\r";
        } else if (c == '\t') {
            result += "\\t";
        } else if (is_printable(c)) {
            result += text.substr(at, bytes);
        } else if (c < 0x100) {
            result += fmt::format("\\x{:02x}", c);
        } else if (c < 0x10000) {
            result += fmt::format("\\u{:04x}", c);
        } else {
            result += fmt::format("\\U{:08x}", c);
        }
        at += bytes;
    }
    return result + quote;
}

void append_json_text(std::string& out, std::string_view text, bool ensure_ascii) {
    out += '"';
    for (size_t at = 0; at < text.size();) {
        const size_t bytes = code_point_bytes(text, at);
        const uint32_t c = code_point_at(text, at);
        if (c < 0x7F)
            append_json_byte(out, char(c));
        else if (ensure_ascii && c >= 0x10000)
            out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c - 0x10000) >> 10), 0xDC00 + (c & 0x3FF));
        else if (ensure_ascii)
            out += fmt::format("\\u{:04x}", c);
        else
            out += text.substr(at, bytes);
        at += bytes;
    }
    out += '"';
}

std::string json_number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return printed_real(value);
}

std::string json_key(const Value& key) {
    if (key.is_text()) return key.as_text();
    if (key.is_boolean()) return key.as_boolean() ? "true" : "false";
    if (key.is_none()) return "null";
    if (key.is_integer()) return std::to_string(key.as_whole());
    if (key.is_real()) return json_number(key.as_double());
    trouble("tojson: the key of an object must be a str, int, float, bool or None, not '{}'", type_name(key));
}

class JsonWriter {
  public:
    JsonWriter(std::string& out, const JsonStyle& style) : out_(out), style_(style) {}

    void write(const Value& value, size_t level = 0) {
        if (value.is_text()) {
            append_json_text(out_, value.as_text(), style_.ensure_ascii);
        } else if (value.is_none()) {
            out_ += "null";
        } else if (value.is_boolean()) {
            out_ += value.as_boolean() ? "true" : "false";
        } else if (value.is_integer()) {
            out_ += std::to_string(value.as_whole());
        } else if (value.is_real()) {
            out_ += json_number(value.as_double());
        } else if (value.is_dict()) {
            write_dict(value.as_dict(), level);
        } else if (value.is_sequence(Sequence::list) || value.is_sequence(Sequence::tuple)) {
            write_list(value.items(), level);
        } else if (value.is_undefined()) {
            trouble("tojson: {}", value.why_undefined());
        } else {
            trouble("tojson: a '{}' can't be written as JSON", type_name(value));
        }
    }

  private:
    void new_line(size_t level) {
        if (!style_.pretty) return;
        if (out_.size() > max_value_weight)
            trouble("tojson: the text grows beyond {} bytes", max_value_weight);
        out_ += '\n';
        for (size_t i = 0; i < level; ++i) out_ += style_.indent;
    }

    void write_list(const std::vector<Value>& items, size_t level) {
        out_ += '[';
        for (size_t i = 0; i < items.size(); ++i) {
            if (i) out_ += style_.item_separator;
            new_line(level + 1);
            write(items[i], level + 1);
        }
        if (!items.empty()) new_line(level);
        out_ += ']';
    }

    void write_dict(const Dict& dict, size_t level) {
        std::vector<const Dict::Entry*> entries;
        for (const auto& entry : dict.entries()) entries.push_back(&entry);
        if (style_.sort_keys) {
            std::stable_sort(entries.begin(), entries.end(),
                             [](const auto* a, const auto* b) { return less(a->first, b->first); });
        }
        out_ += '{';
        for (size_t i = 0; i < entries.size(); ++i) {
            if (i) out_ += style_.item_separator;
            new_line(level + 1);
            append_json_text(out_, json_key(entries[i]->first), style_.ensure_ascii);
            out_ += style_.key_separator;
            write(entries[i]->second, level + 1);
        }
        if (!entries.empty()) new_line(level);
        out_ += '}';
    }

    std::string& out_;
    const JsonStyle& style_;
};

// Builds values straight from the parser's events: objects keep their order, and no intermediate tree is
// made.
class JsonReader : public nlohmann::json_sax<nlohmann::json> {
  public:
    Value result;
    std::string error;

    bool null() override { return add(Value::none()); }
    bool boolean(bool value) override { return add(Value::boolean(value)); }
    bool number_integer(number_integer_t value) override { return add(Value::integer(value)); }
    bool number_unsigned(number_unsigned_t value) override {
        if (value <= INT64_MAX) return add(Value::integer(static_cast<int64_t>(value)));
        return add(Value::real(static_cast<double>(value)));
    }
    bool number_float(number_float_t value, const string_t&) override { return add(Value::real(value)); }
    bool string(string_t& value) override { return add(Value::text(std::move(value))); }
    bool binary(binary_t&) override { return false; }
    bool start_object(size_t) override { return open(true); }
    bool key(string_t& value) override {
        open_.back().key = std::move(value);
        return true;
    }
    bool end_object() override {
        Value value = Value::dict(std::move(open_.back().dict));
        open_.pop_back();
        return add(std::move(value));
    }
    bool start_array(size_t) override { return open(false); }
    bool end_array() override {
        Value value = Value::list(std::move(open_.back().items));
        open_.pop_back();
        return add(std::move(value));
    }
    bool parse_error(size_t position, const std::string&,
                     const nlohmann::detail::exception& exception) override {
        error = fmt::format("not valid JSON at byte {}: {}", position, exception.what());
        return false;
    }

  private:
    struct Level {
        bool is_dict;
        Dict dict;
        std::vector<Value> items;
        std::string key;
    };

    bool open(bool is_dict) {
        if (open_.size() + 1 >= max_value_depth) {
            error = fmt::format("nested more than {} levels deep", max_value_depth);
            return false;
        }
        open_.push_back({is_dict, {}, {}, {}});
        return true;
    }

    bool add(Value value) {
        if (open_.empty()) {
            result = std::move(value);
        } else if (open_.back().is_dict) {
            open_.back().dict.set(Value::text(std::move(open_.back().key)), std::move(value));
        } else {
            open_.back().items.push_back(std::move(value));
        }
        return true;
    }

    std::vector<Level> open_;
};

}  // namespace

// The shortest digits that read back as the same number, in the layout of Python's repr.
std::string printed_real(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    char buffer[64];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
    std::string_view text(buffer, static_cast<size_t>(end - buffer));
    std::string result;
    if (text.front() == '-') {
        result = "-";
        text.remove_prefix(1);
    }
    const size_t e = text.find('e');
    int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
    std::string digits(text.substr(0, 1));
    if (e > 2) digits += text.substr(2, e - 2);
    if (exponent < -4 || exponent >= 16) {
        result += digits.substr(0, 1);
        if (digits.size() > 1) result += "." + digits.substr(1);
        return result + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
    }
    if (exponent < 0) return result + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
    const auto whole = static_cast<size_t>(exponent) + 1;
    if (digits.size() <= whole) return result + digits + std::string(whole - digits.size(), '0') + ".0";
    return result + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string repr(const Value& value) {
    if (value.is_text()) return repr_text(value.as_text());
    if (value.is_undefined()) return "Undefined";
    if (value.is_none()) return "None";
    if (value.is_boolean()) return value.as_boolean() ? "True" : "False";
    if (value.is_integer()) return std::to_string(value.as_whole());
    if (value.is_real()) return printed_real(value.as_double());
    if (value.is_object()) return fmt::format("<{}>", value.as_object().type_name());
    std::string result;
    if (value.is_dict()) {
        for (const auto& [key, item] : value.as_dict().entries()) {
            if (!result.empty()) result += ", ";
            result += repr(key) + ": " + repr(item);
        }
        return "{" + result + "}";
    }
    const auto& items = value.items();
    if (value.is_sequence(Sequence::generator)) return "<generator object>";
    if (value.is_sequence(Sequence::range)) {
        const int64_t first = items.empty() ? 0 : items.front().as_whole();
        const int64_t step = items.size() < 2 ? 1 : items[1].as_whole() - first;
        const int64_t stop = items.empty() ? 0 : items.back().as_whole() + step;
        return step == 1 ? fmt::format("range({}, {})", first, stop)
                         : fmt::format("range({}, {}, {})", first, stop, step);
    }
    for (const Value& item : items) {
        if (!result.empty()) result += ", ";
        result += repr(item);
    }
    if (value.is_sequence(Sequence::tuple)) return "(" + result + (items.size() == 1 ? ",)" : ")");
    if (value.is_sequence(Sequence::list)) return "[" + result + "]";
    return fmt::format("{}([{}])", type_name(value), result);
}

std::string printed(const Value& value) {
    if (value.is_text()) return value.as_text();
    if (value.is_undefined()) return "";
    return repr(value);
}

std::string json_text(const Value& value, const JsonStyle& style) {
    std::string out;
    JsonWriter(out, style).write(value);
    return out;
}

Value parse_json(std::string_view text) {
    JsonReader reader;
    const bool read = nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
    if (!read) trouble("{}", reader.error.empty() ? "not valid JSON" : reader.error);
    return reader.result;
}

}  // namespace coterie::text::jinja
