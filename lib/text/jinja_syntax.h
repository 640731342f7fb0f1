// The syntax tree of a template. One node type for all: what `children` and `text` mean is said at each kind.
// The tree's depth is bounded when it is made, so walks over it may recurse.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace coterie::text::jinja {

struct Node;
using NodePointer = std::unique_ptr<Node>;

struct CallArguments {
    std::vector<NodePointer> positional;
    std::vector<std::pair<std::string, NodePointer>> named;
    NodePointer spread;        // *list
    NodePointer spread_named;  // **dict
};

enum class NodeKind : uint8_t {
    // expressions
    constant,     // value
    name,         // text
    attribute,    // children[0].text
    item,         // children[0][children[1]]
    slice,        // children: first, past the last, step; each may be null
    list,         // children
    tuple,        // children
    dict,         // children: key, value, key, value ...
    negative,     // children[0]
    positive,     // children[0]
    negation,     // not children[0]
    both,         // and
    either,       // or
    conditional,  // children[1] if children[0] else children[2] (may be null)
    comparison,   // children[0] signs[0] children[1] signs[1] ...
    arithmetic,   // children[0] text children[1]
    concatenation,
    call,    // children[0](arguments)
    filter,  // children[0] | text(arguments); children[0] is null in a filter block
    test,    // children[0] is text(arguments)
    // statements
    data,          // text
    print,         // children[0]
    body,          // children
    branches,      // condition, body, condition, body ... and perhaps the body of else
    loop,          // target, iterable, filter or null, body, body of else or null; flag: recursive
    assignment,    // target, value
    assign_block,  // target, body; filters wrap a null: children[2] or null
    macro,         // text, parameters, children[0] the body
    call_block,    // parameters, children[0] the call, children[1] the body
    filter_block,  // children[0] the filters round a null, children[1] the body
    with,          // target, value, target, value ... and the body
    scope,         // children[0]
    stop_loop,
    next_round,
};

struct Node {
    NodeKind kind = NodeKind::body;
    bool flag = false;
    int line = 1;
    uint32_t depth = 1;
    std::string text;
    Value value;
    std::vector<NodePointer> children;
    std::vector<std::string> signs;
    std::unique_ptr<CallArguments> arguments;
    std::vector<std::pair<std::string, NodePointer>> parameters;  // of a macro, with the default or null
};

// Throws Trouble and leaves the line it happened at in `line`.
NodePointer parse_template(std::string_view source, int& line);

}  // namespace coterie::text::jinja
