// Jinja's own precedence: `~` binds tighter than `+`, a filter tighter than a sign in front, and a test takes
// one bare argument.
#include "text/jinja_expression_parser.h"

#include <charconv>

namespace coterie::text::jinja {

bool ExpressionParser::at_tuple_end(const Words& ends) const {
    return token().kind == Kind::print_end || token().kind == Kind::block_end || is_sign(")") ||
           is_word_of(ends);
}

NodePointer ExpressionParser::tuple_or_expression(bool with_condition, const Words& ends,
                                                  bool in_parenthesis) {
    const int line = token().line;
    std::vector<NodePointer> parts;
    bool is_tuple = false;
    while (!at_tuple_end(ends)) {
        parts.push_back(with_condition ? expression() : either());
        if (!skip_sign(",")) break;
        is_tuple = true;
    }
    if (parts.empty() && !in_parenthesis) expected("an expression");
    if (!is_tuple && !parts.empty()) return std::move(parts.front());
    NodePointer node = make(NodeKind::tuple, line);
    for (NodePointer& part : parts) adopt(*node, std::move(part));
    return node;
}

NodePointer ExpressionParser::expression() {
    Level level(*this);
    NodePointer node = either();
    while (is_word("if")) {
        const int line = next().line;
        NodePointer condition = either();
        NodePointer otherwise = skip_word("else") ? expression() : nullptr;
        node = make_of(NodeKind::conditional, line, "", std::move(condition), std::move(node),
                       std::move(otherwise));
    }
    return node;
}

NodePointer ExpressionParser::either() {
    NodePointer node = both();
    while (is_word("or")) {
        const int line = next().line;
        node = make_of(NodeKind::either, line, "", std::move(node), both());
    }
    return node;
}

NodePointer ExpressionParser::both() {
    NodePointer node = negation();
    while (is_word("and")) {
        const int line = next().line;
        node = make_of(NodeKind::both, line, "", std::move(node), negation());
    }
    return node;
}

NodePointer ExpressionParser::negation() {
    Level level(*this);
    if (!is_word("not")) return comparison();
    const int line = next().line;
    return make_of(NodeKind::negation, line, "", negation());
}

std::string ExpressionParser::comparison_sign() {
    if (token().kind == Kind::sign) {
        for (std::string_view sign : {"==", "!=", "<", "<=", ">", ">="}) {
            if (skip_sign(sign)) return std::string(sign);
        }
    }
    if (skip_word("in")) return "in";
    if (is_word("not") && is_word("in", 1)) {
        next();
        next();
        return "not in";
    }
    return {};
}

NodePointer ExpressionParser::comparison() {
    NodePointer first = sum();
    const int line = token().line;
    std::string sign = comparison_sign();
    if (sign.empty()) return first;
    NodePointer node = make_of(NodeKind::comparison, line, "", std::move(first));
    for (; !sign.empty(); sign = comparison_sign()) {
        node->signs.push_back(sign);
        adopt(*node, sum());
    }
    return node;
}

template <typename Part>
NodePointer ExpressionParser::left_to_right(std::initializer_list<std::string_view> signs, Part part) {
    NodePointer node = part();
    for (;;) {
        const auto sign =
            std::find_if(signs.begin(), signs.end(), [&](std::string_view one) { return is_sign(one); });
        if (sign == signs.end()) return node;
        const int line = next().line;
        node = make_of(NodeKind::arithmetic, line, std::string(*sign), std::move(node), part());
    }
}

NodePointer ExpressionParser::sum() {
    return left_to_right({"+", "-"}, [&] { return concatenation(); });
}

NodePointer ExpressionParser::concatenation() {
    NodePointer first = product();
    if (!is_sign("~")) return first;
    const int line = first->line;
    NodePointer node = make_of(NodeKind::concatenation, line, "", std::move(first));
    while (skip_sign("~")) adopt(*node, product());
    return node;
}

NodePointer ExpressionParser::product() {
    return left_to_right({"*", "/", "//", "%"}, [&] { return power(); });
}

NodePointer ExpressionParser::power() {
    return left_to_right({"**"}, [&] { return unary(true); });
}

NodePointer ExpressionParser::unary(bool with_filters) {
    Level level(*this);
    NodePointer node;
    const int line = token().line;
    if (skip_sign("-")) {
        node = make_of(NodeKind::negative, line, "", unary(false));
    } else if (skip_sign("+")) {
        node = make_of(NodeKind::positive, line, "", unary(false));
    } else {
        node = primary();
    }
    node = postfix(std::move(node));
    if (!with_filters) return node;
    for (;;) {
        if (is_sign("|")) {
            node = filter_chain(std::move(node));
        } else if (is_word("is")) {
            node = test(std::move(node));
        } else if (is_sign("(")) {
            node = call(std::move(node));
        } else {
            return node;
        }
    }
}

NodePointer ExpressionParser::constant(int line, Value value) {
    NodePointer node = make(NodeKind::constant, line);
    node->value = std::move(value);
    return node;
}

NodePointer ExpressionParser::primary() {
    const int line = token().line;
    switch (token().kind) {
        case Kind::name: {
            std::string name = next().text;
            if (name == "true" || name == "True") return constant(line, Value::boolean(true));
            if (name == "false" || name == "False") return constant(line, Value::boolean(false));
            if (name == "none" || name == "None") return constant(line, Value::none());
            return make(NodeKind::name, line, std::move(name));
        }
        case Kind::string: {
            std::string text = next().text;
            while (token().kind == Kind::string) text += next().text;
            return constant(line, Value::text(std::move(text)));
        }
        case Kind::integer:
            return constant(line, whole_number(next().text));
        case Kind::real:
            return constant(line, real_number(next().text));
        default:
            break;
    }
    if (skip_sign("(")) {
        NodePointer node = tuple_or_expression(true, {}, true);
        expect_sign(")");
        return node;
    }
    if (skip_sign("[")) {
        NodePointer node = make(NodeKind::list, line);
        while (!is_sign("]")) {
            if (!node->children.empty()) expect_sign(",");
            if (is_sign("]")) break;
            adopt(*node, expression());
        }
        expect_sign("]");
        return node;
    }
    if (skip_sign("{")) {
        NodePointer node = make(NodeKind::dict, line);
        while (!is_sign("}")) {
            if (!node->children.empty()) expect_sign(",");
            if (is_sign("}")) break;
            adopt(*node, expression());
            expect_sign(":");
            adopt(*node, expression());
        }
        expect_sign("}");
        return node;
    }
    expected("an expression");
}

Value ExpressionParser::whole_number(const std::string& text) {
    const char kind = text.size() > 1 && text[0] == '0' ? text[1] : ' ';
    const int base = kind == 'x' || kind == 'X'   ? 16
                     : kind == 'o' || kind == 'O' ? 8
                     : kind == 'b' || kind == 'B' ? 2
                                                  : 10;
    const char* begin = text.data() + (base == 10 ? 0 : 2);
    const char* end = text.data() + text.size();
    int64_t value = 0;
    const auto read = std::from_chars(begin, end, value, base);
    if (read.ec != std::errc() || read.ptr != end) trouble("'{}' is not a number of at most 63 bits", text);
    return Value::integer(value);
}

Value ExpressionParser::real_number(const std::string& text) {
    double value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc()) trouble("the number '{}' is out of range", text);
    return Value::real(value);
}

