// Reads the tokens of a template and the expressions among them. Statements are the business of
// jinja_parser.cpp.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_lexer.h"
#include "text/jinja_syntax.h"

namespace coterie::text::jinja {

constexpr uint32_t max_tree_depth = 300;

class ExpressionParser {
  protected:
    ExpressionParser(std::vector<Token> tokens, int& line) : tokens_(std::move(tokens)), line_(line) {}
    ~ExpressionParser() = default;

    using Kind = Token::Kind;
    using Words = std::vector<std::string_view>;

    // Counts how deep the parser itself has recursed.
    struct Level {
        explicit Level(ExpressionParser& parser) : depth(parser.depth_) {
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

    // With Jinja's precedence, loosest first.
    bool at_tuple_end(const Words& ends) const;
    NodePointer tuple_or_expression(bool with_condition = true, const Words& ends = {},
                                    bool in_parenthesis = false);
    NodePointer expression();
    NodePointer either();
    NodePointer both();
    NodePointer negation();
    std::string comparison_sign();
    NodePointer comparison();
    template <typename Part>
    NodePointer left_to_right(std::initializer_list<std::string_view> signs, Part part);
    NodePointer sum();
    NodePointer concatenation();
    NodePointer product();
    NodePointer power();
    NodePointer unary(bool with_filters);
    NodePointer constant(int line, Value value);
    NodePointer primary();
    static Value whole_number(const std::string& text);
    static Value real_number(const std::string& text);
    NodePointer postfix(NodePointer node);
    NodePointer subscript(NodePointer node);
    NodePointer subscript_part();
    void call_arguments(Node& node);
    NodePointer call(NodePointer callee);
    NodePointer filter_chain(NodePointer node, bool starts_with_name = false);
    NodePointer test(NodePointer node);

    std::vector<Token> tokens_;
    int& line_;
    size_t at_ = 0;
    uint32_t depth_ = 0;
};

}  // namespace coterie::text::jinja
