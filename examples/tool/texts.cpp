// tokenize, render, parse.
#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.h"

namespace tool {
namespace {

struct Arguments {
    std::string model, text, messages, tools;
    std::vector<std::string> variables;
    bool json = false, special = false, add_special = false, no_prompt = false, thinking_open = false;
};

int tokenize(const Arguments& a) {
    const coterie::Model model(a.model);
    const std::string text = a.text.empty() ? read_file("-") : a.text;
    const std::vector<int32_t> ids = model.tokenize(
        text, (a.add_special ? COTERIE_ADD_SPECIAL : 0u) | (a.special ? COTERIE_PARSE_SPECIAL : 0u));
    if (a.json) {
        std::cout << nlohmann::json{{"tokens", ids}}.dump() << "\n";
        return 0;
    }
    for (const int32_t id : ids)
        std::cout << id << "\t" << nlohmann::json(model.detokenize({id}, COTERIE_WITH_SPECIAL)).dump()
                  << "\n";
    return 0;
}

int render(const Arguments& a) {
    nlohmann::ordered_json variables = nlohmann::ordered_json::object();
    for (const std::string& v : a.variables) {
        const size_t at = v.find('=');
        if (at == std::string::npos) throw std::invalid_argument("--var takes NAME=JSON, not '" + v + "'");
        variables[v.substr(0, at)] = nlohmann::ordered_json::parse(v.substr(at + 1));
    }
    const std::string messages = read_file(a.messages), tools = a.tools.empty() ? "" : read_file(a.tools);
    const std::string variables_json = variables.empty() ? "" : variables.dump();
    coterie_chat_options o = COTERIE_CHAT_OPTIONS_INIT;
    o.no_generation_prompt = a.no_prompt;
    if (!variables_json.empty()) o.variables_json = variables_json.c_str();
    const bool is_model = a.model.size() > 5 && a.model.compare(a.model.size() - 5, 5, ".gguf") == 0;
    if (is_model) {
        std::cout << coterie::Model(a.model).render(messages, tools, o);
        return 0;
    }
    const std::string source = read_file(a.model);
    std::cout << coterie::text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_render_template(source.c_str(), messages.c_str(),
                                       tools.empty() ? nullptr : tools.c_str(), &o, nullptr, nullptr, b, c, n,
                                       e);
    });
    return 0;
}

int parse(const Arguments& a) {
    const coterie::Model model(a.model);
    const std::string text = read_file("-"), tools = a.tools.empty() ? "" : read_file(a.tools);
    std::cout << coterie::text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_parse_answer(model.get(), text.c_str(), tools.empty() ? "[]" : tools.c_str(),
                                    a.thinking_open, b, c, n, e);
    }) << "\n";
    return 0;
}

}  // namespace

void add_text_commands(CLI::App& app, Action& action) {
    auto a = std::make_shared<Arguments>();
    CLI::App* c = app.add_subcommand("tokenize", "Token ids of a text (an argument, or the standard input)");
    c->add_option("model", a->model, "GGUF file")->required();
    c->add_option("text", a->text, "Text");
    c->add_flag("--special", a->special, "Texts of control tokens become these tokens");
    c->add_flag("--bos", a->add_special, "With the model's own tokens at the beginning and end");
    c->add_flag("--json", a->json, "As JSON");
    c->callback([a, &action] { action = [a] { return tokenize(*a); }; });

    c = app.add_subcommand("render", "The exact prompt for a conversation");
    c->add_option("model", a->model, "GGUF file or template")->required();
    c->add_option("messages", a->messages, "JSON file of messages (-: standard input)")->required();
    c->add_option("--tools", a->tools, "JSON file of tools");
    c->add_option("--var", a->variables, "NAME=JSON: a variable of the template");
    c->add_flag("--no-generation-prompt", a->no_prompt, "End after the last message");
    c->callback([a, &action] { action = [a] { return render(*a); }; });

    c = app.add_subcommand(
        "parse", "Sort an answer's raw text (standard input) into reasoning, content and tool calls");
    c->add_option("model", a->model, "GGUF file")->required();
    c->add_option("--tools", a->tools, "JSON file of tools");
    c->add_flag("--thinking-open", a->thinking_open, "The prompt ended inside thinking");
    c->callback([a, &action] { action = [a] { return parse(*a); }; });
}

}  // namespace tool
