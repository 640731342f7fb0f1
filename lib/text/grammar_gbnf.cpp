// GBNF, the notation of llama.cpp's grammars: `name ::= "text" [a-z] (group | other)* rule{2,3}`, comments
// after #. A rule goes on to the next line where it can't end: inside of parentheses, after | and after ::=.
#include <map>

#include "base/failure.h"
#include "text/grammar.h"
#include "text/grammar_automaton.h"
#include "text/grammar_rules.h"
#include "text/utf8.h"

namespace coterie::text {
namespace {

using Node = GrammarRules::Node;

constexpr size_t longest_grammar = 1 << 20, most_rules = 20000, most_repeats = 100000;
constexpr int deepest_group = 100;

class GbnfReader {
  public:
    explicit GbnfReader(std::string_view text) : text_(text) {}

    std::shared_ptr<const Grammar> read() {
        for (skip(true); more(); skip(true)) definition();
        const auto root = names_.find("root");
        if (root == names_.end() || !defined_[root->second])
            fail(Status::invalid_argument, "the grammar has no rule named 'root'; define it: root ::= ...");
        return std::make_shared<const Grammar>(rules_.compile(root->second));
    }

  private:
    [[noreturn]] void wrong(std::string_view what) const {
        size_t line = 1;
        for (size_t i = 0; i < std::min(at_, text_.size()); ++i) line += text_[i] == '\n' ? 1 : 0;
        fail(Status::invalid_argument, "line {} of the grammar: {}", line, what);
    }

    bool more() const { return at_ < text_.size(); }
    char peek() const { return more() ? text_[at_] : '\0'; }
    bool take(std::string_view token) {
        if (text_.substr(at_, token.size()) != token) return false;
        at_ += token.size();
        return true;
    }

    void skip(bool lines) {
        while (more()) {
            const char byte = text_[at_];
            if (byte == '#')
                while (more() && text_[at_] != '\n') ++at_;
            else if (byte == ' ' || byte == '\t' || (lines && (byte == '\n' || byte == '\r')))
                ++at_;
            else
                break;
        }
    }

    static bool name_byte(char byte) {
        return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
               byte == '-' || byte == '_';
    }

    GrammarRules::Rule rule_named(const std::string& name) {
        const auto known = names_.find(name);
        if (known != names_.end()) return known->second;
        if (names_.size() >= most_rules) wrong("there are more than 20000 rules");
        defined_.push_back(false);
        return names_[name] = rules_.declare(name);
    }

    std::string name() {
        const size_t from = at_;
        while (name_byte(peek())) ++at_;
        if (at_ == from) wrong("expected the name of a rule");
        return std::string(text_.substr(from, at_ - from));
    }

    void definition() {
        const std::string called = name();
        const auto rule = rule_named(called);
        if (defined_[rule]) wrong("the rule '" + called + "' is defined twice");
        skip(false);
        if (!take("::=")) wrong("expected ::= after the name '" + called + "'");
        skip(true);
        rules_.define(rule, alternatives(0));
        defined_[rule] = true;
        skip(false);
        if (more() && peek() != '\n' && peek() != '\r')
            wrong("expected the end of the rule '" + called + "'");
    }

    Node alternatives(int depth) {
        if (depth > deepest_group) wrong("groups are nested too deeply");
        std::vector<Node> choices;
        for (;;) {
            choices.push_back(sequence(depth));
            skip(depth > 0);
            if (!take("|")) break;
            skip(true);
        }
        return rules_.choice(std::move(choices));
    }

