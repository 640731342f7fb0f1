// The tests that stand after `is`, and that select and its kin name.
#include <map>

#include "text/jinja_interpreter.h"
#include "text/jinja_text.h"

namespace coterie::text::jinja {
namespace {

using Test = bool (*)(Interpreter&, const Value&, const Arguments&);

const Value& other(const Arguments& arguments) {
    if (arguments.positional.size() != 1)
        trouble("the test needs one argument, found {}", arguments.positional.size());
    return arguments.positional[0];
}

int64_t remainder(const Value& value, const Value& divisor) {
    if (value.is_undefined()) trouble("{}", value.why_undefined());
    const Value rest = arithmetic("%", value, divisor);
    return rest.is_whole()                           ? rest.as_whole()
           : rest.is_real() && rest.as_double() == 0 ? 0
           : rest.is_real() && rest.as_double() == 1 ? 1
                                                     : 2;
}

bool is_iterable(const Value& value) {
    return value.is_text() || value.is_list() || value.is_dict() || value.is_undefined();
}

bool is_sequence(const Value& value) {
    return value.is_text() || value.is_dict() || value.is_undefined() || value.is_sequence(Sequence::list) ||
           value.is_sequence(Sequence::tuple) || value.is_sequence(Sequence::range);
}

const std::map<std::string, Test, std::less<>>& tests() {
    using I = Interpreter&;
    using V = const Value&;
    using A = const Arguments&;
    static const Test is_equal = [](I, V v, A a) { return equal(v, other(a)); };
    static const Test is_unequal = [](I, V v, A a) { return !equal(v, other(a)); };
    static const Test is_less = [](I, V v, A a) { return less(v, other(a), "<"); };
    static const Test is_greater = [](I, V v, A a) { return less(other(a), v, ">"); };
    static const Test is_at_most = [](I, V v, A a) { return less(v, other(a), "<=") || equal(v, other(a)); };
    static const Test is_at_least = [](I, V v, A a) { return less(other(a), v, ">=") || equal(v, other(a)); };
    static const std::map<std::string, Test, std::less<>> table = {
        {"boolean", [](I, V v, A) { return v.is_boolean(); }},
        {"callable", [](I, V v, A) { return v.is_object() && v.as_object().callable(); }},
        {"defined", [](I, V v, A) { return !v.is_undefined(); }},
        {"divisibleby", [](I, V v, A a) { return remainder(v, other(a)) == 0; }},
        {"escaped", [](I, V, A) { return false; }},
        {"even", [](I, V v, A) { return remainder(v, Value::integer(2)) == 0; }},
        {"false", [](I, V v, A) { return v.is_boolean() && !v.as_boolean(); }},
        {"filter", [](I, V v, A) { return v.is_text() && is_filter(v.as_text()); }},
        {"float", [](I, V v, A) { return v.is_real(); }},
        {"in", [](I, V v, A a) { return contains(other(a), v); }},
        {"integer", [](I, V v, A) { return v.is_integer(); }},
        {"iterable", [](I, V v, A) { return is_iterable(v); }},
        {"lower", [](I, V v, A) { return all_cased(printed(v), false); }},
        {"mapping", [](I, V v, A) { return v.is_dict(); }},
        {"none", [](I, V v, A) { return v.is_none(); }},
        {"number", [](I, V v, A) { return v.is_number(); }},
        {"odd", [](I, V v, A) { return remainder(v, Value::integer(2)) == 1; }},
        {"sameas", [](I, V v, A a) { return v.same_as(other(a)); }},
        {"sequence", [](I, V v, A) { return is_sequence(v); }},
        {"string", [](I, V v, A) { return v.is_text(); }},
        {"test", [](I, V v, A) { return v.is_text() && is_test(v.as_text()); }},
        {"true", [](I, V v, A) { return v.is_boolean() && v.as_boolean(); }},
        {"undefined", [](I, V v, A) { return v.is_undefined(); }},
        {"upper", [](I, V v, A) { return all_cased(printed(v), true); }},
        {"==", is_equal},
        {"eq", is_equal},
        {"equalto", is_equal},
        {"!=", is_unequal},
        {"ne", is_unequal},
        {"<", is_less},
        {"lt", is_less},
        {"lessthan", is_less},
        {">", is_greater},
        {"gt", is_greater},
        {"greaterthan", is_greater},
        {"<=", is_at_most},
        {"le", is_at_most},
        {">=", is_at_least},
        {"ge", is_at_least},
    };
    return table;
}

}  // namespace

bool is_test(const std::string& name) {
    return tests().count(name) != 0;
}

bool apply_test(Interpreter& interpreter, const std::string& name, const Value& value,
                const Arguments& arguments) {
    const auto found = tests().find(name);
    if (found == tests().end()) trouble("there is no test named '{}'", name);
    return found->second(interpreter, value, arguments);
}

}  // namespace coterie::text::jinja
