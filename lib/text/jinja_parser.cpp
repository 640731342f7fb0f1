// From tokens to the syntax tree, with Jinja's own precedence: `~` binds tighter than `+`, a filter tighter
// than a sign in front, and a test takes one bare argument.
#include <algorithm>
#include <charconv>

#include "text/jinja_lexer.h"
#include "text/jinja_syntax.h"

namespace coterie::text::jinja {
namespace {

constexpr uint32_t max_tree_depth = 300;

class Parser {
  public:
    Parser(std::vector<Token> tokens, int& line) : tokens_(std::move(tokens)), line_(line) {}

    NodePointer whole() { return body({}); }

  private:
    using Kind = Token::Kind;
    using Words = std::vector<std::string_view>;

    // Counts how deep the parser itself has recursed.
    struct Level {
        explicit Level(Parser& parser) : depth(parser.depth_) {
            if (++depth > max_tree_depth)
                trouble("the template is nested more than {} levels deep", max_tree_depth);
        }
        ~Level() { --depth; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;
        uint32_t& depth;
    };

    const Token& token(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
    bool is_sign(std::string_view sign, size_t ahead = 0) const {
        return token(ahead).kind == Kind::sign && token(ahead).text == sign;
    }
    bool is_word(std::string_view word, size_t ahead = 0) const {
        return token(ahead).kind == Kind::name && token(ahead).text == word;
    }
    bool is_word_of(const Words& words) const {
        return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return is_word(word); });
    }

    Token next() {
        line_ = token().line;
        Token taken = token();
        if (at_ + 1 < tokens_.size()) ++at_;
        return taken;
    }
    bool skip_sign(std::string_view sign) {
        if (!is_sign(sign)) return false;
        next();
        return true;
    }
    bool skip_word(std::string_view word) {
        if (!is_word(word)) return false;
        next();
        return true;
    }

    std::string described() const {
        switch (token().kind) {
            case Kind::data:
                return "text";
            case Kind::print_begin:
                return "'{{'";
            case Kind::print_end:
                return "'}}'";
            case Kind::block_begin:
                return "'{%'";
            case Kind::block_end:
                return "'%}'";
            case Kind::end:
                return "the end of the template";
            case Kind::string:
                return "a string";
            default:
                return "'" + token().text + "'";
        }
    }
    [[noreturn]] void expected(std::string_view what) {
        line_ = token().line;
        trouble("expected {}, found {}", what, described());
    }
    void expect_sign(std::string_view sign) {
        if (!skip_sign(sign)) expected("'" + std::string(sign) + "'");
    }
    void expect_word(std::string_view word) {
        if (!skip_word(word)) expected("'" + std::string(word) + "'");
    }
    void expect(Kind kind, std::string_view what) {
        if (token().kind != kind) expected(what);
        next();
    }
    std::string expect_name() {
        if (token().kind != Kind::name) expected("a name");
        return next().text;
    }

    NodePointer make(NodeKind kind, int line, std::string text = {}) {
        auto node = std::make_unique<Node>();
        node->kind = kind;
        node->line = line;
        node->text = std::move(text);
        return node;
    }
    void adopt(Node& node, NodePointer child) {
        if (child) node.depth = std::max(node.depth, child->depth + 1);
        if (node.depth > max_tree_depth)
            trouble("the template is nested more than {} levels deep", max_tree_depth);
        node.children.push_back(std::move(child));
    }
    template <typename... Children>
    NodePointer make_of(NodeKind kind, int line, std::string text, Children... children) {
        NodePointer node = make(kind, line, std::move(text));
        (adopt(*node, std::move(children)), ...);
        return node;
    }

    // --- statements
    // -----------------------------------------------------------------------------------------

    // Up to a tag that begins with one of `ends`; the tag's word is left as the current token.
    NodePointer body(const Words& ends) {
        Level level(*this);
        NodePointer node = make(NodeKind::body, token().line);
        for (;;) {
            line_ = token().line;
            if (token().kind == Kind::end) {
                if (ends.empty()) return node;
                trouble("the template ends where '{}' is missing", ends.back());
            }
            if (token().kind == Kind::data) {
                Token data = next();
                adopt(*node, make(NodeKind::data, data.line, std::move(data.text)));
            } else if (token().kind == Kind::print_begin) {
                const int line = next().line;
                adopt(*node, make_of(NodeKind::print, line, "", tuple_or_expression()));
                expect(Kind::print_end, "'}}'");
            } else {
                expect(Kind::block_begin, "'{%'");
                if (is_word_of(ends)) return node;
                adopt(*node, statement());
                expect(Kind::block_end, "'%}'");
            }
        }
    }

    NodePointer body_after_tag(const Words& ends) {
        skip_sign(":");  // as in Python, and as meaningless
        expect(Kind::block_end, "'%}'");
        return body(ends);
    }

