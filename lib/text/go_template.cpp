#include "text/go_template.h"

#include <algorithm>
#include <ctime>

#include "base/failure.h"
#include "text/go_template_functions.h"
#include "text/go_template_syntax.h"

namespace coterie::text {
namespace {

using jinja::Dict;
using jinja::Trouble;
using jinja::trouble;
using jinja::Value;

const Value empty_text = Value::text("");

// The JSON name behind a Go field: ToolCalls -> tool_calls, ID -> id, ToolCallID -> tool_call_id.
std::string json_name(const std::string& field) {
    std::string name;
    for (size_t i = 0; i < field.size(); ++i) {
        const bool is_capital = field[i] >= 'A' && field[i] <= 'Z';
        const bool after_small = i > 0 && !(field[i - 1] >= 'A' && field[i - 1] <= 'Z');
        if (is_capital && after_small) name += '_';
        name += is_capital ? static_cast<char>(field[i] + 32) : field[i];
    }
    return name;
}

class Executor {
  public:
    Executor(const go::Program& program, const Dict& data, const ChatOptions& options, bool stop_at_response)
        : program_(program), now_(options.now), stop_at_response_(stop_at_response) {
        const Value root = Value::dict(data);
        variables_.emplace_back("$", root);
        dot_ = root;
    }

    std::string run() {
        execute(program_.body);
        return std::move(out_);
    }
    int line() const { return line_; }

  private:
    enum class Flow { onward, stop_loop, next_round };

    void step() {
        if (steps_left_-- == 0) trouble("the template takes too many steps");
    }

    void write(std::string_view text) {
        out_ += text;
        jinja::require_weight(out_.size());
    }

    Flow execute(const go::Body& body) {
        if (depth_ >= 100) trouble("the template recurses too deeply");
        ++depth_;
        const size_t variables = variables_.size();
        Flow flow = Flow::onward;
        for (const auto& node : body) {
            if (stop_at_response_ && node->after_response) continue;
            flow = execute(*node);
            if (flow != Flow::onward) break;
        }
        variables_.resize(variables);
        --depth_;
        return flow;
    }

    Flow execute(const go::Node& node) {
        step();
        line_ = node.line;
        switch (node.kind) {
            case go::Node::Kind::text:
                write(node.text);
                break;
            case go::Node::Kind::action: {
                const Value value = evaluate(node.pipeline);
                if (node.pipeline.variables.empty()) write(go::shown(value));
                break;
            }
            case go::Node::Kind::branch:
            case go::Node::Kind::with: {
                const size_t variables = variables_.size();
                const Value value = evaluate(node.pipeline);
                const Value before = dot_;
                const bool holds = jinja::truth(value);
                if (holds && node.kind == go::Node::Kind::with) dot_ = value;
                const Flow flow = execute(holds ? node.body : node.otherwise);
                dot_ = before;
                variables_.resize(variables);
                return flow;
            }
            case go::Node::Kind::range:
                range(node);
                break;
            case go::Node::Kind::call:
                call(node);
                break;
            case go::Node::Kind::stop_loop:
                return Flow::stop_loop;
            case go::Node::Kind::next_round:
                return Flow::next_round;
        }
        return Flow::onward;
    }

    void range(const go::Node& node) {
        const size_t variables = variables_.size();
        go::Pipeline plain = node.pipeline;
        const std::vector<std::string> names = std::move(plain.variables);
        plain.variables.clear();
        const Value over = evaluate(plain);
        std::vector<std::pair<Value, Value>> items;
        if (over.is_dict()) {
            for (const auto& entry : over.as_dict().entries()) items.push_back(entry);
        } else if (over.is_whole()) {
            if (over.as_whole() > 100000) trouble("range over {} is too long", over.as_whole());
            for (int64_t i = 0; i < over.as_whole(); ++i)
                items.emplace_back(Value::integer(i), Value::integer(i));
        } else if (over.is_list()) {
            for (const Value& value : over.items())
                items.emplace_back(Value::integer(static_cast<int64_t>(items.size())), value);
        } else if (!over.is_none() && !over.is_undefined()) {
            trouble("range can't go over a {}", jinja::type_name(over));
        }
        const Value before = dot_;
        for (const auto& [key, value] : items) {
            dot_ = value;
            if (names.size() == 1) set(names[0], value, node.pipeline.declares);
            if (names.size() == 2) {
                set(names[0], key, node.pipeline.declares);
                set(names[1], value, node.pipeline.declares);
            }
            if (execute(node.body) == Flow::stop_loop) break;
            if (node.pipeline.declares) variables_.resize(variables);
        }
        dot_ = before;
        variables_.resize(variables);
        if (items.empty()) execute(node.otherwise);
    }

    void call(const go::Node& node) {
        const auto found = program_.templates.find(node.text);
        if (found == program_.templates.end()) trouble("there is no template named '{}'", node.text);
        const Value given = node.pipeline.commands.empty() ? Value::none() : evaluate(node.pipeline);
        auto outer = std::move(variables_);
        const Value before = dot_;
        variables_ = {{"$", given}};
        dot_ = given;
        execute(found->second);
        variables_ = std::move(outer);
        dot_ = before;
    }

