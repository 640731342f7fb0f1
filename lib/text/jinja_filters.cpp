// Filters of a single value: texts, numbers, and tojson as Hugging Face has it; and the way to a filter by
// its name.
#include "text/jinja_filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "text/jinja_text.h"

namespace coterie::text::jinja {
namespace {

bool flag(const Value* value) {
    return value && truth(*value);
}

Value tojson(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const auto given = bound(arguments, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
    JsonStyle style;
    style.ensure_ascii = flag(given[0]);
    style.sort_keys = flag(given[3]);
    if (given[1] && !given[1]->is_none()) {
        style.pretty = true;
        style.item_separator = ",";
        if (given[1]->is_text()) {
            style.indent = given[1]->as_text();
        } else {
            const int64_t width = std::max<int64_t>(0, whole_argument(*given[1], "the indent of tojson"));
            if (width > 1000) trouble("tojson: an indent of {} spaces is too wide", width);
            style.indent = std::string(static_cast<size_t>(width), ' ');
        }
        if (style.indent.size() > 1000) trouble("tojson: the indent is too long");
    }
    if (given[2] && !given[2]->is_none()) {
        const std::vector<Value> pair = elements(*given[2]);
        if (pair.size() != 2) trouble("tojson: 'separators' must be a pair");
        style.item_separator = text_argument(pair[0], "a separator of tojson");
        style.key_separator = text_argument(pair[1], "a separator of tojson");
        if (style.item_separator.size() + style.key_separator.size() > 1000)
            trouble("tojson: a separator is too long");
    }
    interpreter.charge_bytes(value.weight());
    return Value::text(json_text(value, style));
}

Value indent(Interpreter&, const Value& value, const Arguments& arguments) {
    const auto given = bound(arguments, "indent", {"width", "first", "blank"});
    std::string margin(4, ' ');
    if (given[0] && given[0]->is_text()) {
        margin = given[0]->as_text();
    } else if (given[0]) {
        const int64_t width = std::max<int64_t>(0, whole_argument(*given[0], "indent"));
        require_weight(static_cast<uint64_t>(width));
        margin = std::string(static_cast<size_t>(width), ' ');
    }
    std::string result;
    bool first_line = true;
    for (const std::string& line : split_lines(text_argument(value, "indent") + "\n", false)) {
        if (!first_line) result += '\n';
        if (first_line ? flag(given[1]) : (flag(given[2]) || !line.empty())) result += margin;
        result += line;
        first_line = false;
        require_weight(result.size());
    }
    return Value::text(std::move(result));
}

// Python's int(text) and float(text): spaces round the number and single underscores inside are allowed.
std::optional<std::string> plain_number(const std::string& text) {
    std::string number(stripped(text, true, true));
    if (number.empty() || number.front() == '_' || number.back() == '_' ||
        number.find("__") != std::string::npos)
        return {};
    number.erase(std::remove(number.begin(), number.end(), '_'), number.end());
    if (number.size() > 1 && number.front() == '+' && number[1] != '-') number.erase(0, 1);
    return number;
}

std::optional<double> read_real(const std::string& text) {
    const auto number = plain_number(text);
    if (!number) return {};
    double value = 0;
    const auto read = std::from_chars(number->data(), number->data() + number->size(), value);
    if (read.ptr != number->data() + number->size() || read.ec == std::errc::invalid_argument) return {};
    return value;
}

Value to_int(Interpreter&, const Value& value, const Arguments& arguments) {
    const auto given = bound(arguments, "int", {"default", "base"});
    const Value otherwise = given[0] ? *given[0] : Value::integer(0);
    const int64_t base = given[1] ? whole_argument(*given[1], "int") : 10;
    if (base < 2 || base > 36) trouble("int: the base must be from 2 to 36");
    if (value.is_whole()) return Value::integer(value.as_whole());
    double real = 0;
    if (value.is_real()) {
        real = value.as_double();
    } else if (value.is_text()) {
        if (auto number = plain_number(value.as_text())) {
            const bool prefixed =
                number->size() > 2 && (*number)[0] == '0' &&
                ((base == 16 && lower(*number)[1] == 'x') || (base == 8 && lower(*number)[1] == 'o') ||
                 (base == 2 && lower(*number)[1] == 'b'));
            const char* end = number->data() + number->size();
            int64_t whole = 0;
            const auto read =
                std::from_chars(number->data() + (prefixed ? 2 : 0), end, whole, static_cast<int>(base));
            if (read.ec == std::errc() && read.ptr == end) return Value::integer(whole);
        }
        const auto read = read_real(value.as_text());
        if (!read) return otherwise;
        real = *read;
    } else {
        return otherwise;
    }
    if (!std::isfinite(real)) return otherwise;
    if (std::abs(real) >= 9.2e18) trouble("int: {} does not fit 64 bits", printed_real(real));
    return Value::integer(static_cast<int64_t>(real));
}

Value to_float(Interpreter&, const Value& value, const Arguments& arguments) {
    const auto given = bound(arguments, "float", {"default"});
    if (value.is_number()) return Value::real(value.as_double());
    if (value.is_text()) {
        if (const auto read = read_real(value.as_text())) return Value::real(*read);
    }
    return given[0] ? *given[0] : Value::real(0);
}

Value absolute(Interpreter&, const Value& value, const Arguments&) {
    if (value.is_real()) return Value::real(std::abs(value.as_double()));
    if (!value.is_whole()) trouble("abs needs a number, found '{}'", type_name(value));
    return value.as_whole() < 0 ? arithmetic("-", Value::integer(0), value)
                                : Value::integer(value.as_whole());
}

Value round(Interpreter&, const Value& value, const Arguments& arguments) {
    const auto given = bound(arguments, "round", {"precision", "method"});
    const int64_t precision = given[0] ? whole_argument(*given[0], "round") : 0;
    const std::string method = given[1] ? printed(*given[1]) : "common";
    if (!value.is_number()) trouble("round needs a number, found '{}'", type_name(value));
    if (precision < -300 || precision > 300) trouble("round: the precision must be from -300 to 300");
    const double number = value.as_double();
    if (method == "ceil" || method == "floor") {
        const double scale = std::pow(10.0, static_cast<double>(precision));
        return Value::real((method == "ceil" ? std::ceil(number * scale) : std::floor(number * scale)) /
                           scale);
    }
    if (method != "common") trouble("round: the method must be common, ceil or floor, found '{}'", method);
    if (value.is_whole() && precision >= 0) return Value::integer(value.as_whole());
    if (!std::isfinite(number)) return value;
    double rounded = 0;
    if (precision >= 0) {  // from the decimal digits, which is how Python gets the half cases right
        const std::string digits = fmt::format("{:.{}f}", number, precision);
        std::from_chars(digits.data(), digits.data() + digits.size(), rounded);
    } else {
        const double scale = std::pow(10.0, static_cast<double>(-precision));
        rounded = std::nearbyint(number / scale) * scale;
    }
    return value.is_whole() ? Value::integer(static_cast<int64_t>(rounded)) : Value::real(rounded);
}

Value replace(Interpreter&, const Value& value, const Arguments& arguments) {
    const auto given = bound(arguments, "replace", {"old", "new", "count"}, 2);
    const std::string text = printed(value), from = printed(*given[0]), to = printed(*given[1]);
    require_weight(text.size() + (from.empty() ? text.size() + 1 : text.size() / from.size()) * to.size());
    const int64_t count = given[2] && !given[2]->is_none() ? whole_argument(*given[2], "replace") : -1;
    return Value::text(replaced(text, from, to, count));
}

Value trim(Interpreter&, const Value& value, const Arguments& arguments) {
    const auto given = bound(arguments, "trim", {"chars"});
    const std::string text = printed(value);
    if (!given[0] || given[0]->is_none()) return Value::text(std::string(stripped(text, true, true)));
    return Value::text(std::string(stripped_of(text, text_argument(*given[0], "trim"), true, true)));
}

Value escape(Interpreter&, const Value& value, const Arguments&) {
    std::string result;
    for (const char c : printed(value)) {
        switch (c) {
            case '&':
                result += "&amp;";
                break;
            case '<':
                result += "&lt;";
                break;
            case '>':
                result += "&gt;";
                break;
            case '"':
                result += "&#34;";
                break;
            case '\'':
                result += "&#39;";
                break;
            default:
                result += c;
        }
    }
    return Value::text(std::move(result));
}

Value otherwise(Interpreter&, const Value& value, const Arguments& arguments) {
    const auto given = bound(arguments, "default", {"default_value", "boolean"});
    if (!value.is_undefined() && !(flag(given[1]) && !truth(value))) return value;
    return given[0] ? *given[0] : Value::text("");
}

Value format(Interpreter&, const Value& value, const Arguments& arguments) {
    if (!arguments.named.empty() && !arguments.positional.empty())
        trouble("format takes positional or named arguments, not both");
    Dict named;
    for (const auto& [name, item] : arguments.named) named.set(name, item);
    const Value values =
        arguments.named.empty() ? Value::tuple(arguments.positional) : Value::dict(std::move(named));
    return Value::text(percent_formatted(printed(value), values));
}

Value center(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    Arguments width = arguments;
    if (width.positional.empty() && width.named.empty()) width.positional.push_back(Value::integer(80));
    return call_method(interpreter, Value::text(printed(value)), "center", width);
}

Value truncate(Interpreter&, const Value& value, const Arguments& arguments) {
    const auto given = bound(arguments, "truncate", {"length", "killwords", "end", "leeway"});
    const int64_t length = given[0] ? whole_argument(*given[0], "truncate") : 255;
    const std::string end = given[2] ? printed(*given[2]) : "...";
    const int64_t leeway = given[3] && !given[3]->is_none() ? whole_argument(*given[3], "truncate") : 5;
    const std::string& text = text_argument(value, "truncate");
    const std::vector<size_t> starts = code_point_starts(text);
    const auto kept = length - static_cast<int64_t>(code_point_count(end));
    if (kept < 0 || leeway < 0) trouble("truncate: a length of {} has no room for '{}'", length, end);
    if (static_cast<int64_t>(starts.size()) - 1 <= length + leeway) return value;
    std::string result = text.substr(0, starts[static_cast<size_t>(kept)]);
    if (!flag(given[1])) result = split_at(result, " ", 1, true).front();
    return Value::text(result + end);
}

Value wordcount(Interpreter&, const Value& value, const Arguments&) {
    const std::string text = printed(value);
    int64_t words = 0;
    bool inside = false;
    for (size_t at = 0; at < text.size(); at += code_point_bytes(text, at)) {
        const bool part = text[at] == '_' || is_digit(code_point_at(text, at)) || is_letter(text, at);
        if (part && !inside) ++words;
        inside = part;
    }
    return Value::integer(words);
}

Value urlencode(Interpreter&, const Value& value, const Arguments&) {
    const auto quoted = [](const std::string& text, bool slash_is_safe) {
        std::string result;
        for (const char c : text) {
            const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                              std::string_view("_.-~").find(c) != std::string_view::npos ||
                              (c == '/' && slash_is_safe);
            if (safe) {
                result += c;
            } else if (c == ' ' && !slash_is_safe) {
                result += '+';
            } else {
                result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
            }
        }
        return result;
    };
    if (!value.is_dict()) return Value::text(quoted(printed(value), true));
    std::string result;
    for (const auto& [key, item] : value.as_dict().entries()) {
        if (!result.empty()) result += '&';
        result += quoted(printed(key), false) + "=" + quoted(printed(item), false);
    }
    return Value::text(std::move(result));
}

Value as_text(Interpreter&, const Value& value, const Arguments&) {
    return Value::text(printed(value));
}

}  // namespace

const FilterTable& value_filters() {
    static const FilterTable table = {
        {"abs", absolute},
        {"attr",
         [](Interpreter& i, const Value& v, const Arguments& a) {
             const auto given = bound(a, "attr", {"name"}, 1);
             return v.is_dict() && !has_method(v, printed(*given[0]))
                        ? Value::undefined("a dict has no such attribute")
                        : i.attribute(v, printed(*given[0]));
         }},
        {"capitalize",
         [](Interpreter&, const Value& v, const Arguments&) { return Value::text(capitalized(printed(v))); }},
        {"center", center},
        {"d", otherwise},
        {"default", otherwise},
        {"e", escape},
        {"escape", escape},
        {"float", to_float},
        {"forceescape", escape},
        {"format", format},
        {"indent", indent},
        {"int", to_int},
        {"lower",
         [](Interpreter&, const Value& v, const Arguments&) { return Value::text(lower(printed(v))); }},
        {"replace", replace},
        {"round", round},
        {"safe", as_text},
        {"string", as_text},
        {"title", [](Interpreter&, const Value& v,
                     const Arguments&) { return Value::text(titled_words(printed(v))); }},
        {"tojson", tojson},
        {"trim", trim},
        {"truncate", truncate},
        {"upper",
         [](Interpreter&, const Value& v, const Arguments&) { return Value::text(upper(printed(v))); }},
        {"urlencode", urlencode},
        {"wordcount", wordcount},
    };
    return table;
}

bool is_filter(const std::string& name) {
    return value_filters().count(name) != 0 || sequence_filters().count(name) != 0;
}

Value apply_filter(Interpreter& interpreter, const std::string& name, const Value& value,
                   const Arguments& arguments) {
    for (const FilterTable* table : {&value_filters(), &sequence_filters()}) {
        const auto found = table->find(name);
        if (found != table->end()) return found->second(interpreter, value, arguments);
    }
    trouble("there is no filter named '{}'", name);
}

}  // namespace coterie::text::jinja
