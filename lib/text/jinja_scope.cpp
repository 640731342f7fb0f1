#include "text/jinja_scope.h"

#include <algorithm>

namespace coterie::text::jinja {

constexpr uint32_t max_scope_depth = 1000;

Scope::Scope(ScopePointer parent) : parent_(std::move(parent)), depth_(parent_ ? parent_->depth_ + 1 : 0) {
    if (depth_ > max_scope_depth) trouble("scopes are nested more than {} levels deep", max_scope_depth);
}

const Value* Scope::find(const std::string& name) const {
    for (const Scope* scope = this; scope; scope = scope->parent_.get()) {
        for (const auto& [known, value] : scope->values_) {
            if (known == name) return &value;
        }
    }
    return nullptr;
}

void Scope::set(const std::string& name, Value value) {
    for (auto& [known, old] : values_) {
        if (known == name) {
            old = std::move(value);
            return;
        }
    }
    values_.emplace_back(name, std::move(value));
}

bool Scope::replace(const std::string& name, Value value) {
    for (Scope* scope = this; scope; scope = scope->parent_.get()) {
        for (auto& [known, old] : scope->values_) {
            if (known != name) continue;
            old = std::move(value);
            return true;
        }
    }
    return false;
}

void Scope::release() {
    values_.clear();
    parent_.reset();
}

Value Namespace::attribute(const std::string& name) const {
    const Value* found = entries_.find(name);
    return found ? *found : Object::attribute(name);
}

Value Macro::attribute(const std::string& name) const {
    if (name == "name") return Value::text(name_);
    if (name == "arguments") {
        std::vector<Value> names;
        for (const auto& parameter : node_.parameters) names.push_back(Value::text(parameter.first));
        return Value::tuple(std::move(names));
    }
    return Object::attribute(name);
}

// Parameters first, then what is left over: varargs, kwargs and caller.
Value Macro::call(const Arguments& arguments) {
    auto inner = std::make_shared<Scope>(scope_);
    const auto& parameters = node_.parameters;
    std::vector<bool> used(arguments.named.size(), false);
    for (size_t i = 0; i < parameters.size(); ++i) {
        const auto& [name, otherwise] = parameters[i];
        const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                        [&, &wanted = name](const auto& one) { return one.first == wanted; });
        if (named != arguments.named.end()) used[static_cast<size_t>(named - arguments.named.begin())] = true;
        if (i < arguments.positional.size()) {
            if (named != arguments.named.end()) trouble("macro '{}' got two values for '{}'", name_, name);
            inner->set(name, arguments.positional[i]);
        } else if (named != arguments.named.end()) {
            inner->set(name, named->second);
        } else if (otherwise) {
            inner->set(name, interpreter_.evaluate_in(*otherwise, inner));
        } else {
            inner->set(name, Value::undefined(fmt::format("parameter '{}' was not provided", name)));
        }
    }
    std::vector<Value> rest;
    for (size_t i = parameters.size(); i < arguments.positional.size(); ++i)
        rest.push_back(arguments.positional[i]);
    Dict named_rest;
    for (size_t i = 0; i < used.size(); ++i) {
        if (used[i]) continue;
        if (arguments.named[i].first == "caller") {
            inner->set("caller", arguments.named[i].second);
        } else {
            named_rest.set(arguments.named[i].first, arguments.named[i].second);
        }
    }
    inner->set("varargs", Value::tuple(std::move(rest)));
    inner->set("kwargs", Value::dict(std::move(named_rest)));
    return Value::text(interpreter_.run_in(body_, inner));
}

Value Loop::attribute(const std::string& name) const {
    const auto count = static_cast<int64_t>(items_.items().size());
    const auto index = static_cast<int64_t>(index_);
    if (name == "index") return Value::integer(index + 1);
    if (name == "index0") return Value::integer(index);
    if (name == "first") return Value::boolean(index == 0);
    if (name == "last") return Value::boolean(index + 1 == count);
    if (name == "length") return Value::integer(count);
    if (name == "revindex") return Value::integer(count - index);
    if (name == "revindex0") return Value::integer(count - index - 1);
    if (name == "depth") return Value::integer(depth_ + 1);
    if (name == "depth0") return Value::integer(depth_);
    if (name == "previtem")
        return index > 0 ? items_.items()[index_ - 1] : Value::undefined("there is no previous item");
    if (name == "nextitem")
        return index + 1 < count ? items_.items()[index_ + 1] : Value::undefined("there is no next item");
    auto self = std::const_pointer_cast<Loop>(shared_from_this());
    if (name == "cycle") {
        return Value::object(std::make_shared<Function>(
            "loop.cycle",
            [self](const Arguments& choices) {
                if (choices.positional.empty()) trouble("loop.cycle needs something to choose from");
                return choices.positional[self->index_ % choices.positional.size()];
            },
            depth()));
    }
    if (name == "changed") {
        return Value::object(std::make_shared<Function>(
            "loop.changed", [self](const Arguments& seen) { return Value::boolean(self->changed(seen)); },
            depth()));
    }
    return Object::attribute(name);
}

bool Loop::changed(const Arguments& arguments) {
    const auto& now = arguments.positional;
    const bool same = last_seen_ && last_seen_->size() == now.size() &&
                      std::equal(now.begin(), now.end(), last_seen_->begin(), equal);
    last_seen_ = now;
    return !same;
}

Value Loop::call(const Arguments& arguments) {
    if (!node_.flag) trouble("the loop is not 'recursive', so 'loop' can't be called");
    if (arguments.positional.size() != 1) trouble("loop(...) needs the items of the inner loop");
    return Value::text(interpreter_.run_loop(node_, arguments.positional[0], outer_, depth_ + 1));
}

}  // namespace coterie::text::jinja