    void set(const std::string& name, const Value& value, bool declares) {
        if (!declares) {
            for (auto at = variables_.rbegin(); at != variables_.rend(); ++at) {
                if (at->first != name) continue;
                at->second = value;
                return;
            }
            trouble("the variable {} is not declared", name);
        }
        variables_.emplace_back(name, value);
    }

    Value evaluate(const go::Pipeline& pipeline) {
        Value value;
        bool piped = false;
        for (const go::Command& command : pipeline.commands) {
            value = evaluate(command, piped ? &value : nullptr);
            piped = true;
        }
        for (const std::string& name : pipeline.variables) set(name, value, pipeline.declares);
        return value;
    }

    Value evaluate(const go::Command& command, const Value* piped) {
        step();
        const go::Operand& first = command.words.front();
        if (first.kind != go::Operand::Kind::function) {
            if (command.words.size() > 1 || piped) trouble("a value is used as if it were a function");
            return evaluate(first);
        }
        // `and` and `or` stop at the argument that decides.
        const bool both = first.name == "and";
        if (both || first.name == "or") {
            Value value = Value::boolean(both);
            for (size_t i = 1; i < command.words.size(); ++i) {
                value = evaluate(command.words[i]);
                if (jinja::truth(value) != both) return value;
            }
            return piped ? *piped : value;
        }
        std::vector<Value> arguments;
        for (size_t i = 1; i < command.words.size(); ++i) arguments.push_back(evaluate(command.words[i]));
        if (piped) arguments.push_back(*piped);
        return go::call_function(first.name, arguments, now_);
    }

    Value evaluate(const go::Operand& operand) {
        step();
        Value value;
        switch (operand.kind) {
            case go::Operand::Kind::dot:
                value = dot_;
                break;
            case go::Operand::Kind::constant:
                return operand.value;
            case go::Operand::Kind::parenthesis:
                value = evaluate(*operand.inside);
                break;
            case go::Operand::Kind::function:
                return go::call_function(operand.name, {}, now_);
            case go::Operand::Kind::variable: {
                const auto found = std::find_if(variables_.rbegin(), variables_.rend(),
                                                [&](const auto& one) { return one.first == operand.name; });
                if (found == variables_.rend()) trouble("the variable {} is not declared", operand.name);
                value = found->second;
                break;
            }
        }
        for (const std::string& field : operand.fields) value = at(value, field);
        return value;
    }

    static Value at(const Value& value, const std::string& field) {
        if (value.is_none()) return value;
        if (!value.is_dict()) trouble("a {} has no field '{}'", jinja::type_name(value), field);
        if (const Value* found = value.as_dict().find(field)) return *found;
        if (const Value* found = value.as_dict().find(json_name(field))) return *found;
        return Value::none();
    }