    NodePointer statement() {
        const int line = token().line;
        const std::string word = expect_name();
        if (word == "if") return branches(line);
        if (word == "for") return loop(line);
        if (word == "set") return assignment(line);
        if (word == "macro") return macro(line);
        if (word == "call") return call_block(line);
        if (word == "filter") return filter_block(line);
        if (word == "with") return with(line);
        if (word == "break") return make(NodeKind::stop_loop, line);
        if (word == "continue") return make(NodeKind::next_round, line);
        if (word == "generation") {
            NodePointer node = make_of(NodeKind::scope, line, "", body_after_tag({"endgeneration"}));
            next();
            return node;
        }
        if (word == "include" || word == "import" || word == "from" || word == "extends" || word == "block")
            trouble("'{}' needs other templates, which a chat template doesn't have", word);
        trouble("unknown tag '{}'", word);
    }

    NodePointer branches(int line) {
        NodePointer node = make(NodeKind::branches, line);
        adopt(*node, tuple_or_expression(false));
        for (;;) {
            adopt(*node, body_after_tag({"elif", "else", "endif"}));
            const std::string word = next().text;
            if (word == "endif") return node;
            if (word == "elif") {
                adopt(*node, tuple_or_expression(false));
                continue;
            }
            adopt(*node, body_after_tag({"endif"}));
            next();
            return node;
        }
    }

    NodePointer loop(int line) {
        NodePointer node = make(NodeKind::loop, line);
        adopt(*node, target({"in"}, false));
        expect_word("in");
        adopt(*node, tuple_or_expression(false, {"recursive"}));
        adopt(*node, skip_word("if") ? expression() : nullptr);
        node->flag = skip_word("recursive");
        adopt(*node, body_after_tag({"else", "endfor"}));
        if (next().text == "else") {
            adopt(*node, body_after_tag({"endfor"}));
            next();
        } else {
            adopt(*node, nullptr);
        }
        return node;
    }

    NodePointer assignment(int line) {
        NodePointer to = target({}, true);
        if (skip_sign("="))
            return make_of(NodeKind::assignment, line, "", std::move(to), tuple_or_expression());
        NodePointer filters = is_sign("|") ? filter_chain(nullptr) : nullptr;
        NodePointer inside = body_after_tag({"endset"});
        next();
        return make_of(NodeKind::assign_block, line, "", std::move(to), std::move(inside),
                       std::move(filters));
    }

    // Names to assign to; a tuple of them; with_namespace allows ns.name.
    NodePointer target(const Words& ends, bool with_namespace) {
        const int line = token().line;
        std::vector<NodePointer> targets;
        bool is_tuple = false;
        const bool parenthesis = is_sign("(");
        if (parenthesis) next();
        while (token().kind == Kind::name && !is_word_of(ends)) {
            Token name = next();
            NodePointer one = make(NodeKind::name, name.line, name.text);
            if (with_namespace && skip_sign(".")) {
                one = make_of(NodeKind::attribute, name.line, expect_name(), std::move(one));
            }
            targets.push_back(std::move(one));
            if (!skip_sign(",")) break;
            is_tuple = true;
            if (is_sign("(")) {
                targets.push_back(target(ends, with_namespace));
                if (!skip_sign(",")) break;
            }
        }
        if (parenthesis) expect_sign(")");
        if (targets.empty()) expected("a name to assign to");
        if (!is_tuple) return std::move(targets.front());
        NodePointer node = make(NodeKind::tuple, line);
        for (NodePointer& one : targets) adopt(*node, std::move(one));
        return node;
    }

    void parameters(Node& node) {
        expect_sign("(");
        while (!is_sign(")")) {
            if (!node.parameters.empty()) {
                expect_sign(",");
                if (is_sign(")")) break;
            }
            std::string name = expect_name();
            NodePointer otherwise;
            if (skip_sign("=")) {
                otherwise = expression();
                node.depth = std::max(node.depth, otherwise->depth + 1);
            } else if (!node.parameters.empty() && node.parameters.back().second) {
                trouble("the parameter '{}' without a default follows one with a default", name);
            }
            node.parameters.emplace_back(std::move(name), std::move(otherwise));
        }
        expect_sign(")");
    }

    NodePointer macro(int line) {
        NodePointer node = make(NodeKind::macro, line, expect_name());
        parameters(*node);
        adopt(*node, body_after_tag({"endmacro"}));
        next();
        return node;
    }

    NodePointer call_block(int line) {
        NodePointer node = make(NodeKind::call_block, line);
        if (is_sign("(")) parameters(*node);
        NodePointer called = expression();
        if (called->kind != NodeKind::call) trouble("'call' needs a call of a macro");
        adopt(*node, std::move(called));
        adopt(*node, body_after_tag({"endcall"}));
        next();
        return node;
    }

    NodePointer filter_block(int line) {
        NodePointer filters = filter_chain(nullptr, true);
        NodePointer inside = body_after_tag({"endfilter"});
        next();
        return make_of(NodeKind::filter_block, line, "", std::move(filters), std::move(inside));
    }

