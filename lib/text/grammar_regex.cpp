// Regular expressions as rule bodies: ECMA-262's syntax as JSON Schemas use it. Where dialects differ about
// classes
// (\d, \w, \s and their complements) the characters on which all agree are taken, so what is generated
// matches anywhere.
#include "base/failure.h"
#include "text/grammar.h"
#include "text/grammar_automaton.h"
#include "text/grammar_rules.h"

namespace coterie::text {
namespace {

using Node = GrammarRules::Node;

constexpr uint32_t deepest_group = 100, most_repeats = 100000;

CodePointRanges class_ranges(uint32_t letter) {
    const CodePointRanges digits = {{'0', '9'}};
    const CodePointRanges words = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    const CodePointRanges spaces = {{'\t', '\r'}, {' ', ' '}};
    const CodePointRanges any_spaces = {{'\t', '\r'},     {0x1C, ' '},      {0x85, 0x85},
                                        {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                                        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                        {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    const auto ascii_but = [](CodePointRanges ranges) {
        ranges.emplace_back(0x80, last_code_point);
        return complement(ranges);
    };
    switch (letter) {
        case 'd':
            return digits;
        case 'w':
            return words;
        case 's':
            return spaces;
        case 'D':
            return ascii_but(digits);
        case 'W':
            return ascii_but(words);
        case 'S':
            return complement(any_spaces);
        default:
            return {};
    }
}

class RegexReader {
  public:
    RegexReader(GrammarRules& rules, std::string_view pattern, bool in_json, bool search)
        : rules_(rules), text_(pattern), points_(code_points(pattern)), in_json_(in_json), search_(search) {}

    Node read() {
        const Node node = alternatives(0);
        if (at_ < points_.size()) wrong("a ')' without its '('");
        return node;
    }

  private:
    [[noreturn]] void wrong(std::string_view what) const {
        fail(Status::invalid_argument, "the pattern '{}' has {} at character {}", text_, what, at_);
    }
    [[noreturn]] void unsupported(std::string_view what) const {
        fail(Status::unsupported,
             "the pattern '{}' uses {} at character {}, which constrained output can't follow", text_, what,
             at_);
    }

    bool more() const { return at_ < points_.size(); }
    bool next_is(uint32_t point) const { return more() && points_[at_] == point; }
    bool take(uint32_t point) {
        if (!next_is(point)) return false;
        ++at_;
        return true;
    }

    Node one_of(const CodePointRanges& ranges) {
        return in_json_ ? json_set(rules_, ranges) : rules_.set(ranges);
    }
    Node anything() {
        return in_json_ ? rules_.json_characters(0, GrammarRules::unbounded)
                        : rules_.repeat(rules_.set({{0, last_code_point}}), 0);
    }

    Node alternatives(uint32_t depth) {
        if (depth > deepest_group) unsupported("deeply nested groups");
        std::vector<Node> choices;
        do {
            choices.push_back(branch(depth));
        } while (take('|'));
        return rules_.choice(std::move(choices));
    }

    // Anchors count at the ends of the outermost alternatives; what lies between must fill the text unless
    // `search_`.
    Node branch(uint32_t depth) {
        std::vector<Node> parts;
        const bool begins = take('^');
        if (begins && depth > 0) unsupported("'^' inside a group");
        if (depth == 0 && search_ && !begins) parts.push_back(anything());
        bool ends = false;
        while (more() && !next_is('|') && !next_is(')')) {
            if (take('$')) {
                if (depth > 0 || (more() && !next_is('|'))) unsupported("'$' before the end");
                ends = true;
                continue;
            }
            if (next_is('^')) unsupported("'^' after the beginning");
            parts.push_back(quantified(atom(depth)));
        }
        if (depth == 0 && search_ && !ends) parts.push_back(anything());
        return rules_.sequence(std::move(parts));
    }

    uint32_t number() {
        uint32_t value = 0;
        const size_t from = at_;
        while (more() && points_[at_] >= '0' && points_[at_] <= '9') {
            value = value * 10 + (points_[at_++] - '0');
            if (value > most_repeats) wrong("a repetition of more than 100000 times");
        }
        if (at_ == from) wrong("a number missing");
        return value;
    }

    Node quantified(Node node) {
        uint32_t least = 1, most = 1;
        if (take('*')) {
            least = 0;
            most = GrammarRules::unbounded;
        } else if (take('+')) {
            most = GrammarRules::unbounded;
        } else if (take('?')) {
            least = 0;
        } else if (next_is('{') && at_ + 1 < points_.size() && points_[at_ + 1] >= '0' &&
                   points_[at_ + 1] <= '9') {
            ++at_;
            least = most = number();
            if (take(',')) most = next_is('}') ? GrammarRules::unbounded : number();
            if (!take('}')) wrong("an unfinished '{'");
            if (most < least) wrong("a repetition whose bounds contradict each other");
        } else {
            return node;
        }
        take('?');  // laziness doesn't change what matches
        if (next_is('*') || next_is('+') || next_is('?')) wrong("two repetitions in a row");
        return rules_.repeat(node, least, most);
    }

    Node atom(uint32_t depth) {
        const uint32_t point = points_[at_++];
        switch (point) {
            case '(': {
                if (take('?')) {
                    if (take('P') || next_is('<')) {
                        if (!take('<') || next_is('=') || next_is('!')) unsupported("look-behind");
                        while (more() && !next_is('>')) ++at_;
                        if (!take('>')) wrong("an unfinished group name");
                    } else if (!take(':')) {
                        unsupported("look-ahead or flags");
                    }
                }
                const Node node = alternatives(depth + 1);
                if (!take(')')) wrong("a '(' without its ')'");
                return node;
            }
            case '[':
                return one_of(char_class());
            case '.':
                return one_of(complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
            case '*':
            case '+':
            case '?':
                --at_;
                wrong("a repetition of nothing");
            case '\\': {
                const CodePointRanges ranges = escape(false);
                return one_of(ranges);
            }
            default:
                return one_of({{point, point}});
        }
    }

    uint32_t hex(size_t digits) {
        uint32_t value = 0;
        for (size_t i = 0; i < digits; ++i, ++at_) {
            const uint32_t digit = more() ? points_[at_] : 0;
            if (digit >= '0' && digit <= '9')
                value = value * 16 + digit - '0';
            else if ((digit | 0x20) >= 'a' && (digit | 0x20) <= 'f')
                value = value * 16 + (digit | 0x20) - 'a' + 10;
            else
                wrong("an escape without its hexadecimal digits");
        }
        return value;
    }

    CodePointRanges escape(bool in_class) {
        if (!more()) wrong("a '\\' at its end");
        const uint32_t letter = points_[at_++];
        if (const CodePointRanges known = class_ranges(letter); !known.empty()) return known;
        uint32_t point = letter;
        switch (letter) {
            case 'n':
                point = '\n';
                break;
            case 'r':
                point = '\r';
                break;
            case 't':
                point = '\t';
                break;
            case 'f':
                point = '\f';
                break;
            case 'v':
                point = '\v';
                break;
            case '0':
                point = 0;
                break;
            case 'x':
                point = hex(2);
                break;
            case 'u':
                if (take('{')) {
                    point = 0;
                    while (more() && !next_is('}') && point <= last_code_point) point = point * 16 + hex(1);
                    if (!take('}') || point > last_code_point) wrong("an escape that is no code point");
                } else {
                    point = hex(4);
                    if (point >= 0xD800 && point < 0xDC00 && take('\\') && take('u'))
                        point = 0x10000 + ((point - 0xD800) << 10) + (hex(4) - 0xDC00);
                }
                break;
            case 'b':
                if (!in_class) unsupported("a word boundary");
                point = '\b';
                break;
            default:
                if ((letter >= '1' && letter <= '9') || letter == 'k') unsupported("a back reference");
                if (letter == 'B') unsupported("a word boundary");
                if (letter == 'p' || letter == 'P') unsupported("a Unicode property");
                if (letter < 0x80 && ((letter | 0x20) >= 'a' && (letter | 0x20) <= 'z'))
                    unsupported("an unknown escape");
        }
        return {{point, point}};
    }

    CodePointRanges char_class() {
        const bool negated = take('^');
        CodePointRanges ranges;
        for (bool first = true; !next_is(']') || first; first = false) {
            if (!more()) wrong("a '[' without its ']'");
            if (next_is(']')) break;
            CodePointRanges item = class_item();
            const bool single = item.size() == 1 && item[0].first == item[0].second;
            if (single && next_is('-') && at_ + 1 < points_.size() && points_[at_ + 1] != ']') {
                ++at_;
                const CodePointRanges last = class_item();
                if (last.size() != 1 || last[0].first != last[0].second || last[0].first < item[0].first)
                    wrong("a range whose ends contradict each other");
                item[0].second = last[0].first;
            }
            ranges.insert(ranges.end(), item.begin(), item.end());
        }
        ++at_;
        return negated ? complement(ranges) : normalized(std::move(ranges));
    }

    CodePointRanges class_item() {
        const uint32_t point = points_[at_++];
        return point == '\\' ? escape(true) : CodePointRanges{{point, point}};
    }

    GrammarRules& rules_;
    std::string_view text_;
    std::vector<uint32_t> points_;
    bool in_json_, search_;
    size_t at_ = 0;
};

}  // namespace

GrammarRules::Node regex_node(GrammarRules& rules, std::string_view pattern, bool in_json, bool search) {
    constexpr size_t longest = 65536;
    if (pattern.size() > longest)
        fail(Status::invalid_argument, "a pattern has {} bytes; at most {} are accepted", pattern.size(),
             longest);
    return RegexReader(rules, pattern, in_json, search).read();
}

std::shared_ptr<const Grammar> Grammar::from_regex(std::string_view pattern) {
    GrammarRules rules;
    const auto root = rules.declare("pattern");
    rules.define(root, regex_node(rules, pattern, false, false));
    return std::make_shared<const Grammar>(rules.compile(root));
}

}  // namespace coterie::text
