// The functions every template may call, the arithmetic of its signs, and the reading of arguments.
#include <algorithm>
#include <cmath>
#include <ctime>

#include "text/jinja_interpreter.h"
#include "text/jinja_scope.h"

namespace coterie::text::jinja {
namespace {

Value range(const Arguments& arguments) {
    const auto& given = arguments.positional;
    if (given.empty() || given.size() > 3 || !arguments.named.empty())
        trouble("range takes one to three numbers");
    const int64_t first = given.size() > 1 ? whole_argument(given[0], "range") : 0;
    const int64_t last = whole_argument(given[given.size() > 1 ? 1 : 0], "range");
    const int64_t step = given.size() > 2 ? whole_argument(given[2], "range") : 1;
    if (step == 0) trouble("range: the step can't be zero");
    std::vector<Value> numbers;
    for (int64_t i = first; step > 0 ? i < last : i > last;) {
        if (numbers.size() == 100000) trouble("range: more than 100000 numbers");
        numbers.push_back(Value::integer(i));
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return Value::list(std::move(numbers), Sequence::range);
}

// dict(mapping or pairs, **named), also behind namespace(...).
Dict dict_of(const Arguments& arguments, const char* what) {
    Dict dict;
    if (arguments.positional.size() > 1) trouble("{} takes one mapping and named values", what);
    for (const Value& from : arguments.positional) {
        if (from.is_dict()) {
            dict = from.as_dict();
            continue;
        }
        for (const Value& pair : elements(from)) {
            std::vector<Value> parts = elements(pair);
            if (parts.size() != 2) trouble("{} needs pairs of key and value", what);
            dict.set(std::move(parts[0]), std::move(parts[1]));
        }
    }
    for (const auto& [name, value] : arguments.named) dict.set(name, value);
    return dict;
}

Value strftime_now(const std::string& format, std::optional<int64_t> now) {
    std::tm parts{};
    const std::time_t seconds = now ? static_cast<std::time_t>(*now) : std::time(nullptr);
    if (now) {
        gmtime_r(&seconds, &parts);
    } else {
        localtime_r(&seconds, &parts);
    }
    if (format.size() > 1000) trouble("strftime_now: the format is too long");
    std::string text(format.size() * 32 + 64, '\0');
    text.resize(std::strftime(text.data(), text.size(), format.c_str(), &parts));
    return Value::text(std::move(text));
}

Value repeated(const Value& sequence, int64_t times) {
    times = std::max<int64_t>(0, times);
    const uint64_t weight = std::max<uint64_t>(1, sequence.weight());
    if (static_cast<uint64_t>(times) > max_value_weight / weight + 1 && length_of(sequence) > 0)
        require_weight(max_value_weight + 1);
    if (sequence.is_text()) {
        std::string text;
        if (!sequence.as_text().empty()) {
            for (int64_t i = 0; i < times; ++i) text += sequence.as_text();
        }
        return Value::text(std::move(text));
    }
    std::vector<Value> items;
    if (!sequence.items().empty()) {
        for (int64_t i = 0; i < times; ++i)
            items.insert(items.end(), sequence.items().begin(), sequence.items().end());
    }
    return Value::list(std::move(items), sequence.as_list().sequence);
}

bool repeats(const Value& value) {
    return value.is_text() || value.is_sequence(Sequence::list) || value.is_sequence(Sequence::tuple);
}

int64_t floor_divided(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

Value whole_power(int64_t base, int64_t exponent) {
    if (exponent < 0) return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
    int64_t result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
            trouble("'**' does not fit 64 bits");
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) trouble("'**' does not fit 64 bits");
    }
    return Value::integer(result);
}

Value whole_arithmetic(const std::string& sign, int64_t a, int64_t b) {
    int64_t result = 0;
    bool overflow = false;
    if (sign == "+")
        overflow = __builtin_add_overflow(a, b, &result);
    else if (sign == "-")
        overflow = __builtin_sub_overflow(a, b, &result);
    else if (sign == "*")
        overflow = __builtin_mul_overflow(a, b, &result);
    else if (sign == "**")
        return whole_power(a, b);
    else {
        if (b == 0) trouble("division by zero");
        if (sign == "/") return Value::real(static_cast<double>(a) / static_cast<double>(b));
        if (b == -1) return sign == "//" ? whole_arithmetic("-", 0, a) : Value::integer(0);
        if (sign == "//") return Value::integer(floor_divided(a, b));
        return Value::integer(a - floor_divided(a, b) * b);
    }
    if (overflow) trouble("'{}' does not fit 64 bits", sign);
    return Value::integer(result);
}

Value real_arithmetic(const std::string& sign, double a, double b) {
    if (sign == "+") return Value::real(a + b);
    if (sign == "-") return Value::real(a - b);
    if (sign == "*") return Value::real(a * b);
    if (sign == "**") return Value::real(std::pow(a, b));
    if (b == 0) trouble("division by zero");
    if (sign == "/") return Value::real(a / b);
    if (sign == "//") return Value::real(std::floor(a / b));
    const double rest = std::fmod(a, b);
    return Value::real(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

}  // namespace

Value arithmetic(const std::string& sign, const Value& left, const Value& right) {
    if (left.is_undefined()) trouble("{}", left.why_undefined());
    if (left.is_text() && sign == "%") return Value::text(percent_formatted(left.as_text(), right));
    if (right.is_undefined()) trouble("{}", right.why_undefined());
    if (left.is_whole() && right.is_whole()) return whole_arithmetic(sign, left.as_whole(), right.as_whole());
    if (left.is_number() && right.is_number())
        return real_arithmetic(sign, left.as_double(), right.as_double());
    if (sign == "+" && left.is_text() && right.is_text()) {
        require_weight(left.as_text().size() + right.as_text().size());
        return Value::text(left.as_text() + right.as_text());
    }
    if (sign == "+" && repeats(left) && repeats(right) && !left.is_text() && !right.is_text() &&
        left.as_list().sequence == right.as_list().sequence) {
        std::vector<Value> items = left.items();
        items.insert(items.end(), right.items().begin(), right.items().end());
        return Value::list(std::move(items), left.as_list().sequence);
    }
    if (sign == "*" && repeats(left) && right.is_whole()) return repeated(left, right.as_whole());
    if (sign == "*" && left.is_whole() && repeats(right)) return repeated(right, left.as_whole());
    trouble("'{}' does not work on '{}' and '{}'", sign, type_name(left), type_name(right));
}

Dict template_functions(Interpreter& interpreter) {
    Dict functions;
    const auto add = [&](const char* name, Function::Body body) {
        functions.set(name, Value::object(std::make_shared<Function>("function", std::move(body))));
    };
    Interpreter* self = &interpreter;
    add("range", range);
    add("dict", [](const Arguments& arguments) { return Value::dict(dict_of(arguments, "dict")); });
    add("namespace",
        [self](const Arguments& arguments) { return self->new_namespace(dict_of(arguments, "namespace")); });
    add("raise_exception", [](const Arguments& arguments) -> Value {
        const auto given = bound(arguments, "raise_exception", {"message"}, 1);
        throw Trouble{printed(*given[0]), true};
    });
    add("strftime_now", [self](const Arguments& arguments) {
        const auto given = bound(arguments, "strftime_now", {"format"}, 1);
        return strftime_now(text_argument(*given[0], "strftime_now"), self->now());
    });
    add("joiner", [](const Arguments& arguments) {
        const auto given = bound(arguments, "joiner", {"sep"});
        const Value separator = given[0] ? *given[0] : Value::text(", ");
        auto used = std::make_shared<bool>(false);
        return Value::object(std::make_shared<Function>(
            "Joiner",
            [separator, used](const Arguments&) {
                if (*used) return separator;
                *used = true;
                return Value::text("");
            },
            separator.depth() + 1));
    });
    return functions;
}

std::vector<const Value*> bound(const Arguments& arguments, std::string_view what,
                                std::initializer_list<const char*> names, size_t required) {
    std::vector<const Value*> result(names.size(), nullptr);
    if (arguments.positional.size() > names.size())
        trouble("{} takes at most {} arguments, found {}", what, names.size(), arguments.positional.size());
    for (size_t i = 0; i < arguments.positional.size(); ++i) result[i] = &arguments.positional[i];
    for (const auto& [name, value] : arguments.named) {
        const auto found = std::find_if(names.begin(), names.end(),
                                        [&, &given = name](const char* one) { return given == one; });
        if (found == names.end()) trouble("{} has no argument named '{}'", what, name);
        result[static_cast<size_t>(found - names.begin())] = &value;
    }
    for (size_t i = 0; i < required; ++i) {
        if (!result[i]) trouble("{} needs the argument '{}'", what, *(names.begin() + i));
    }
    return result;
}

int64_t whole_argument(const Value& value, std::string_view what) {
    if (value.is_undefined()) trouble("{}: {}", what, value.why_undefined());
    if (!value.is_whole()) trouble("{} needs a whole number, found '{}'", what, type_name(value));
    return value.as_whole();
}

const std::string& text_argument(const Value& value, std::string_view what) {
    if (value.is_undefined()) trouble("{}: {}", what, value.why_undefined());
    if (!value.is_text()) trouble("{} needs a str, found '{}'", what, type_name(value));
    return value.as_text();
}

}  // namespace coterie::text::jinja
