// The syntax tree of a Go template, and its parser.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_value.h"

namespace coterie::text::go {

struct Pipeline;

struct Operand {
    enum class Kind { dot, variable, constant, function, parenthesis };
    Kind kind = Kind::dot;
    std::string name;                  // of the variable (with its $) or the function
    std::vector<std::string> fields;   // .a.b behind it
    jinja::Value value;                // of a constant
    std::shared_ptr<Pipeline> inside;  // of a parenthesis
};

struct Command {
    std::vector<Operand> words;  // the first is the function when there are several
};

struct Pipeline {
    std::vector<std::string> variables;  // $a, $b := ...
    bool declares = false;               // := rather than =
    std::vector<Command> commands;
};

struct Node;
using Body = std::vector<std::unique_ptr<Node>>;

struct Node {
    enum class Kind { text, action, branch, range, with, call, stop_loop, next_round };
    Kind kind = Kind::text;
    int line = 1;
    std::string text;  // or the name of the template called
    Pipeline pipeline;
    Body body, otherwise;
    bool after_response =
        false;  // stands behind the place of .Response: not written for the turn that is open
};

struct Program {
    Body body;
    std::map<std::string, Body> templates;
    std::set<std::string> fields;  // every .Field the text mentions
};

// Throws Trouble and leaves the line it happened at in `line`.
std::shared_ptr<Program> parse(std::string_view source, int& line);

}  // namespace coterie::text::go
