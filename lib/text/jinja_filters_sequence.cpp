// Filters that sort, pick, group and join the elements of a sequence.
#include <algorithm>

#include "text/jinja_filters.h"
#include "text/jinja_text.h"

namespace coterie::text::jinja {
namespace {

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

Value items(Interpreter&, const Value& value, const Arguments&) {
    if (value.is_undefined()) return Value::list({}, Sequence::generator);
    if (!value.is_dict()) trouble("items needs a dict, found '{}'", type_name(value));
    std::vector<Value> pairs;
    for (const auto& [key, item] : value.as_dict().entries()) pairs.push_back(Value::tuple({key, item}));
    return Value::list(std::move(pairs), Sequence::generator);
}

}  // namespace

const FilterTable& sequence_filters() {
    static const FilterTable table = {
        {"batch", batch},
        {"count",
         [](Interpreter&, const Value& v, const Arguments&) { return Value::integer(length_of(v)); }},
        {"dictsort", dictsort},
        {"first", first},
        {"groupby", groupby},
        {"items", items},
        {"join", join},
        {"last", last},
        {"length",
         [](Interpreter&, const Value& v, const Arguments&) { return Value::integer(length_of(v)); }},
        {"list", [](Interpreter&, const Value& v, const Arguments&) { return Value::list(elements(v)); }},
        {"map", map},
        {"max", [](Interpreter& i, const Value& v, const Arguments& a) { return extreme(i, v, a, true); }},
        {"min", [](Interpreter& i, const Value& v, const Arguments& a) { return extreme(i, v, a, false); }},
        {"reject",
         [](Interpreter& i, const Value& v, const Arguments& a) { return selected(i, v, a, false, false); }},
        {"rejectattr",
         [](Interpreter& i, const Value& v, const Arguments& a) { return selected(i, v, a, false, true); }},
        {"reverse", reverse},
        {"select",
         [](Interpreter& i, const Value& v, const Arguments& a) { return selected(i, v, a, true, false); }},
        {"selectattr",
         [](Interpreter& i, const Value& v, const Arguments& a) { return selected(i, v, a, true, true); }},
        {"slice", slice},
        {"sort", sort},
        {"sum", sum},
        {"unique", unique},
    };
    return table;
}

}  // namespace coterie::text::jinja
