#include "text/grammar_rules.h"

#include <algorithm>

#include "base/failure.h"
#include "base/json.h"
#include "text/utf8.h"

namespace coterie::text {
namespace {
constexpr size_t most_expressions = 2'000'000;
}

CodePointRanges normalized(CodePointRanges ranges) {
    std::sort(ranges.begin(), ranges.end());
    CodePointRanges merged;
    const auto add = [&](uint32_t first, uint32_t last) {
        if (first > last) return;
        if (!merged.empty() && first <= merged.back().second + 1)
            merged.back().second = std::max(merged.back().second, last);
        else
            merged.emplace_back(first, last);
    };
    for (auto [first, last] : ranges) {
        last = std::min(last, last_code_point);
        if (first < 0xD800) add(first, std::min(last, uint32_t{0xD7FF}));
        if (last > 0xDFFF) add(std::max(first, uint32_t{0xE000}), last);
    }
    return merged;
}

CodePointRanges complement(const CodePointRanges& ranges) {
    CodePointRanges result;
    uint32_t next = 0;
    for (const auto& [first, last] : normalized(ranges)) {
        if (first > next) result.emplace_back(next, first - 1);
        next = last + 1;
    }
    if (next <= last_code_point) result.emplace_back(next, last_code_point);
    return normalized(std::move(result));
}

GrammarRules::Node GrammarRules::add(Expression expression) {
    if (expressions_.size() >= most_expressions)
        fail(Status::invalid_argument,
             "the grammar is too large: it has more than {} parts; simplify the schema or grammar",
             most_expressions);
    expressions_.push_back(std::move(expression));
    return static_cast<Node>(expressions_.size() - 1);
}

GrammarRules::Node GrammarRules::bytes(std::string_view text) {
    Expression expression{Kind::bytes};
    expression.bytes = text;
    return add(std::move(expression));
}

GrammarRules::Node GrammarRules::set(CodePointRanges ranges) {
    Expression expression{Kind::set};
    expression.ranges = normalized(std::move(ranges));
    return add(std::move(expression));
}

GrammarRules::Node GrammarRules::sequence(std::vector<Node> parts) {
    if (parts.size() == 1) return parts.front();
    Expression expression{Kind::sequence};
    expression.parts = std::move(parts);
    return add(std::move(expression));
}

GrammarRules::Node GrammarRules::choice(std::vector<Node> parts) {
    if (parts.size() == 1) return parts.front();
    Expression expression{Kind::choice};
    expression.parts = std::move(parts);
    return add(std::move(expression));
}

GrammarRules::Node GrammarRules::repeat(Node body, uint32_t least, uint32_t most) {
    Expression expression{Kind::repeat};
    expression.parts = {body};
    expression.least = least;
    expression.most = most;
    return add(std::move(expression));
}

GrammarRules::Node GrammarRules::rule(Rule rule) {
    Expression expression{Kind::rule};
    expression.rule = rule;
    return add(std::move(expression));
}

GrammarRules::Node GrammarRules::until(std::string_view tag) {
    Expression expression{Kind::until};
    expression.bytes = tag;
    return add(std::move(expression));
}

GrammarRules::Node GrammarRules::without(std::string_view tag) {
    Expression expression{Kind::without};
    expression.bytes = tag;
    return add(std::move(expression));
}

GrammarRules::Node GrammarRules::markup(std::string_view tag) {
    return choice({bytes(tag), bytes(std::string(1, control_mark) + std::string(tag))});
}

GrammarRules::Rule GrammarRules::declare(std::string name) {
    definitions_.push_back({std::move(name), no_body});
    return static_cast<Rule>(definitions_.size() - 1);
}

GrammarRules::Node GrammarRules::json_characters(uint32_t least, uint32_t most) {
    if (json_character_ == ~Rule{0}) {
        json_character_ = declare("character");
        const auto hex = [&] { return set({{'0', '9'}, {'a', 'f'}, {'A', 'F'}}); };
        // \uXXXX but for surrogates, which must come in pairs.
        const Node basic =
            choice({sequence({set({{'0', '9'}, {'a', 'c'}, {'A', 'C'}, {'e', 'f'}, {'E', 'F'}}),
                              repeat(hex(), 3, 3)}),
                    sequence({set({{'d', 'd'}, {'D', 'D'}}), set({{'0', '7'}}), repeat(hex(), 2, 2)})});
        const Node high = sequence(
            {set({{'d', 'd'}, {'D', 'D'}}), set({{'8', '9'}, {'a', 'b'}, {'A', 'B'}}), repeat(hex(), 2, 2)});
        const Node low = sequence({bytes("\\u"), set({{'d', 'd'}, {'D', 'D'}}), set({{'c', 'f'}, {'C', 'F'}}),
                                   repeat(hex(), 2, 2)});
        const Node escaped =
            sequence({bytes("\\"), choice({set({{'"', '"'},
                                                {'\\', '\\'},
                                                {'/', '/'},
                                                {'b', 'b'},
                                                {'f', 'f'},
                                                {'n', 'n'},
                                                {'r', 'r'},
                                                {'t', 't'}}),
                                           sequence({bytes("u"), choice({basic, sequence({high, low})})})})});
        define(json_character_, choice({set(complement({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}})), escaped}));
    }
    const Node node = repeat(rule(json_character_), least, most);
    expressions_[node].plain = true;
    return node;
}

std::string json_inside(std::string_view text) {
    std::string out;
    for (const char byte : text) append_json_byte(out, byte);
    return out;
}

GrammarRules::Node json_set(GrammarRules& rules, const CodePointRanges& ranges) {
    CodePointRanges as_they_are;
    std::vector<GrammarRules::Node> choices;
    const auto escape = [&](uint32_t code_point) {
        std::string text;
        append_utf8(text, code_point);
        choices.push_back(rules.bytes(json_inside(text)));
    };
    for (auto [first, last] : normalized(ranges)) {
        for (; first <= last && first < 0x20; ++first) escape(first);
        if (first > last) continue;
        for (const uint32_t special : {uint32_t{'"'}, uint32_t{'\\'}}) {
            if (special < first || special > last) continue;
            if (special > first) as_they_are.emplace_back(first, special - 1);
            escape(special);
            first = special + 1;
        }
        if (first <= last) as_they_are.emplace_back(first, last);
    }
    if (!as_they_are.empty()) choices.push_back(rules.set(std::move(as_they_are)));
    return rules.choice(std::move(choices));
}

std::vector<uint32_t> code_points(std::string_view text) {
    std::vector<uint32_t> result;
    for (size_t at = 0; at < text.size();) {
        const auto lead = static_cast<unsigned char>(text[at]);
        const size_t length = lead < 0x80                   ? 1
                              : lead >= 0xC2 && lead < 0xE0 ? 2
                              : lead >= 0xE0 && lead < 0xF0 ? 3
                              : lead >= 0xF0 && lead < 0xF5 ? 4
                                                            : 0;
        uint32_t value = length == 1 ? lead : lead & (0xFFu >> (length + 1));
        bool valid = length > 0 && at + length <= text.size();
        for (size_t i = 1; valid && i < length; ++i) {
            const auto next = static_cast<unsigned char>(text[at + i]);
            valid = (next & 0xC0) == 0x80;
            value = value << 6 | (next & 0x3F);
        }
        constexpr uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
        valid = valid && value >= smallest[length] && value <= last_code_point &&
                (value < 0xD800 || value > 0xDFFF);
        if (!valid) fail(Status::invalid_argument, "a grammar or pattern is not valid UTF-8 at byte {}", at);
        result.push_back(value);
        at += length;
    }
    return result;
}

}  // namespace coterie::text
