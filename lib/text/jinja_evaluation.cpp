// How the interpreter evaluates expressions.
#include <algorithm>

#include "text/jinja_interpreter.h"
#include "text/jinja_scope.h"
#include "text/jinja_text.h"

namespace coterie::text::jinja {
namespace {

int64_t bound_index(const Value& bound, int64_t length, int64_t lowest, int64_t highest) {
    int64_t index = whole_argument(bound, "a slice");
    if (index < 0) index = std::max(index + length, lowest);
    return std::clamp(index, lowest, highest);
}

}  // namespace

Value Interpreter::evaluate(const Node& node) {
    Deeper deeper(*this);
    charge_steps(1);
    line_ = node.line;
    const auto child = [&](size_t index) { return evaluate(*node.children[index]); };
    switch (node.kind) {
        case NodeKind::constant:
            return node.value;
        case NodeKind::name:
            return evaluate_name(node);
        case NodeKind::attribute: {
            const Value object = child(0);
            line_ = node.line;
            return attribute(object, node.text);
        }
        case NodeKind::item: {
            const Value object = child(0);
            const Node& key = *node.children[1];
            if (key.kind == NodeKind::slice) return charged(evaluate_slice(object, key));
            const Value index = evaluate(key);
            line_ = node.line;
            return item(object, index);
        }
        case NodeKind::list:
        case NodeKind::tuple: {
            std::vector<Value> items;
            for (const auto& part : node.children) items.push_back(evaluate(*part));
            return charged(Value::list(std::move(items),
                                       node.kind == NodeKind::list ? Sequence::list : Sequence::tuple));
        }
        case NodeKind::dict: {
            Dict dict;
            for (size_t i = 0; i < node.children.size(); i += 2) {
                Value key = child(i);
                dict.set(std::move(key), child(i + 1));
            }
            return charged(Value::dict(std::move(dict)));
        }
        case NodeKind::negative:
            return arithmetic("-", Value::integer(0), child(0));
        case NodeKind::positive:
            return arithmetic("+", Value::integer(0), child(0));
        case NodeKind::negation:
            return Value::boolean(!truth(child(0)));
        case NodeKind::both: {
            Value left = child(0);
            return truth(left) ? child(1) : left;
        }
        case NodeKind::either: {
            Value left = child(0);
            return truth(left) ? left : child(1);
        }
        case NodeKind::conditional:
            if (truth(child(0))) return child(1);
            return node.children[2] ? child(2) : Value::undefined("the inline if was false and has no else");
        case NodeKind::comparison:
            return evaluate_comparison(node);
        case NodeKind::arithmetic: {
            const Value left = child(0);
            const Value right = child(1);
            line_ = node.line;
            return charged(arithmetic(node.text, left, right));
        }
        case NodeKind::concatenation: {
            std::string text;
            for (const auto& part : node.children) {
                text += printed(evaluate(*part));
                require_weight(text.size());
            }
            return charged(Value::text(std::move(text)));
        }
        case NodeKind::call:
            return charged(evaluate_call(node));
        case NodeKind::filter:
            return evaluate_filters(node, nullptr);
        case NodeKind::test: {
            const Value subject = child(0);
            const Arguments arguments = evaluate_arguments(node.arguments.get());
            line_ = node.line;
            return Value::boolean(apply_test(*this, node.text, subject, arguments));
        }
        default:
            trouble("a statement stands where an expression is needed");
    }
}

Value Interpreter::evaluate_name(const Node& node) {
    if (const Value* found = scope_->find(node.text)) return *found;
    if (const Value* found = variables_.find(node.text)) return *found;
    if (const Value* found = functions_.find(node.text)) return *found;
    return Value::undefined(fmt::format("'{}' is undefined", node.text));
}

Value Interpreter::evaluate_slice(const Value& object, const Node& slice) {
    const auto part = [&](size_t index) {
        return slice.children[index] ? evaluate(*slice.children[index]) : Value::none();
    };
    const Value first = part(0), last = part(1), stride = part(2);
    line_ = slice.line;
    if (object.is_undefined()) trouble("{}", object.why_undefined());
    if (!object.is_text() && !object.is_list()) return Value::undefined("the value can't be sliced");
    const int64_t step = stride.is_none() ? 1 : whole_argument(stride, "a slice");
    if (step == 0) trouble("the step of a slice can't be zero");
    const int64_t length = length_of(object);
    const int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? length : length - 1;
    int64_t at = first.is_none() ? (step > 0 ? 0 : length - 1) : bound_index(first, length, lowest, highest);
    const int64_t end =
        last.is_none() ? (step > 0 ? length : -1) : bound_index(last, length, lowest, highest);
    const auto inside = [&] { return step > 0 ? at < end : at > end; };
    const auto advance = [&] {
        at = step > 0 ? (end - at > step ? at + step : end) : (at - end > -step ? at + step : end);
    };
    if (object.is_text()) {
        const std::string& text = object.as_text();
        charge_steps(text.size() / 64);
        const std::vector<size_t> starts = code_point_starts(text);
        const auto place = [&](int64_t index) { return starts[static_cast<size_t>(index)]; };
        if (step == 1) return Value::text(inside() ? text.substr(place(at), place(end) - place(at)) : "");
        std::string result;
        for (; inside(); advance()) result.append(text, place(at), place(at + 1) - place(at));
        return Value::text(std::move(result));
    }
    std::vector<Value> items;
    for (; inside(); advance()) items.push_back(object.items()[static_cast<size_t>(at)]);
    return Value::list(std::move(items), object.as_list().sequence);
}

Value Interpreter::evaluate_comparison(const Node& node) {
    Value left = evaluate(*node.children[0]);
    for (size_t i = 0; i < node.signs.size(); ++i) {
        Value right = evaluate(*node.children[i + 1]);
        line_ = node.line;
        charge_steps((left.weight() + right.weight()) / 64);
        const std::string& sign = node.signs[i];
        bool holds = false;
        if (sign == "==")
            holds = equal(left, right);
        else if (sign == "!=")
            holds = !equal(left, right);
        else if (sign == "<")
            holds = less(left, right, "<");
        else if (sign == ">")
            holds = less(right, left, ">");
        else if (sign == "<=")
            holds = less(left, right, "<=") || equal(left, right);
        else if (sign == ">=")
            holds = less(right, left, ">=") || equal(left, right);
        else if (sign == "in")
            holds = contains(right, left);
        else
            holds = !contains(right, left);
        if (!holds) return Value::boolean(false);
        left = std::move(right);
    }
    return Value::boolean(true);
}

Value Interpreter::evaluate_call(const Node& node) {
    const Node& callee = *node.children[0];
    if (callee.kind == NodeKind::attribute) {  // a method, without making an object for it
        const Value self = evaluate(*callee.children[0]);
        const Arguments arguments = evaluate_arguments(node.arguments.get());
        line_ = node.line;
        if (auto result = changed_in_place(*callee.children[0], self, callee.text, arguments)) return *result;
        if (has_method(self, callee.text)) return call_method(*this, self, callee.text, arguments);
        return call(attribute(self, callee.text), arguments);
    }
    const Value function = evaluate(callee);
    const Arguments arguments = evaluate_arguments(node.arguments.get());
    line_ = node.line;
    return call(function, arguments);
}

// Values are immutable, and so is everything in Hugging Face's sandbox. But there are templates in the wild
// that append to a list they hold under a name; for them the name gets a new list.
std::optional<Value> Interpreter::changed_in_place(const Node& holder, const Value& self,
                                                   const std::string& method, const Arguments& arguments) {
    if (!self.is_list() && !self.is_dict()) return {};
    if (holder.kind != NodeKind::name && holder.kind != NodeKind::attribute) return {};
    auto changed = changed_by_method(self, method, arguments);
    if (!changed) return {};
    charge_bytes(changed->after.weight());
    if (holder.kind == NodeKind::attribute) {
        assign(holder, changed->after);
    } else if (!scope_->replace(holder.text, changed->after)) {
        scope_->set(holder.text, changed->after);
    }
    return changed->result;
}

Arguments Interpreter::evaluate_arguments(const CallArguments* arguments) {
    Arguments result;
    if (!arguments) return result;
    for (const auto& argument : arguments->positional) result.positional.push_back(evaluate(*argument));
    for (const auto& [name, argument] : arguments->named)
        result.named.emplace_back(name, evaluate(*argument));
    if (arguments->spread) {
        for (Value& value : elements(evaluate(*arguments->spread)))
            result.positional.push_back(std::move(value));
    }
    if (arguments->spread_named) {
        const Value named = evaluate(*arguments->spread_named);
        if (!named.is_dict()) trouble("'**' needs a dict, found '{}'", type_name(named));
        for (const auto& [name, value] : named.as_dict().entries())
            result.named.emplace_back(text_argument(name, "the name of an argument"), value);
    }
    return result;
}

// A chain of filters; in a filter block the innermost value is the block's text and stands where the child is
// null.
Value Interpreter::evaluate_filters(const Node& node, const Value* innermost) {
    Value value;
    if (!node.children[0]) {
        if (!innermost) trouble("the filter '{}' has nothing to work on", node.text);
        value = *innermost;
    } else if (node.children[0]->kind == NodeKind::filter) {
        Deeper deeper(*this);
        value = evaluate_filters(*node.children[0], innermost);
    } else {
        value = evaluate(*node.children[0]);
    }
    const Arguments arguments = evaluate_arguments(node.arguments.get());
    line_ = node.line;
    charge_steps(1 + value.weight() / 64);
    return charged(apply_filter(*this, node.text, value, arguments));
}

}  // namespace coterie::text::jinja