    NodePointer with(int line) {
        NodePointer node = make(NodeKind::with, line);
        while (token().kind != Kind::block_end) {
            if (!node->children.empty()) expect_sign(",");
            adopt(*node, target({}, false));
            expect_sign("=");
            adopt(*node, expression());
        }
        adopt(*node, body_after_tag({"endwith"}));
        next();
        return node;
    }

    // --- expressions
    // ----------------------------------------------------------------------------------------

    bool at_tuple_end(const Words& ends) const {
        return token().kind == Kind::print_end || token().kind == Kind::block_end || is_sign(")") ||
               is_word_of(ends);
    }

    NodePointer tuple_or_expression(bool with_condition = true, const Words& ends = {},
                                    bool in_parenthesis = false) {
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

    NodePointer expression() {
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

    NodePointer either() {
        NodePointer node = both();
        while (is_word("or")) {
            const int line = next().line;
            node = make_of(NodeKind::either, line, "", std::move(node), both());
        }
        return node;
    }

    NodePointer both() {
        NodePointer node = negation();
        while (is_word("and")) {
            const int line = next().line;
            node = make_of(NodeKind::both, line, "", std::move(node), negation());
        }
        return node;
    }

    NodePointer negation() {
        Level level(*this);
        if (!is_word("not")) return comparison();
        const int line = next().line;
        return make_of(NodeKind::negation, line, "", negation());
    }

    std::string comparison_sign() {
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

    NodePointer comparison() {
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
    NodePointer left_to_right(std::initializer_list<std::string_view> signs, Part part) {
        NodePointer node = part();
        for (;;) {
            const auto sign =
                std::find_if(signs.begin(), signs.end(), [&](std::string_view one) { return is_sign(one); });
            if (sign == signs.end()) return node;
            const int line = next().line;
            node = make_of(NodeKind::arithmetic, line, std::string(*sign), std::move(node), part());
        }
    }

    NodePointer sum() {
        return left_to_right({"+", "-"}, [&] { return concatenation(); });
    }

    NodePointer concatenation() {
        NodePointer first = product();
        if (!is_sign("~")) return first;
        const int line = first->line;
        NodePointer node = make_of(NodeKind::concatenation, line, "", std::move(first));
        while (skip_sign("~")) adopt(*node, product());
        return node;
    }

    NodePointer product() {
        return left_to_right({"*", "/", "//", "%"}, [&] { return power(); });
    }

    NodePointer power() {
        return left_to_right({"**"}, [&] { return unary(true); });
    }

    NodePointer unary(bool with_filters) {
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

    NodePointer constant(int line, Value value) {
        NodePointer node = make(NodeKind::constant, line);
        node->value = std::move(value);
        return node;
    }

    NodePointer primary() {
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

    static Value whole_number(const std::string& text) {
        const char kind = text.size() > 1 && text[0] == '0' ? text[1] : ' ';
        const int base = kind == 'x' || kind == 'X'   ? 16
                         : kind == 'o' || kind == 'O' ? 8
                         : kind == 'b' || kind == 'B' ? 2
                                                      : 10;
        const char* begin = text.data() + (base == 10 ? 0 : 2);
        const char* end = text.data() + text.size();
        int64_t value = 0;
        const auto read = std::from_chars(begin, end, value, base);
        if (read.ec != std::errc() || read.ptr != end)
            trouble("'{}' is not a number of at most 63 bits", text);
        return Value::integer(value);
    }

    static Value real_number(const std::string& text) {
        double value = 0;
        const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
        if (read.ec != std::errc()) trouble("the number '{}' is out of range", text);
        return Value::real(value);
    }

    NodePointer postfix(NodePointer node) {
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

    NodePointer subscript(NodePointer node) {
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

    NodePointer subscript_part() {
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

    void call_arguments(Node& node) {
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

    NodePointer call(NodePointer callee) {
        NodePointer node = make_of(NodeKind::call, token().line, "", std::move(callee));
        call_arguments(*node);
        return node;
    }

    NodePointer filter_chain(NodePointer node, bool starts_with_name = false) {
        while (starts_with_name || is_sign("|")) {
            if (!starts_with_name) next();
            starts_with_name = false;
            const int line = token().line;
            node = make_of(NodeKind::filter, line, expect_name(), std::move(node));
            if (is_sign("(")) call_arguments(*node);
        }
        return node;
    }

    NodePointer test(NodePointer node) {
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

    std::vector<Token> tokens_;
    int& line_;
    size_t at_ = 0;
    uint32_t depth_ = 0;
};

}  // namespace

NodePointer parse_template(std::string_view source, int& line) {
    std::vector<Token> tokens = tokenize(source, line);
    line = 1;
    return Parser(std::move(tokens), line).whole();
}

}  // namespace coterie::text::jinja
