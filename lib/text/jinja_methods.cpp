// The methods of str, dict and list that do not change them: the sandbox Hugging Face renders in forbids the
// others.
#include <algorithm>
#include <map>

#include "text/jinja_interpreter.h"
#include "text/jinja_text.h"

namespace coterie::text::jinja {
namespace {

using Method = Value (*)(Interpreter&, const Value&, const Arguments&);
using Table = std::map<std::string, Method, std::less<>>;

int64_t optional_count(const Value* value, int64_t otherwise) {
    return value && !value->is_none() ? whole_argument(*value, "the count") : otherwise;
}

Value texts(std::vector<std::string> parts) {
    std::vector<Value> list;
    list.reserve(parts.size());
    for (std::string& part : parts) list.push_back(Value::text(std::move(part)));
    return Value::list(std::move(list));
}

Value strip(const Value& self, const Arguments& arguments, bool left, bool right) {
    const auto given = bound(arguments, "strip", {"chars"});
    if (!given[0] || given[0]->is_none())
        return Value::text(std::string(stripped(self.as_text(), left, right)));
    return Value::text(
        std::string(stripped_of(self.as_text(), text_argument(*given[0], "strip"), left, right)));
}

Value split(const Value& self, const Arguments& arguments, bool from_right) {
    const auto given = bound(arguments, "split", {"sep", "maxsplit"});
    const int64_t limit = optional_count(given[1], -1);
    if (!given[0] || given[0]->is_none()) return texts(split_at_spaces(self.as_text(), limit, from_right));
    const std::string& separator = text_argument(*given[0], "split");
    if (separator.empty()) trouble("split: the separator is empty");
    return texts(split_at(self.as_text(), separator, limit, from_right));
}

// The part of the text that the optional start and end name, and the code points before it.
struct Range {
    std::string_view text;
    int64_t offset;
};
std::optional<Range> ranged(const Value& self, const Value* first, const Value* last) {
    const std::string& text = self.as_text();
    if (!first && !last) return Range{text, 0};
    const std::vector<size_t> starts = code_point_starts(text);
    const auto length = static_cast<int64_t>(starts.size()) - 1;
    int64_t from = optional_count(first, 0), to = optional_count(last, length);
    if (from < 0) from = std::max<int64_t>(0, from + length);
    if (to < 0) to = std::max<int64_t>(0, to + length);
    to = std::min(to, length);
    if (from > to) return {};
    const size_t begin = starts[static_cast<size_t>(from)];
    return Range{std::string_view(text).substr(begin, starts[static_cast<size_t>(to)] - begin), from};
}

Value affix(const Value& self, const Arguments& arguments, bool at_start) {
    const auto given = bound(arguments, at_start ? "startswith" : "endswith", {"prefix", "start", "end"}, 1);
    const auto part = ranged(self, given[1], given[2]);
    const auto matches = [&](const std::string& wanted) {
        if (!part || wanted.size() > part->text.size()) return false;
        return (at_start ? part->text.substr(0, wanted.size())
                         : part->text.substr(part->text.size() - wanted.size())) == wanted;
    };
    if (!given[0]->is_sequence(Sequence::tuple))
        return Value::boolean(matches(text_argument(*given[0], at_start ? "startswith" : "endswith")));
    const auto& choices = given[0]->items();
    return Value::boolean(std::any_of(choices.begin(), choices.end(), [&](const Value& choice) {
        return matches(text_argument(choice, "startswith"));
    }));
}

Value find(const Value& self, const Arguments& arguments, bool from_right, bool must_be) {
    const auto given = bound(arguments, "find", {"sub", "start", "end"}, 1);
    const std::string& wanted = text_argument(*given[0], "find");
    const auto part = ranged(self, given[1], given[2]);
    const size_t found = !part        ? std::string_view::npos
                         : from_right ? part->text.rfind(wanted)
                                      : part->text.find(wanted);
    if (found != std::string_view::npos)
        return Value::integer(part->offset +
                              static_cast<int64_t>(code_point_count(part->text.substr(0, found))));
    if (must_be) trouble("index: the text does not contain {}", repr(*given[0]).substr(0, 80));
    return Value::integer(-1);
}

Value count(const Value& self, const Arguments& arguments) {
    const auto given = bound(arguments, "count", {"sub", "start", "end"}, 1);
    const std::string& wanted = text_argument(*given[0], "count");
    const auto part = ranged(self, given[1], given[2]);
    if (!part) return Value::integer(0);
    if (wanted.empty()) return Value::integer(static_cast<int64_t>(code_point_count(part->text)) + 1);
    int64_t times = 0;
    for (size_t at = part->text.find(wanted); at != std::string_view::npos;
         at = part->text.find(wanted, at + wanted.size()))
        ++times;
    return Value::integer(times);
}

// To a width: the text at the left, right or in the middle.
Value justified(const Value& self, const Arguments& arguments, char side) {
    const auto given = bound(arguments, "a justified text", {"width", "fillchar"}, 1);
    const std::string fill = given[1] ? text_argument(*given[1], "the fill character") : " ";
    if (code_point_count(fill) != 1) trouble("the fill character must be one character");
    const int64_t width = whole_argument(*given[0], "a width");
    const auto length = static_cast<int64_t>(code_point_count(self.as_text()));
    if (width <= length) return self;
    require_weight(static_cast<uint64_t>(width) * fill.size());
    const int64_t missing = width - length;
    const int64_t left = side == 'l' ? 0 : side == 'r' ? missing : missing / 2 + (missing & width & 1);
    std::string result;
    for (int64_t i = 0; i < left; ++i) result += fill;
    result += self.as_text();
    for (int64_t i = left; i < missing; ++i) result += fill;
    return Value::text(std::move(result));
}

Value zfill(const Value& self, const Arguments& arguments) {
    const auto given = bound(arguments, "zfill", {"width"}, 1);
    const int64_t width = whole_argument(*given[0], "zfill");
    std::string text = self.as_text();
    const auto length = static_cast<int64_t>(code_point_count(text));
    if (width <= length) return self;
    require_weight(static_cast<uint64_t>(width));
    const size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
    return Value::text(text.insert(sign, static_cast<size_t>(width - length), '0'));
}

Value partition(const Value& self, const Arguments& arguments, bool from_right) {
    const auto given = bound(arguments, "partition", {"sep"}, 1);
    const std::string& separator = text_argument(*given[0], "partition");
    if (separator.empty()) trouble("partition: the separator is empty");
    const std::string& text = self.as_text();
    const size_t at = from_right ? text.rfind(separator) : text.find(separator);
    const auto triple = [](std::string a, std::string b, std::string c) {
        return Value::tuple(
            {Value::text(std::move(a)), Value::text(std::move(b)), Value::text(std::move(c))});
    };
    if (at == std::string::npos) return from_right ? triple("", "", text) : triple(text, "", "");
    return triple(text.substr(0, at), separator, text.substr(at + separator.size()));
}

Value join(const Value& self, const Arguments& arguments) {
    const auto given = bound(arguments, "join", {"iterable"}, 1);
    std::string result;
    bool first = true;
    for (const Value& item : elements(*given[0])) {
        if (!first) result += self.as_text();
        first = false;
        result += text_argument(item, "join");
        require_weight(result.size());
    }
    return Value::text(std::move(result));
}

// True when the text is not empty and all its characters pass.
template <typename Passes>
Value every(const Value& self, Passes passes) {
    const std::string& text = self.as_text();
    for (size_t at = 0; at < text.size(); at += code_point_bytes(text, at)) {
        if (!passes(text, at)) return Value::boolean(false);
    }
    return Value::boolean(!text.empty());
}

Value swapped(const std::string& text) {
    std::string result;
    for (size_t at = 0; at < text.size(); at += code_point_bytes(text, at)) {
        const std::string one = text.substr(at, code_point_bytes(text, at));
        const std::string raised = upper(one);
        result += raised == one ? lower(one) : raised;
    }
    return Value::text(std::move(result));
}

const Table& text_methods() {
    using I = Interpreter&;
    using V = const Value&;
    using A = const Arguments&;
    static const Table table = {
        {"capitalize", [](I, V v, A) { return Value::text(capitalized(v.as_text())); }},
        {"casefold", [](I, V v, A) { return Value::text(lower(v.as_text())); }},
        {"center", [](I, V v, A a) { return justified(v, a, 'c'); }},
        {"count", [](I, V v, A a) { return count(v, a); }},
        {"endswith", [](I, V v, A a) { return affix(v, a, false); }},
        {"find", [](I, V v, A a) { return find(v, a, false, false); }},
        {"format", [](I i, V v, A a) { return Value::text(brace_formatted(i, v.as_text(), a)); }},
        {"index", [](I, V v, A a) { return find(v, a, false, true); }},
        {"isalnum",
         [](I, V v, A) {
             return every(v, [](const std::string& t, size_t at) {
                 return is_letter(t, at) || is_digit(code_point_at(t, at));
             });
         }},
        {"isalpha",
         [](I, V v, A) {
             return every(v, [](const std::string& t, size_t at) { return is_letter(t, at); });
         }},
        {"isdecimal",
         [](I, V v, A) {
             return every(v, [](const std::string& t, size_t at) { return is_digit(code_point_at(t, at)); });
         }},
        {"isdigit",
         [](I, V v, A) {
             return every(v, [](const std::string& t, size_t at) { return is_digit(code_point_at(t, at)); });
         }},
        {"islower", [](I, V v, A) { return Value::boolean(all_cased(v.as_text(), false)); }},
        {"isnumeric",
         [](I, V v, A) {
             return every(v, [](const std::string& t, size_t at) { return is_digit(code_point_at(t, at)); });
         }},
        {"isspace",
         [](I, V v, A) {
             return every(v, [](const std::string& t, size_t at) { return is_space(code_point_at(t, at)); });
         }},
        {"isupper", [](I, V v, A) { return Value::boolean(all_cased(v.as_text(), true)); }},
        {"join", [](I, V v, A a) { return join(v, a); }},
        {"ljust", [](I, V v, A a) { return justified(v, a, 'l'); }},
        {"lower", [](I, V v, A) { return Value::text(lower(v.as_text())); }},
        {"lstrip", [](I, V v, A a) { return strip(v, a, true, false); }},
        {"partition", [](I, V v, A a) { return partition(v, a, false); }},
        {"removeprefix",
         [](I, V v, A a) {
             const auto given = bound(a, "removeprefix", {"prefix"}, 1);
             const std::string& text = v.as_text();
             const std::string& prefix = text_argument(*given[0], "removeprefix");
             return text.compare(0, prefix.size(), prefix) == 0 ? Value::text(text.substr(prefix.size())) : v;
         }},
        {"removesuffix",
         [](I, V v, A a) {
             const auto given = bound(a, "removesuffix", {"suffix"}, 1);
             const std::string& text = v.as_text();
             const std::string& suffix = text_argument(*given[0], "removesuffix");
             const bool ends = text.size() >= suffix.size() &&
                               text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
             return ends ? Value::text(text.substr(0, text.size() - suffix.size())) : v;
         }},
        {"replace", [](I i, V v, A a) { return apply_filter(i, "replace", v, a); }},
        {"rfind", [](I, V v, A a) { return find(v, a, true, false); }},
        {"rindex", [](I, V v, A a) { return find(v, a, true, true); }},
        {"rjust", [](I, V v, A a) { return justified(v, a, 'r'); }},
        {"rpartition", [](I, V v, A a) { return partition(v, a, true); }},
        {"rsplit", [](I, V v, A a) { return split(v, a, true); }},
        {"rstrip", [](I, V v, A a) { return strip(v, a, false, true); }},
        {"split", [](I, V v, A a) { return split(v, a, false); }},
        {"splitlines",
         [](I, V v, A a) {
             const auto given = bound(a, "splitlines", {"keepends"});
             return texts(split_lines(v.as_text(), given[0] && truth(*given[0])));
         }},
        {"startswith", [](I, V v, A a) { return affix(v, a, true); }},
        {"strip", [](I, V v, A a) { return strip(v, a, true, true); }},
        {"swapcase", [](I, V v, A) { return swapped(v.as_text()); }},
        {"title", [](I, V v, A) { return Value::text(titled(v.as_text())); }},
        {"upper", [](I, V v, A) { return Value::text(upper(v.as_text())); }},
        {"zfill", [](I, V v, A a) { return zfill(v, a); }},
    };
    return table;
}

[[noreturn]] Value forbidden(Interpreter&, const Value& self, const Arguments&) {
    trouble("a template may not change a {}: build a new one", type_name(self));
}

const Table& dict_methods() {
    using I = Interpreter&;
    using V = const Value&;
    using A = const Arguments&;
    static const Table table = {
        {"copy", [](I, V v, A) { return v; }},
        {"get",
         [](I, V v, A a) {
             const auto given = bound(a, "get", {"key", "default"}, 1);
             if (const Value* found = v.as_dict().find(*given[0])) return *found;
             return given[1] ? *given[1] : Value::none();
         }},
        {"items",
         [](I, V v, A) {
             std::vector<Value> pairs;
             for (const auto& [key, value] : v.as_dict().entries())
                 pairs.push_back(Value::tuple({key, value}));
             return Value::list(std::move(pairs), Sequence::items);
         }},
        {"keys",
         [](I, V v, A) {
             std::vector<Value> keys;
             for (const auto& entry : v.as_dict().entries()) keys.push_back(entry.first);
             return Value::list(std::move(keys), Sequence::keys);
         }},
        {"values",
         [](I, V v, A) {
             std::vector<Value> values;
             for (const auto& entry : v.as_dict().entries()) values.push_back(entry.second);
             return Value::list(std::move(values), Sequence::values);
         }},
        {"clear", forbidden},
        {"pop", forbidden},
        {"popitem", forbidden},
        {"setdefault", forbidden},
        {"update", forbidden},
    };
    return table;
}

const Table& list_methods() {
    using I = Interpreter&;
    using V = const Value&;
    using A = const Arguments&;
    static const Table table = {
        {"copy", [](I, V v, A) { return v; }},
        {"count",
         [](I, V v, A a) {
             const auto given = bound(a, "count", {"value"}, 1);
             return Value::integer(std::count_if(v.items().begin(), v.items().end(),
                                                 [&](const Value& item) { return equal(item, *given[0]); }));
         }},
        {"index",
         [](I, V v, A a) {
             const auto given = bound(a, "index", {"value"}, 1);
             for (size_t i = 0; i < v.items().size(); ++i) {
                 if (equal(v.items()[i], *given[0])) return Value::integer(static_cast<int64_t>(i));
             }
             trouble("index: the list does not contain {}", repr(*given[0]).substr(0, 80));
         }},
        {"append", forbidden},
        {"clear", forbidden},
        {"extend", forbidden},
        {"insert", forbidden},
        {"pop", forbidden},
        {"remove", forbidden},
        {"reverse", forbidden},
        {"sort", forbidden},
    };
    return table;
}

std::optional<Changed> changed_list(const Value& self, const std::string& name, const Arguments& arguments) {
    std::vector<Value> items = self.items();
    const auto place = [&](const Value& index) {
        int64_t at = whole_argument(index, name);
        if (at < 0) at += static_cast<int64_t>(items.size());
        return at;
    };
    Value result = Value::none();
    if (name == "append") {
        items.push_back(*bound(arguments, name, {"object"}, 1)[0]);
    } else if (name == "extend") {
        for (Value& item : elements(*bound(arguments, name, {"iterable"}, 1)[0]))
            items.push_back(std::move(item));
    } else if (name == "insert") {
        const auto given = bound(arguments, name, {"index", "object"}, 2);
        const int64_t at = std::clamp<int64_t>(place(*given[0]), 0, static_cast<int64_t>(items.size()));
        items.insert(items.begin() + at, *given[1]);
    } else if (name == "pop") {
        const auto given = bound(arguments, name, {"index"});
        const int64_t at = given[0] ? place(*given[0]) : static_cast<int64_t>(items.size()) - 1;
        if (at < 0 || at >= static_cast<int64_t>(items.size())) trouble("pop: the index is out of range");
        result = items[static_cast<size_t>(at)];
        items.erase(items.begin() + at);
    } else {
        return {};
    }
    return Changed{Value::list(std::move(items)), result};
}

std::optional<Changed> changed_dict(const Value& self, const std::string& name, const Arguments& arguments) {
    Dict dict = self.as_dict();
    Value result = Value::none();
    if (name == "update") {
        for (const Value& from : arguments.positional) {
            if (!from.is_dict()) trouble("update needs a dict, found '{}'", type_name(from));
            for (const auto& [key, value] : from.as_dict().entries()) dict.set(key, value);
        }
        for (const auto& [key, value] : arguments.named) dict.set(key, value);
    } else if (name == "setdefault") {
        const auto given = bound(arguments, name, {"key", "default"}, 1);
        if (!dict.find(*given[0])) dict.set(*given[0], given[1] ? *given[1] : Value::none());
        result = *dict.find(*given[0]);
    } else if (name == "pop") {
        const auto given = bound(arguments, name, {"key", "default"}, 1);
        const Value* found = dict.find(*given[0]);
        if (!found && !given[1]) trouble("pop: the dict has no such key");
        result = found ? *found : *given[1];
        if (found) dict.erase(text_argument(*given[0], "pop"));
    } else {
        return {};
    }
    return Changed{Value::dict(std::move(dict)), result};
}

const Table* methods_of(const Value& self) {
    if (self.is_text()) return &text_methods();
    if (self.is_dict()) return &dict_methods();
    if (self.is_sequence(Sequence::list) || self.is_sequence(Sequence::tuple)) return &list_methods();
    return nullptr;
}

}  // namespace

bool has_method(const Value& self, std::string_view name) {
    const Table* table = methods_of(self);
    return table && table->find(name) != table->end();
}

std::optional<Changed> changed_by_method(const Value& self, const std::string& name,
                                         const Arguments& arguments) {
    if (self.is_dict()) return changed_dict(self, name, arguments);
    if (self.is_sequence(Sequence::list)) return changed_list(self, name, arguments);
    return {};
}

Value call_method(Interpreter& interpreter, const Value& self, const std::string& name,
                  const Arguments& arguments) {
    interpreter.charge_steps(1 + self.weight() / 64);
    return methods_of(self)->at(name)(interpreter, self, arguments);
}

}  // namespace coterie::text::jinja
