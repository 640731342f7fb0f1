// Names and their values, nested: a scope sees what its parent holds at the time it looks. And the objects
// that hold on to scopes: macros and the `loop` variable.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_interpreter.h"

namespace coterie::text::jinja {

class Scope {
  public:
    explicit Scope(ScopePointer parent);
    const Value* find(const std::string& name) const;    // here and in the parents
    void set(const std::string& name, Value value);      // here
    bool replace(const std::string& name, Value value);  // where it is already, here or in a parent
    void release();

  private:
    ScopePointer parent_;
    uint32_t depth_;
    std::vector<std::pair<std::string, Value>> values_;
};

class Namespace : public Object {
  public:
    explicit Namespace(Dict entries) : entries_(std::move(entries)) {}
    const char* type_name() const override { return "Namespace"; }
    Value attribute(const std::string& name) const override;
    void set(const std::string& name, Value value) { entries_.set(name, std::move(value)); }
    void release() { entries_.clear(); }

  private:
    Dict entries_;
};

class Macro : public Object {
  public:
    Macro(Interpreter& interpreter, const Node& node, const Node& body, std::string name, ScopePointer scope)
        : interpreter_(interpreter),
          node_(node),
          body_(body),
          name_(std::move(name)),
          scope_(std::move(scope)) {}
    const char* type_name() const override { return "Macro"; }
    bool callable() const override { return true; }
    Value attribute(const std::string& name) const override;
    Value call(const Arguments& arguments) override;

  private:
    Interpreter& interpreter_;
    const Node& node_;
    const Node& body_;
    std::string name_;
    ScopePointer scope_;
};

class Function : public Object {
  public:
    using Body = std::function<Value(const Arguments&)>;
    Function(const char* name, Body body, uint32_t depth = 0)
        : name_(name), body_(std::move(body)), depth_(depth) {}
    const char* type_name() const override { return name_; }
    bool callable() const override { return true; }
    Value call(const Arguments& arguments) override { return body_(arguments); }
    uint32_t depth() const override { return depth_; }

  private:
    const char* name_;
    Body body_;
    uint32_t depth_;  // of what the body holds
};

class Loop : public Object, public std::enable_shared_from_this<Loop> {
  public:
    Loop(Interpreter& interpreter, const Node& node, Value items, ScopePointer outer, int64_t depth)
        : interpreter_(interpreter),
          node_(node),
          items_(std::move(items)),
          outer_(std::move(outer)),
          depth_(depth) {}
    const char* type_name() const override { return "LoopContext"; }
    bool callable() const override { return true; }
    Value attribute(const std::string& name) const override;
    Value call(const Arguments& arguments) override;
    uint32_t depth() const override { return items_.depth(); }
    void at(size_t index) { index_ = index; }

  private:
    bool changed(const Arguments& arguments);
    Interpreter& interpreter_;
    const Node& node_;
    Value items_;
    ScopePointer outer_;
    int64_t depth_;
    size_t index_ = 0;
    std::optional<std::vector<Value>> last_seen_;  // by changed()
};

}  // namespace coterie::text::jinja