NodePointer ExpressionParser::postfix(NodePointer node) {
    for (;;) {
        if (is_sign(".") || is_sign("[")) {
            node = subscript(std::move(node));
        } else if (is_sign("(")) {
            node = call(std::move(node));
        } else {
            return node;
        }
    }
}

NodePointer ExpressionParser::subscript(NodePointer node) {
    const Token open = next();
    if (open.text == ".") {
        if (token().kind == Kind::name) {
            return make_of(NodeKind::attribute, open.line, next().text, std::move(node));
        }
        if (token().kind != Kind::integer) expected("a name or a number after '.'");
        NodePointer index = constant(open.line, whole_number(next().text));
        return make_of(NodeKind::item, open.line, "", std::move(node), std::move(index));
    }
    std::vector<NodePointer> parts;
    while (!is_sign("]")) {
        if (!parts.empty()) expect_sign(",");
        parts.push_back(subscript_part());
    }
    expect_sign("]");
    if (parts.size() == 1)
        return make_of(NodeKind::item, open.line, "", std::move(node), std::move(parts.front()));
    NodePointer tuple = make(NodeKind::tuple, open.line);
    for (NodePointer& part : parts) adopt(*tuple, std::move(part));
    return make_of(NodeKind::item, open.line, "", std::move(node), std::move(tuple));
}

