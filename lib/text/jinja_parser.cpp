// From tokens to the syntax tree: the statements, and the texts between the tags.
#include "text/jinja_expression_parser.h"

namespace coterie::text::jinja {
namespace {

class Parser : ExpressionParser {
  public:
    Parser(std::vector<Token> tokens, int& line) : ExpressionParser(std::move(tokens), line) {}

    NodePointer whole() { return body({}); }

  private:
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
};

}  // namespace

NodePointer parse_template(std::string_view source, int& line) {
    std::vector<Token> tokens = tokenize(source, line);
    line = 1;
    return Parser(std::move(tokens), line).whole();
}

}  // namespace coterie::text::jinja