    Node sequence(int depth) {
        std::vector<Node> parts;
        for (;;) {
            skip(depth > 0);
            const char byte = peek();
            if (byte == '"') {
                ++at_;
                std::string literal;
                while (peek() != '"') append_utf8(literal, character('"'));
                ++at_;
                parts.push_back(rules_.bytes(literal));
            } else if (byte == '[') {
                parts.push_back(char_class());
            } else if (byte == '.') {
                ++at_;
                parts.push_back(rules_.set({{0, last_code_point}}));
            } else if (byte == '(') {
                ++at_;
                skip(true);
                parts.push_back(alternatives(depth + 1));
                skip(true);
                if (!take(")")) wrong("expected ')'");
            } else if (name_byte(byte)) {
                parts.push_back(rules_.rule(rule_named(name())));
            } else if (byte == '<' || byte == '!') {
                fail(Status::unsupported,
                     "the grammar names tokens (<...>), which Coterie's grammars don't; write their text");
            } else {
                return rules_.sequence(std::move(parts));
            }
            quantify(parts.back());
        }
    }

    uint32_t number() {
        uint32_t value = 0;
        const size_t from = at_;
        for (; peek() >= '0' && peek() <= '9'; ++at_) {
            value = value * 10 + static_cast<uint32_t>(peek() - '0');
            if (value > most_repeats) wrong("a repetition of more than 100000 times");
        }
        if (at_ == from) wrong("expected a number");
        return value;
    }

    void quantify(Node& node) {
        for (;;) {
            if (take("*")) {
                node = rules_.repeat(node, 0);
            } else if (take("+")) {
                node = rules_.repeat(node, 1);
            } else if (take("?")) {
                node = rules_.optional(node);
            } else if (take("{")) {
                skip(false);
                const uint32_t least = number();
                uint32_t most = least;
                skip(false);
                if (take(",")) {
                    skip(false);
                    most = peek() == '}' ? GrammarRules::unbounded : number();
                    skip(false);
                }
                if (!take("}")) wrong("expected '}'");
                if (most < least) wrong("a repetition whose bounds contradict each other");
                node = rules_.repeat(node, least, most);
            } else {
                return;
            }
        }
    }

    uint32_t hex(size_t digits) {
        const std::string number(text_.substr(at_, digits));
        if (number.size() != digits ||
            number.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
            wrong("an escape without its hexadecimal digits");
        at_ += digits;
        const auto value = static_cast<uint32_t>(std::stoul(number, nullptr, 16));
        if (value > last_code_point || (value >= 0xD800 && value <= 0xDFFF))
            wrong("an escape that is no code point");
        return value;
    }

    uint32_t character(char closing) {
        if (!more() || peek() == '\n')
            wrong(closing == '"' ? "a text without its closing quote" : "a '[' without its ']'");
        if (peek() != '\\') {
            const auto lead = static_cast<unsigned char>(peek());
            const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
            const uint32_t point = code_points(text_.substr(at_, length)).front();
            at_ += length;
            return point;
        }
        ++at_;
        const char letter = peek();
        ++at_;
        switch (letter) {
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'x':
                return hex(2);
            case 'u':
                return hex(4);
            case 'U':
                return hex(8);
            case '\\':
            case '"':
            case '[':
            case ']':
            case '-':
            case '^':
                return static_cast<uint32_t>(letter);
            default:
                wrong("an unknown escape");
        }
    }

    Node char_class() {
        ++at_;
        const bool negated = take("^");
        CodePointRanges ranges;
        while (peek() != ']') {
            const uint32_t first = character(']');
            uint32_t last = first;
            if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
                ++at_;
                last = character(']');
                if (last < first) wrong("a range whose ends contradict each other");
            }
            ranges.emplace_back(first, last);
        }
        ++at_;
        return rules_.set(negated ? complement(ranges) : normalized(std::move(ranges)));
    }

    std::string_view text_;
    size_t at_ = 0;
    GrammarRules rules_;
    std::map<std::string, GrammarRules::Rule, std::less<>> names_;
    std::vector<bool> defined_;
};

}  // namespace

std::shared_ptr<const Grammar> Grammar::from_gbnf(std::string_view text) {
    if (text.size() > longest_grammar)
        fail(Status::invalid_argument, "a grammar has {} bytes; at most {} are accepted", text.size(),
             longest_grammar);
    return GbnfReader(text).read();
}

}  // namespace coterie::text
