// Rules under construction: expressions over code points that refer to rules by number. Every way to write a
// grammar builds these; `compile` checks them (size, left recursion, rules that never end) and makes the
// automaton.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/utf8.h"

namespace coterie::text {

struct GrammarAutomaton;

using CodePointRanges = std::vector<std::pair<uint32_t, uint32_t>>;  // inclusive; any order on input

constexpr uint32_t last_code_point = 0x10FFFF;
CodePointRanges normalized(CodePointRanges ranges);  // sorted, disjoint, without surrogates
CodePointRanges complement(const CodePointRanges& ranges);

class GrammarRules {
  public:
    using Node = uint32_t;
    using Rule = uint32_t;
    static constexpr uint32_t unbounded = ~uint32_t{0};

    enum class Kind : uint8_t { bytes, set, sequence, choice, repeat, rule, until, without };
    // Goes before a control token's text; no UTF-8 text contains it.
    static constexpr char control_mark = '\xFF';
    struct Expression {
        Kind kind;
        std::string bytes{};        // bytes; until, without: the tag
        CodePointRanges ranges{};   // set
        std::vector<Node> parts{};  // sequence, choice; repeat: one
        uint32_t least = 0, most = 0;
        Rule rule = 0;
        bool plain = false;  // repeat: its body is one character of a JSON string
    };
    struct Definition {
        std::string name;
        Node body = no_body;
    };
    static constexpr Node no_body = ~Node{0};

    Node empty() { return sequence({}); }
    Node nothing() { return choice({}); }  // derives no text at all
    Node bytes(std::string_view text);
    Node set(CodePointRanges ranges);
    Node sequence(std::vector<Node> parts);
    Node choice(std::vector<Node> parts);
    Node repeat(Node body, uint32_t least, uint32_t most = unbounded);
    Node optional(Node body) { return repeat(body, 0, 1); }
    Node rule(Rule rule);
    Node markup(std::string_view tag);   // written out, or as the control token of that name
    Node until(std::string_view tag);    // any bytes up to and with the first occurrence of the tag
    Node without(std::string_view tag);  // any bytes in which the tag doesn't occur
    Node json_characters(uint32_t least, uint32_t most);  // characters inside a JSON string, escapes included

    Rule declare(std::string name);
    void define(Rule rule, Node body) { definitions_[rule].body = body; }
    const std::vector<Definition>& definitions() const { return definitions_; }
    const Expression& expression(Node node) const { return expressions_[node]; }

    std::unique_ptr<const GrammarAutomaton> compile(Rule root) const;

  private:
    Node add(Expression expression);
    std::vector<Expression> expressions_;
    std::vector<Definition> definitions_;
    Rule json_character_ = ~Rule{0};
};

// `text` as it stands inside a JSON string, and a set of code points likewise (each in its shortest form).
std::string json_inside(std::string_view text);
GrammarRules::Node json_set(GrammarRules& rules, const CodePointRanges& ranges);

// A regular expression as a rule body. `in_json`: it matches the inside of a JSON string. Unanchored ends are
// open when `search` is set, as JSON Schema's `pattern` wants it.
GrammarRules::Node regex_node(GrammarRules& rules, std::string_view pattern, bool in_json, bool search);

std::vector<uint32_t> code_points(std::string_view text);  // invalid UTF-8 throws a Failure

}  // namespace coterie::text
