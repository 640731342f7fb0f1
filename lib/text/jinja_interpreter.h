// Runs a syntax tree over variables and collects the text. Bounded: every node costs a step, every text or
// container made costs its bytes, and recursion has a limit, so a hostile template ends in an error and not
// in a hang.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/jinja_syntax.h"
#include "text/jinja_value.h"

namespace coterie::text::jinja {

struct Limits {
    uint64_t steps = 20'000'000;
    uint64_t bytes = uint64_t{1} << 29;  // of all values made, and of the text
    uint32_t depth = 1000;               // of calls and nested nodes
};

class Scope;
using ScopePointer = std::shared_ptr<Scope>;

class Interpreter {
  public:
    Interpreter(const Dict& variables, const Limits& limits, std::optional<int64_t> now);
    ~Interpreter();
    Interpreter(const Interpreter&) = delete;
    Interpreter& operator=(const Interpreter&) = delete;

    std::string run(const Node& root);
    int line() const { return line_; }
    std::optional<int64_t> now() const { return now_; }

    // For filters, tests, methods and functions.
    void charge_steps(uint64_t count);
    void charge_bytes(uint64_t count);
    Value attribute(const Value& object, const std::string& name);  // object.name
    Value item(const Value& object, const Value& key);              // object[key]
    Value path(const Value& object, const Value& dotted);           // "a.b.0" or an index, as filters take it
    Value call(const Value& callee, const Arguments& arguments);
    Value new_namespace(Dict entries);

    // For macros and recursive loops.
    std::string run_in(const Node& body, const ScopePointer& scope);
    Value evaluate_in(const Node& expression, const ScopePointer& scope);
    std::string run_loop(const Node& node, const Value& iterable, const ScopePointer& outer, int64_t depth);

  private:
    enum class Flow { onward, stop_loop, next_round };
    // Counts one level of recursion while it lives.
    struct Deeper {
        explicit Deeper(Interpreter& of) : interpreter(of) {
            if (interpreter.depth_left_ == 0) trouble("the template recurses too deeply");
            --interpreter.depth_left_;
        }
        ~Deeper() { ++interpreter.depth_left_; }
        Deeper(const Deeper&) = delete;
        Deeper& operator=(const Deeper&) = delete;
        Interpreter& interpreter;
    };

    Value evaluate(const Node& node);
    Value evaluate_name(const Node& node);
    Value evaluate_slice(const Value& object, const Node& slice);
    Value evaluate_comparison(const Node& node);
    Value evaluate_call(const Node& node);
    std::optional<Value> changed_in_place(const Node& holder, const Value& self, const std::string& method,
                                          const Arguments& arguments);
    Value evaluate_filters(const Node& node, const Value* innermost);
    Arguments evaluate_arguments(const CallArguments* arguments);
    Value charged(Value value);

    Flow execute(const Node& node, std::string& out);
    Flow execute_loop(const Node& node, const Value& iterable, const ScopePointer& outer, int64_t depth,
                      std::string& out);
    void execute_call_block(const Node& node, std::string& out);
    void emit(std::string& out, const std::string& text);
    void assign(const Node& target, const Value& value);
    Value new_macro(const Node& node, const Node& body, std::string name);

    const Dict& variables_;
    Dict functions_;
    uint64_t steps_left_, bytes_left_;
    uint32_t depth_left_;
    std::optional<int64_t> now_;
    int line_ = 1;
    ScopePointer scope_;
    std::vector<ScopePointer> captured_;  // scopes macros refer to: emptied at the end to break cycles
    std::vector<std::shared_ptr<Object>> namespaces_;  // likewise
};

Value apply_filter(Interpreter& interpreter, const std::string& name, const Value& value,
                   const Arguments& arguments);
bool apply_test(Interpreter& interpreter, const std::string& name, const Value& value,
                const Arguments& arguments);
bool is_filter(const std::string& name);
bool is_test(const std::string& name);

// Methods of str, dict and list.
bool has_method(const Value& self, std::string_view name);
Value call_method(Interpreter& interpreter, const Value& self, const std::string& name,
                  const Arguments& arguments);

// A list or dict after a method that changes it, and what the method returns. Nothing for other methods.
struct Changed {
    Value after, result;
};
std::optional<Changed> changed_by_method(const Value& self, const std::string& name,
                                         const Arguments& arguments);

// The functions every template may call: range, namespace, raise_exception ...
Dict template_functions(Interpreter& interpreter);

Value arithmetic(const std::string& sign, const Value& left, const Value& right);
std::string percent_formatted(const std::string& format, const Value& values);  // format % values
std::string brace_formatted(Interpreter& interpreter, const std::string& format, const Arguments& arguments);

// Arguments by position or name, in the order of `names`; null where absent. Throws Trouble on a surplus or
// unknown one.
std::vector<const Value*> bound(const Arguments& arguments, std::string_view what,
                                std::initializer_list<const char*> names, size_t required = 0);
int64_t whole_argument(const Value& value, std::string_view what);
const std::string& text_argument(const Value& value, std::string_view what);

}  // namespace coterie::text::jinja
