// The filters of Jinja's default environment that make sense in a chat template, with tojson as Hugging Face
// has it.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "text/jinja_interpreter.h"
#include "text/jinja_text.h"

namespace coterie::text::jinja {
namespace {

using Filter = Value (*)(Interpreter&, const Value&, const Arguments&);

bool flag(const Value* value) {
    return value && truth(*value);
}

// What strings are compared as when case does not matter.
Value folded(const Value& value, bool case_sensitive) {
    return value.is_text() && !case_sensitive ? Value::text(lower(value.as_text())) : value;
}

// The value at "a.b", or at each of "a,b", or the item itself.
Value key_of(Interpreter& interpreter, const Value& item, const Value* attribute, bool case_sensitive) {
    if (!attribute || attribute->is_none()) return folded(item, case_sensitive);
    if (attribute->is_text() && attribute->as_text().find(',') != std::string::npos) {
        std::vector<Value> keys;
        for (const std::string& part : split_at(attribute->as_text(), ",", -1, false))
            keys.push_back(folded(interpreter.path(item, Value::text(part)), case_sensitive));
        return Value::list(std::move(keys));
    }
    return folded(interpreter.path(item, *attribute), case_sensitive);
}

struct Keyed {
    Value key, value;
};

std::vector<Value> sorted(Interpreter& interpreter, std::vector<Keyed> items, bool reverse) {
    uint64_t rounds = 1;
    while ((size_t{1} << rounds) < items.size()) ++rounds;
    interpreter.charge_steps(items.size() * rounds);
    // Stable both ways round, as Python's sort.
    if (reverse) std::reverse(items.begin(), items.end());
    std::stable_sort(items.begin(), items.end(),
                     [](const Keyed& a, const Keyed& b) { return less(a.key, b.key); });
    if (reverse) std::reverse(items.begin(), items.end());
    std::vector<Value> result;
    for (Keyed& item : items) result.push_back(std::move(item.value));
    return result;
}

Value sort(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const auto given = bound(arguments, "sort", {"reverse", "case_sensitive", "attribute"});
    std::vector<Keyed> items;
    for (Value& item : elements(value)) {
        Value key = key_of(interpreter, item, given[2], flag(given[1]));
        items.push_back({std::move(key), std::move(item)});
    }
    return Value::list(sorted(interpreter, std::move(items), flag(given[0])));
}

Value dictsort(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const auto given = bound(arguments, "dictsort", {"case_sensitive", "by", "reverse"});
    const std::string by = given[1] ? printed(*given[1]) : "key";
    if (by != "key" && by != "value") trouble("dictsort: 'by' must be 'key' or 'value', found '{}'", by);
    if (!value.is_dict()) trouble("dictsort needs a dict, found '{}'", type_name(value));
    std::vector<Keyed> items;
    for (const auto& [key, item] : value.as_dict().entries())
        items.push_back({folded(by == "key" ? key : item, flag(given[0])), Value::tuple({key, item})});
    return Value::list(sorted(interpreter, std::move(items), flag(given[2])));
}

Value unique(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const auto given = bound(arguments, "unique", {"case_sensitive", "attribute"});
    Dict seen;
    std::vector<Value> kept;
    for (Value& item : elements(value)) {
        Value key = key_of(interpreter, item, given[1], flag(given[0]));
        if (seen.find(key)) continue;
        seen.set(std::move(key), Value::none());
        kept.push_back(std::move(item));
    }
    return Value::list(std::move(kept), Sequence::generator);
}

Value extreme(Interpreter& interpreter, const Value& value, const Arguments& arguments, bool largest) {
    const auto given = bound(arguments, largest ? "max" : "min", {"case_sensitive", "attribute"});
    Value best = Value::undefined("the sequence is empty"), best_key;
    bool first = true;
    for (Value& item : elements(value)) {
        Value key = key_of(interpreter, item, given[1], flag(given[0]));
        if (first || (largest ? less(best_key, key) : less(key, best_key))) {
            best = std::move(item);
            best_key = std::move(key);
        }
        first = false;
    }
    return best;
}

Value groupby(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const auto given = bound(arguments, "groupby", {"attribute", "default", "case_sensitive"}, 1);
    const auto attribute = [&](const Value& item) {
        Value found = interpreter.path(item, *given[0]);
        return found.is_undefined() && given[1] ? *given[1] : found;
    };
    std::vector<Keyed> items;
    for (Value& item : elements(value)) {
        Value key = folded(attribute(item), flag(given[2]));
        items.push_back({std::move(key), std::move(item)});
    }
    std::vector<Value> groups, members;
    Value current;
    const auto close = [&] {
        if (members.empty()) return;
        Value key = attribute(members.front());
        groups.push_back(Value::tuple({std::move(key), Value::list(std::move(members))}));
        members.clear();
    };
    for (Value& item : sorted(interpreter, std::move(items), false)) {
        Value key = folded(attribute(item), flag(given[2]));
        if (members.empty() || !equal(key, current)) close();
        current = std::move(key);
        members.push_back(std::move(item));
    }
    close();
    return Value::list(std::move(groups));
}

// What map, select and their kin work on: nothing at all when the value is false, even if it is no sequence.
std::vector<Value> elements_if_true(const Value& value) {
    return truth(value) ? elements(value) : std::vector<Value>();
}

Value map(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    std::vector<Value> mapped;
    if (arguments.positional.empty()) {
        const auto given = bound(arguments, "map", {"attribute", "default"}, 1);
        for (const Value& item : elements_if_true(value)) {
            Value found = interpreter.path(item, *given[0]);
            mapped.push_back(found.is_undefined() && given[1] && !given[1]->is_none() ? *given[1] : found);
        }
    } else {
        const std::string& name = text_argument(arguments.positional[0], "map");
        Arguments rest = arguments;
        rest.positional.erase(rest.positional.begin());
        for (const Value& item : elements_if_true(value)) {
            interpreter.charge_steps(1 + item.weight() / 64);
            mapped.push_back(apply_filter(interpreter, name, item, rest));
        }
    }
    return Value::list(std::move(mapped), Sequence::generator);
}

// select, reject, selectattr, rejectattr: keep what passes a test, or is true when no test is named.
Value selected(Interpreter& interpreter, const Value& value, const Arguments& arguments, bool keep,
               bool by_attribute) {
    Arguments rest = arguments;
    Value attribute;
    if (by_attribute) {
        if (rest.positional.empty()) trouble("selectattr needs the name of an attribute");
        attribute = rest.positional[0];
        rest.positional.erase(rest.positional.begin());
    }
    std::string test;
    if (!rest.positional.empty()) {
        test = text_argument(rest.positional[0], "the name of a test");
        rest.positional.erase(rest.positional.begin());
    }
    std::vector<Value> kept;
    for (Value& item : elements_if_true(value)) {
        interpreter.charge_steps(1 + item.weight() / 256);
        const Value subject = by_attribute ? interpreter.path(item, attribute) : item;
        const bool passes = test.empty() ? truth(subject) : apply_test(interpreter, test, subject, rest);
        if (passes == keep) kept.push_back(std::move(item));
    }
    return Value::list(std::move(kept), Sequence::generator);
}

Value first(Interpreter&, const Value& value, const Arguments&) {
    std::vector<Value> items = elements(value);
    return items.empty() ? Value::undefined("there is no first item, the sequence is empty") : items.front();
}

Value last(Interpreter&, const Value& value, const Arguments&) {
    if (value.is_sequence(Sequence::generator)) trouble("a 'generator' can't be reversed: use list first");
    std::vector<Value> items = elements(value);
    return items.empty() ? Value::undefined("there is no last item, the sequence is empty") : items.back();
}

Value reverse(Interpreter&, const Value& value, const Arguments&) {
    std::vector<Value> items = elements(value);
    std::reverse(items.begin(), items.end());
    if (!value.is_text()) return Value::list(std::move(items), Sequence::generator);
    std::string text;
    for (const Value& item : items) text += item.as_text();
    return Value::text(std::move(text));
}

Value join(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const auto given = bound(arguments, "join", {"d", "attribute"});
    const std::string between = given[0] ? printed(*given[0]) : "";
    std::string text;
    bool first_item = true;
    for (const Value& item : elements(value)) {
        if (!first_item) text += between;
        first_item = false;
        text += printed(given[1] && !given[1]->is_none() ? interpreter.path(item, *given[1]) : item);
        require_weight(text.size());
    }
    return Value::text(std::move(text));
}

Value sum(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const auto given = bound(arguments, "sum", {"attribute", "start"});
    Value total = given[1] ? *given[1] : Value::integer(0);
    for (const Value& item : elements(value)) {
        interpreter.charge_bytes(total.weight());
        total = arithmetic("+", total,
                           given[0] && !given[0]->is_none() ? interpreter.path(item, *given[0]) : item);
    }
    return total;
}

Value batch(Interpreter&, const Value& value, const Arguments& arguments) {
    const auto given = bound(arguments, "batch", {"linecount", "fill_with"}, 1);
    const auto count = static_cast<size_t>(std::max<int64_t>(1, whole_argument(*given[0], "batch")));
    std::vector<Value> rows, row;
    for (Value& item : elements(value)) {
        if (row.size() == count) {
            rows.push_back(Value::list(std::move(row)));
            row.clear();
        }
        row.push_back(std::move(item));
    }
    if (!row.empty()) {
        require_weight(count);
        while (given[1] && !given[1]->is_none() && row.size() < count) row.push_back(*given[1]);
        rows.push_back(Value::list(std::move(row)));
    }
    return Value::list(std::move(rows), Sequence::generator);
}

Value slice(Interpreter&, const Value& value, const Arguments& arguments) {
    const auto given = bound(arguments, "slice", {"slices", "fill_with"}, 1);
    const int64_t wanted = whole_argument(*given[0], "slice");
    if (wanted < 1 || wanted > 100000) trouble("slice needs a count from 1 to 100000");
    const auto count = static_cast<size_t>(wanted);
    const std::vector<Value> items = elements(value);
    std::vector<Value> slices;
    size_t at = 0;
    for (size_t i = 0; i < count; ++i) {
        const bool longer = i < items.size() % count;
        std::vector<Value> part;
        for (size_t n = items.size() / count + (longer ? 1 : 0); n > 0; --n) part.push_back(items[at++]);
        if (given[1] && !given[1]->is_none() && !longer) part.push_back(*given[1]);
        slices.push_back(Value::list(std::move(part)));
    }
    return Value::list(std::move(slices), Sequence::generator);
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

Value items(Interpreter&, const Value& value, const Arguments&) {
    if (value.is_undefined()) return Value::list({}, Sequence::generator);
    if (!value.is_dict()) trouble("items needs a dict, found '{}'", type_name(value));
    std::vector<Value> pairs;
    for (const auto& [key, item] : value.as_dict().entries()) pairs.push_back(Value::tuple({key, item}));
    return Value::list(std::move(pairs), Sequence::generator);
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

const std::map<std::string, Filter, std::less<>>& filters() {
    static const std::map<std::string, Filter, std::less<>> table = {
        {"abs", absolute},
        {"attr",
         [](Interpreter& i, const Value& v, const Arguments& a) {
             const auto given = bound(a, "attr", {"name"}, 1);
             return v.is_dict() && !has_method(v, printed(*given[0]))
                        ? Value::undefined("a dict has no such attribute")
                        : i.attribute(v, printed(*given[0]));
         }},
        {"batch", batch},
        {"capitalize",
         [](Interpreter&, const Value& v, const Arguments&) { return Value::text(capitalized(printed(v))); }},
        {"center", center},
        {"count",
         [](Interpreter&, const Value& v, const Arguments&) { return Value::integer(length_of(v)); }},
        {"d", otherwise},
        {"default", otherwise},
        {"dictsort", dictsort},
        {"e", escape},
        {"escape", escape},
        {"first", first},
        {"float", to_float},
        {"forceescape", escape},
        {"format", format},
        {"groupby", groupby},
        {"indent", indent},
        {"int", to_int},
        {"items", items},
        {"join", join},
        {"last", last},
        {"length",
         [](Interpreter&, const Value& v, const Arguments&) { return Value::integer(length_of(v)); }},
        {"list", [](Interpreter&, const Value& v, const Arguments&) { return Value::list(elements(v)); }},
        {"lower",
         [](Interpreter&, const Value& v, const Arguments&) { return Value::text(lower(printed(v))); }},
        {"map", map},
        {"max", [](Interpreter& i, const Value& v, const Arguments& a) { return extreme(i, v, a, true); }},
        {"min", [](Interpreter& i, const Value& v, const Arguments& a) { return extreme(i, v, a, false); }},
        {"reject",
         [](Interpreter& i, const Value& v, const Arguments& a) { return selected(i, v, a, false, false); }},
        {"rejectattr",
         [](Interpreter& i, const Value& v, const Arguments& a) { return selected(i, v, a, false, true); }},
        {"replace", replace},
        {"reverse", reverse},
        {"round", round},
        {"safe", as_text},
        {"select",
         [](Interpreter& i, const Value& v, const Arguments& a) { return selected(i, v, a, true, false); }},
        {"selectattr",
         [](Interpreter& i, const Value& v, const Arguments& a) { return selected(i, v, a, true, true); }},
        {"slice", slice},
        {"sort", sort},
        {"string", as_text},
        {"sum", sum},
        {"title", [](Interpreter&, const Value& v,
                     const Arguments&) { return Value::text(titled_words(printed(v))); }},
        {"tojson", tojson},
        {"trim", trim},
        {"truncate", truncate},
        {"unique", unique},
        {"upper",
         [](Interpreter&, const Value& v, const Arguments&) { return Value::text(upper(printed(v))); }},
        {"urlencode", urlencode},
        {"wordcount", wordcount},
    };
    return table;
}

}  // namespace

bool is_filter(const std::string& name) {
    return filters().count(name) != 0;
}

Value apply_filter(Interpreter& interpreter, const std::string& name, const Value& value,
                   const Arguments& arguments) {
    const auto found = filters().find(name);
    if (found == filters().end()) trouble("there is no filter named '{}'", name);
    return found->second(interpreter, value, arguments);
}

}  // namespace coterie::text::jinja