    const go::Program& program_;
    std::optional<int64_t> now_;
    bool stop_at_response_;
    std::string out_;
    Value dot_;
    std::vector<std::pair<std::string, Value>> variables_;
    uint64_t steps_left_ = 5'000'000;
    int depth_ = 0;
    int line_ = 1;
};

// The fields Ollama's Go structs have, so that an absent one is empty and not unknown.
Value go_message(const Dict& message) {
    Dict fields;
    fields.set("role", *message.find("role"));
    fields.set("content", *message.find("content"));
    const Value* thinking = message.find("reasoning_content");
    fields.set("thinking", thinking ? *thinking : empty_text);
    std::vector<Value> calls;
    if (const Value* given = message.find("tool_calls")) {
        for (const Value& call : given->items()) {
            Dict function = call.as_dict().find("function")->as_dict();
            function.set("index", Value::integer(static_cast<int64_t>(calls.size())));
            Dict fitted;
            fitted.set("id", *call.as_dict().find("id"));
            fitted.set("function", Value::dict(std::move(function)));
            calls.push_back(Value::dict(std::move(fitted)));
        }
    }
    fields.set("tool_calls", Value::list(std::move(calls)));
    const Value* name = message.find("name");
    fields.set("tool_name", name ? *name : empty_text);
    const Value* id = message.find("tool_call_id");
    fields.set("tool_call_id", id ? *id : empty_text);
    fields.set("images", Value::list({}));
    return Value::dict(std::move(fields));
}

// Neighbours of one role become one message, results of tools excepted; all system messages also make
// .System.
std::vector<Value> collated(const Messages& messages, std::string& system) {
    Messages merged;
    for (const Dict& message : messages) {
        const std::string role = role_of(message);
        const std::string& content = message.find("content")->as_text();
        if (role == "system") system += (system.empty() ? "" : "\n\n") + content;
        if (!merged.empty() && role_of(merged.back()) == role && role != "tool") {
            const std::string before = merged.back().find("content")->as_text();
            merged.back().set("content", Value::text(before.empty() ? content : before + "\n\n" + content));
            if (const Value* calls = message.find("tool_calls")) merged.back().set("tool_calls", *calls);
        } else {
            merged.push_back(message);
        }
    }
    std::vector<Value> result;
    for (const Dict& message : merged) result.push_back(go_message(message));
    return result;
}

}  // namespace

GoTemplate::GoTemplate(std::string_view source) {
    int line = 1;
    try {
        program_ = go::parse(source, line);
    } catch (const Trouble& trouble) {
        fail(Status::bad_model, "chat template, line {}: {}", line, trouble.message);
    }
    const auto knows = [&](const char* field) { return program_->fields.count(field) != 0; };
    capabilities_.text_content = true;
    capabilities_.system_role = knows("System") || knows("Messages");
    capabilities_.several_systems = capabilities_.late_system = capabilities_.system_role;
    capabilities_.tools = knows("Tools");
    capabilities_.tool_calls = knows("ToolCalls");
    capabilities_.tool_results = knows("Messages") && source.find("\"tool\"") != std::string_view::npos;
    capabilities_.thinking_switch = knows("Think") || knows("IsThinkSet");
    capabilities_.reasoning_effort = knows("ThinkLevel");
    capabilities_.reasoning_history = knows("Thinking");
    capabilities_.thinking = capabilities_.thinking_switch || capabilities_.reasoning_history ||
                             source.find("<think>") != std::string_view::npos;
}

bool GoTemplate::fills_in_the_middle() const {
    return program_->fields.count("Suffix") != 0;
}

std::string GoTemplate::run(Dict data, const ChatOptions& options, bool stop_at_response) const {
    const bool levelled = !options.reasoning_effort.empty();
    data.set("Think", Value::boolean(options.enable_thinking.value_or(levelled)));
    data.set("ThinkLevel", Value::text(options.reasoning_effort));
    data.set("IsThinkSet", Value::boolean(options.enable_thinking.has_value() || levelled));
    if (!options.variables_json.empty()) {
        const Value extra = jinja::parse_json(options.variables_json);
        if (!extra.is_dict())
            fail(Status::invalid_argument, "the template's variables are not a JSON object");
        for (const auto& [name, value] : extra.as_dict().entries()) data.set(name, value);
    }
    Executor executor(*program_, data, options, stop_at_response);
    try {
        return executor.run();
    } catch (const Trouble& trouble) {
        fail(Status::bad_model, "chat template, line {}: {}", executor.line(), trouble.message);
    }
}

std::string GoTemplate::render_chat(const Messages& messages, const Value& tools,
                                    const ChatOptions& options) const {
    std::string all_systems;
    const std::vector<Value> turns = collated(messages, all_systems);
    if (program_->fields.count("Messages")) {
        Dict data;
        data.set("System", Value::text(all_systems));
        data.set("Messages", Value::list(turns));
        data.set("Tools", go::ordered_tools(tools));
        data.set("Prompt", empty_text);
        data.set("Suffix", empty_text);
        data.set("Response", empty_text);
        return run(std::move(data), options, false);
    }
    // Turn by turn: a turn ends where the next system or user message begins; the last one stays open.
    std::string out, system, prompt, response;
    const auto turn = [&](bool open) {
        Dict data;
        data.set("System", Value::text(std::move(system)));
        data.set("Prompt", Value::text(std::move(prompt)));
        data.set("Response", Value::text(std::move(response)));
        data.set("Suffix", empty_text);
        data.set("Tools", Value::list({}));
        out += run(std::move(data), options, open);
        jinja::require_weight(out.size());
        system.clear();
        prompt.clear();
        response.clear();
    };
    for (const Value& message : turns) {
        const std::string& role = message.as_dict().find("role")->as_text();
        const std::string& content = message.as_dict().find("content")->as_text();
        if (role == "system") {
            if (!prompt.empty() || !response.empty()) turn(false);
            system = content;
        } else if (role == "user") {
            if (!response.empty()) turn(false);
            prompt = content;
        } else if (role == "assistant") {
            response = content;
        }
    }
    turn(true);
    return out;
}

std::string GoTemplate::render_prompt(std::string_view system, std::string_view prompt,
                                      std::string_view suffix, const ChatOptions& options) const {
    if (suffix.empty()) {
        Messages messages;
        for (const auto& [role, content] : {std::pair("system", system), std::pair("user", prompt)}) {
            if (content.empty() && role == std::string_view("system")) continue;
            Dict message;
            message.set("role", Value::text(role));
            message.set("content", Value::text(std::string(content)));
            messages.push_back(std::move(message));
        }
        return render_chat(messages, Value::none(), options);
    }
    Dict data;
    data.set("System", Value::text(std::string(system)));
    data.set("Prompt", Value::text(std::string(prompt)));
    data.set("Suffix", Value::text(std::string(suffix)));
    data.set("Response", empty_text);
    data.set("Messages", Value::list({}));
    data.set("Tools", Value::list({}));
    return run(std::move(data), options, false);
}

}  // namespace coterie::text