NodePointer ExpressionParser::subscript_part() {
    const int line = token().line;
    NodePointer first;
    if (!is_sign(":")) {
        first = expression();
        if (!is_sign(":")) return first;
    }
    next();
    const auto absent = [&] { return is_sign("]") || is_sign(",") || is_sign(":"); };
    NodePointer last = absent() ? nullptr : expression();
    NodePointer step;
    if (skip_sign(":") && !absent()) step = expression();
    return make_of(NodeKind::slice, line, "", std::move(first), std::move(last), std::move(step));
}

void ExpressionParser::call_arguments(Node& node) {
    node.arguments = std::make_unique<CallArguments>();
    CallArguments& arguments = *node.arguments;
    const auto deepen = [&](const NodePointer& child) {
        node.depth = std::max(node.depth, child->depth + 1);
        if (node.depth > max_tree_depth)
            trouble("the template is nested more than {} levels deep", max_tree_depth);
    };
    expect_sign("(");
    for (bool first = true; !is_sign(")"); first = false) {
        if (!first) {
            expect_sign(",");
            if (is_sign(")")) break;
        }
        if (skip_sign("*")) {
            if (arguments.spread || arguments.spread_named)
                trouble("a call may have one '*' argument, before '**'");
            arguments.spread = expression();
            deepen(arguments.spread);
        } else if (skip_sign("**")) {
            if (arguments.spread_named) trouble("a call may have one '**' argument");
            arguments.spread_named = expression();
            deepen(arguments.spread_named);
        } else if (token().kind == Kind::name && is_sign("=", 1)) {
            std::string name = next().text;
            next();
            arguments.named.emplace_back(std::move(name), expression());
            deepen(arguments.named.back().second);
        } else {
            if (!arguments.named.empty() || arguments.spread || arguments.spread_named)
                trouble("a positional argument follows a named one");
            arguments.positional.push_back(expression());
            deepen(arguments.positional.back());
        }
    }
    expect_sign(")");
}

NodePointer ExpressionParser::call(NodePointer callee) {
    NodePointer node = make_of(NodeKind::call, token().line, "", std::move(callee));
    call_arguments(*node);
    return node;
}

NodePointer ExpressionParser::filter_chain(NodePointer node, bool starts_with_name) {
    while (starts_with_name || is_sign("|")) {
        if (!starts_with_name) next();
        starts_with_name = false;
        const int line = token().line;
        node = make_of(NodeKind::filter, line, expect_name(), std::move(node));
        if (is_sign("(")) call_arguments(*node);
    }
    return node;
}

NodePointer ExpressionParser::test(NodePointer node) {
    const int line = next().line;
    const bool negated = skip_word("not");
    node = make_of(NodeKind::test, line, expect_name(), std::move(node));
    const Token& after = token();
    const bool argument = after.kind == Kind::name || after.kind == Kind::string ||
                          after.kind == Kind::integer || after.kind == Kind::real || is_sign("[") ||
                          is_sign("{");
    if (is_sign("(")) {
        call_arguments(*node);
    } else if (argument && !is_word("else") && !is_word("or") && !is_word("and")) {
        if (is_word("is")) trouble("tests can't be chained with 'is'");
        node->arguments = std::make_unique<CallArguments>();
        node->arguments->positional.push_back(postfix(primary()));
        node->depth = std::max(node->depth, node->arguments->positional.back()->depth + 1);
    }
    return negated ? make_of(NodeKind::negation, line, "", std::move(node)) : std::move(node);
}

}  // namespace coterie::text::jinja
