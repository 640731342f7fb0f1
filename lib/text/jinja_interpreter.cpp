#include "text/jinja_interpreter.h"

#include <algorithm>

#include "text/jinja_scope.h"
#include "text/jinja_text.h"

namespace coterie::text::jinja {

namespace {

// Sets the scope for a block of the template and puts the old one back, also after an error.
class Entered {
  public:
    Entered(ScopePointer& current, ScopePointer inner) : current_(current), before_(std::move(current)) {
        current_ = std::move(inner);
    }
    ~Entered() { current_ = std::move(before_); }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;

  private:
    ScopePointer& current_;
    ScopePointer before_;
};

}  // namespace

Interpreter::Interpreter(const Dict& variables, const Limits& limits, std::optional<int64_t> now)
    : variables_(variables),
      steps_left_(limits.steps),
      bytes_left_(limits.bytes),
      depth_left_(limits.depth),
      now_(now),
      scope_(std::make_shared<Scope>(nullptr)) {
    functions_ = template_functions(*this);
}

Interpreter::~Interpreter() {
    for (const auto& scope : captured_) scope->release();
    for (const auto& object : namespaces_) static_cast<Namespace&>(*object).release();
}

std::string Interpreter::run(const Node& root) {
    std::string out;
    execute(root, out);
    return out;
}

std::string Interpreter::run_in(const Node& body, const ScopePointer& scope) {
    Deeper deeper(*this);
    Entered entered(scope_, scope);
    std::string out;
    execute(body, out);
    return out;
}

Value Interpreter::evaluate_in(const Node& expression, const ScopePointer& scope) {
    Entered entered(scope_, scope);
    return evaluate(expression);
}

std::string Interpreter::run_loop(const Node& node, const Value& iterable, const ScopePointer& outer,
                                  int64_t depth) {
    Deeper deeper(*this);
    std::string out;
    execute_loop(node, iterable, outer, depth, out);
    return out;
}

void Interpreter::charge_steps(uint64_t count) {
    if (count > steps_left_) trouble("the template takes too many steps");
    steps_left_ -= count;
}

void Interpreter::charge_bytes(uint64_t count) {
    if (count > bytes_left_) trouble("the template makes too much text");
    bytes_left_ -= count;
}

Value Interpreter::charged(Value value) {
    if (value.is_text() || value.is_list() || value.is_dict()) charge_bytes(value.weight());
    return value;
}

// --- access
// ---------------------------------------------------------------------------------------------------

// As Python: methods of the type come before the keys of a dict.
Value Interpreter::attribute(const Value& object, const std::string& name) {
    if (object.is_undefined()) trouble("{}", object.why_undefined());
    if (object.is_object()) return object.as_object().attribute(name);
    if (has_method(object, name)) {
        return Value::object(std::make_shared<Function>(
            "builtin_function_or_method",
            [this, object, name](const Arguments& arguments) {
                return call_method(*this, object, name, arguments);
            },
            object.depth() + 1));
    }
    if (object.is_dict()) {
        if (const Value* found = object.as_dict().find(name)) return *found;
    }
    return Value::undefined(fmt::format("'{}' object has no attribute '{}'", type_name(object), name));
}

Value Interpreter::item(const Value& object, const Value& key) {
    if (object.is_undefined()) trouble("{}", object.why_undefined());
    if (object.is_dict() && !key.is_list() && !key.is_dict()) {
        if (const Value* found = object.as_dict().find(key)) return *found;
    }
    const bool indexed = object.is_text() || object.is_sequence(Sequence::list) ||
                         object.is_sequence(Sequence::tuple) || object.is_sequence(Sequence::range);
    if (indexed && key.is_whole()) {
        const int64_t length = length_of(object);
        int64_t index = key.as_whole();
        if (index < 0) index += length;
        if (index < 0 || index >= length) return Value::undefined("the index is out of range");
        if (!object.is_text()) return object.items()[static_cast<size_t>(index)];
        const std::string& text = object.as_text();
        charge_steps(text.size() / 64);
        const auto place = static_cast<size_t>(index);
        size_t at = 0;
        for (size_t i = 0; i < place; ++i) at += code_point_bytes(text, at);
        return Value::text(text.substr(at, code_point_bytes(text, at)));
    }
    if (key.is_text()) return attribute(object, key.as_text());
    return Value::undefined(
        fmt::format("'{}' object has no element {}", type_name(object), repr(key).substr(0, 80)));
}

Value Interpreter::path(const Value& object, const Value& dotted) {
    if (!dotted.is_text()) return item(object, dotted);
    Value current = object;
    for (const std::string& part : split_at(dotted.as_text(), ".", -1, false)) {
        const bool number =
            !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
        current = item(current, number ? Value::integer(std::stoll(part)) : Value::text(part));
    }
    return current;
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
    if (callee.is_undefined()) trouble("{}", callee.why_undefined());
    if (!callee.is_object()) trouble("'{}' object is not callable", type_name(callee));
    const Value kept = callee;  // a call may overwrite the name it was called by
    return kept.as_object().call(arguments);
}

Value Interpreter::new_namespace(Dict entries) {
    charge_bytes(256);
    auto made = std::make_shared<Namespace>(std::move(entries));
    namespaces_.push_back(made);
    return Value::object(std::move(made));
}

// --- statements
// -----------------------------------------------------------------------------------------------

void Interpreter::emit(std::string& out, const std::string& text) {
    charge_bytes(text.size());
    out += text;
}

Interpreter::Flow Interpreter::execute(const Node& node, std::string& out) {
    Deeper deeper(*this);
    charge_steps(1);
    line_ = node.line;
    switch (node.kind) {
        case NodeKind::data:
            emit(out, node.text);
            break;
        case NodeKind::print: {
            const Value value = evaluate(*node.children[0]);
            if (value.is_text()) {
                emit(out, value.as_text());
            } else {
                emit(out, printed(value));
            }
            break;
        }
        case NodeKind::body:
            for (const auto& part : node.children) {
                const Flow flow = execute(*part, out);
                if (flow != Flow::onward) return flow;
            }
            break;
        case NodeKind::branches: {
            const size_t count = node.children.size();
            for (size_t i = 0; i + 1 < count; i += 2) {
                if (truth(evaluate(*node.children[i]))) return execute(*node.children[i + 1], out);
            }
            if (count % 2) return execute(*node.children[count - 1], out);
            break;
        }
        case NodeKind::loop: {
            const Value iterable = evaluate(*node.children[1]);
            line_ = node.line;
            return execute_loop(node, iterable, scope_, 0, out);
        }
        case NodeKind::assignment:
            assign(*node.children[0], evaluate(*node.children[1]));
            break;
        case NodeKind::assign_block: {
            Value value = charged(Value::text(run_in(*node.children[1], std::make_shared<Scope>(scope_))));
            if (node.children[2]) value = evaluate_filters(*node.children[2], &value);
            assign(*node.children[0], value);
            break;
        }
        case NodeKind::macro:
            scope_->set(node.text, new_macro(node, *node.children[0], node.text));
            break;
        case NodeKind::call_block:
            execute_call_block(node, out);
            break;
        case NodeKind::filter_block: {
            const Value inside =
                charged(Value::text(run_in(*node.children[1], std::make_shared<Scope>(scope_))));
            emit(out, printed(evaluate_filters(*node.children[0], &inside)));
            break;
        }
        case NodeKind::with: {
            Entered entered(scope_, std::make_shared<Scope>(scope_));
            for (size_t i = 0; i + 1 < node.children.size(); i += 2)
                assign(*node.children[i], evaluate(*node.children[i + 1]));
            return execute(*node.children.back(), out);
        }
        case NodeKind::scope: {
            Entered entered(scope_, std::make_shared<Scope>(scope_));
            execute(*node.children[0], out);
            break;
        }
        case NodeKind::stop_loop:
            return Flow::stop_loop;
        case NodeKind::next_round:
            return Flow::next_round;
        default:
            evaluate(node);
    }
    return Flow::onward;
}

Interpreter::Flow Interpreter::execute_loop(const Node& node, const Value& iterable,
                                            const ScopePointer& outer, int64_t depth, std::string& out) {
    const Node& target = *node.children[0];
    std::vector<Value> items = elements(iterable);
    charge_bytes(items.size() * sizeof(Value));
    if (node.children[2]) {
        std::vector<Value> kept;
        for (Value& item : items) {
            Entered entered(scope_, std::make_shared<Scope>(outer));
            assign(target, item);
            if (truth(evaluate(*node.children[2]))) kept.push_back(std::move(item));
        }
        items = std::move(kept);
    }
    const Value all = Value::list(std::move(items));
    auto loop = std::make_shared<Loop>(*this, node, all, outer, depth);
    const Value loop_value = Value::object(loop);
    size_t rounds = 0;
    for (const Value& item : all.items()) {
        Entered entered(scope_, std::make_shared<Scope>(outer));
        loop->at(rounds++);
        scope_->set("loop", loop_value);
        assign(target, item);
        if (execute(*node.children[3], out) == Flow::stop_loop) break;
    }
    if (rounds == 0 && node.children[4]) {
        Entered entered(scope_, std::make_shared<Scope>(outer));
        return execute(*node.children[4], out);
    }
    return Flow::onward;
}

void Interpreter::execute_call_block(const Node& node, std::string& out) {
    const Node& called = *node.children[0];
    const Value function = evaluate(*called.children[0]);
    Arguments arguments = evaluate_arguments(called.arguments.get());
    arguments.named.emplace_back("caller", new_macro(node, *node.children[1], "caller"));
    line_ = node.line;
    emit(out, printed(call(function, arguments)));
}

Value Interpreter::new_macro(const Node& node, const Node& body, std::string name) {
    charge_bytes(256);
    captured_.push_back(scope_);
    return Value::object(std::make_shared<Macro>(*this, node, body, std::move(name), scope_));
}

void Interpreter::assign(const Node& target, const Value& value) {
    if (target.kind == NodeKind::name) {
        scope_->set(target.text, value);
        return;
    }
    line_ = target.line;
    if (target.kind == NodeKind::attribute) {
        const Value object = evaluate(*target.children[0]);
        auto* holder = object.is_object() ? dynamic_cast<Namespace*>(&object.as_object()) : nullptr;
        if (!holder)
            trouble("only a namespace's attributes can be set, '{}' is a '{}'", target.children[0]->text,
                    type_name(object));
        holder->set(target.text, value);
        return;
    }
    const std::vector<Value> values = elements(value);
    if (values.size() != target.children.size())
        trouble("{} values can't be unpacked into {} names", values.size(), target.children.size());
    for (size_t i = 0; i < values.size(); ++i) assign(*target.children[i], values[i]);
}

}  // namespace coterie::text::jinja
