// Numbers as rules: digits compared with the digits of the bounds, most significant first. A walk is `tight`
// to a bound as long as it has followed the bound's own digits; once it leaves them the rest is free.
#include <array>
#include <cmath>
#include <map>

#include "base/failure.h"
#include "text/json_schema_rules.h"

namespace coterie::text {
namespace {

using Node = GrammarRules::Node;

constexpr unsigned most_digits = 15;

Node digit_set(GrammarRules& rules, unsigned first, unsigned last) {
    return rules.set({{'0' + first, '0' + last}});
}
Node free_digits(GrammarRules& rules, uint32_t least, uint32_t most) {
    return rules.repeat(digit_set(rules, 0, 9), least, most);
}

struct Decimal {
    std::string whole = "0", fraction;  // no leading zeros but one, no trailing zeros
};

Decimal decimal(double value) {
    Decimal result;
    const std::string text = fmt::format("{:.15f}", value);
    const size_t point = text.find('.');
    result.whole = text.substr(0, point);
    result.fraction = text.substr(point + 1);
    // 15 places may show the double's noise; the shortest text that reads back is what the schema says.
    for (int places = 0; places < 15; ++places) {
        const std::string shorter = fmt::format("{:.{}f}", value, places);
        if (std::stod(shorter) != value) continue;
        const size_t dot = shorter.find('.');
        result.whole = shorter.substr(0, dot);
        result.fraction = dot == std::string::npos ? "" : shorter.substr(dot + 1);
        break;
    }
    while (!result.fraction.empty() && result.fraction.back() == '0') result.fraction.pop_back();
    return result;
}

// Digit strings of one length between two of that length.
Node same_length(GrammarRules& rules, std::string_view least, std::string_view most) {
    if (least.empty()) return rules.empty();
    const auto low = static_cast<unsigned>(least[0] - '0'), high = static_cast<unsigned>(most[0] - '0');
    const auto rest = static_cast<uint32_t>(least.size() - 1);
    if (low == high)
        return rules.sequence(
            {digit_set(rules, low, low), same_length(rules, least.substr(1), most.substr(1))});
    const std::string nines(rest, '9'), zeros(rest, '0');
    std::vector<Node> choices;
    unsigned free_from = low, free_to = high;
    if (least.substr(1) != zeros) {
        choices.push_back(
            rules.sequence({digit_set(rules, low, low), same_length(rules, least.substr(1), nines)}));
        free_from = low + 1;
    }
    if (most.substr(1) != nines) {
        choices.push_back(
            rules.sequence({digit_set(rules, high, high), same_length(rules, zeros, most.substr(1))}));
        free_to = high - 1;
    }
    if (free_from <= free_to && free_to <= 9)
        choices.push_back(
            rules.sequence({digit_set(rules, free_from, free_to), free_digits(rules, rest, rest)}));
    return rules.choice(std::move(choices));
}

Node natural(GrammarRules& rules, uint64_t least, uint64_t most) {
    if (least > most) return rules.nothing();
    std::vector<Node> choices;
    const std::string top = std::to_string(most);
    for (std::string from = std::to_string(least);; from = "1" + std::string(from.size(), '0')) {
        const std::string to = from.size() == top.size() ? top : std::string(from.size(), '9');
        choices.push_back(same_length(rules, from, to));
        if (from.size() == top.size()) break;
    }
    return rules.choice(std::move(choices));
}

// Digits behind the point, at least one, of numbers between two bounds with the same digits before it.
class Fraction {
  public:
    Fraction(GrammarRules& rules, const std::string* least, bool above, const std::string* most, bool below,
             unsigned digits)
        : rules_(rules), least_(least), most_(most), above_(above), below_(below), digits_(digits) {}

    // With the point, or nothing where that is within the bounds too.
    Node read() {
        const Node some =
            rules_.sequence({rules_.bytes("."), from(0, least_ != nullptr, most_ != nullptr, false)});
        if (!may_end(0, least_ != nullptr, most_ != nullptr)) return some;
        return digits_ == 0 ? rules_.empty() : rules_.optional(some);
    }

  private:
    bool may_end(size_t at, bool tight_low, bool tight_high) const {
        if (tight_low && (at < least_->size() || above_)) return false;
        return !tight_high || at < most_->size() || !below_;
    }

    Node from(size_t at, bool tight_low, bool tight_high, bool end) {
        const bool can_end = end && may_end(at, tight_low, tight_high);
        if (at >= digits_) return can_end ? rules_.empty() : rules_.nothing();
        const auto rest = static_cast<uint32_t>(digits_ - at);
        if (!tight_low && !tight_high) return free_digits(rules_, end ? 0 : 1, rest);
        std::vector<Node> choices;
        if (can_end) choices.push_back(rules_.empty());
        const auto digit = [&](const std::string& of) {
            return at < of.size() ? static_cast<unsigned>(of[at] - '0') : 0u;
        };
        const unsigned low = tight_low ? digit(*least_) : 0, high = tight_high ? digit(*most_) : 9;
        if (low > high) return rules_.choice(std::move(choices));
        unsigned free_from = low, free_to = high + 1;
        if (tight_low) {
            const bool both = tight_high && low == high;
            choices.push_back(rules_.sequence({digit_set(rules_, low, low), from(at + 1, true, both, true)}));
            free_from = low + 1;
        }
        if (tight_high && !(tight_low && low == high)) {
            choices.push_back(
                rules_.sequence({digit_set(rules_, high, high), from(at + 1, false, true, true)}));
            free_to = high;
        }
        if (free_from < free_to)
            choices.push_back(rules_.sequence(
                {digit_set(rules_, free_from, free_to - 1), free_digits(rules_, 0, rest - 1)}));
        return rules_.choice(std::move(choices));
    }

    GrammarRules& rules_;
    const std::string *least_, *most_;
    bool above_, below_;
    unsigned digits_;
};

// Numbers without a sign; most < 0 means no upper bound.
Node unsigned_number(GrammarRules& rules, double least, bool above, double most, bool below,
                     unsigned digits) {
    const Decimal low = decimal(least), high = decimal(std::max(most, 0.0));
    const uint64_t low_whole = std::stoull(low.whole);
    const uint64_t high_whole = most < 0 ? 999'999'999'999'999u : std::stoull(high.whole);
    if (low_whole > high_whole) return rules.nothing();
    const auto with = [&](uint64_t whole, const std::string* from, const std::string* to) {
        return rules.sequence(
            {rules.bytes(std::to_string(whole)), Fraction(rules, from, above, to, below, digits).read()});
    };
    std::vector<Node> choices;
    if (low_whole == high_whole && most >= 0) {
        choices.push_back(with(low_whole, &low.fraction, &high.fraction));
    } else {
        choices.push_back(with(low_whole, &low.fraction, nullptr));
        const uint64_t free_to = most < 0 ? high_whole : high_whole - 1;
        if (low_whole + 1 <= free_to) {
            const Node fraction = Fraction(rules, nullptr, false, nullptr, false, digits).read();
            choices.push_back(rules.sequence({natural(rules, low_whole + 1, free_to), fraction}));
        }
        if (most >= 0) choices.push_back(with(high_whole, nullptr, &high.fraction));
    }
    return rules.choice(std::move(choices));
}

}  // namespace

GrammarRules::Node any_number(GrammarRules& rules, bool integer) {
    const Node whole = rules.sequence(
        {rules.optional(rules.bytes("-")),
         rules.choice({rules.bytes("0"),
                       rules.sequence({digit_set(rules, 1, 9), free_digits(rules, 0, most_digits - 1)})})});
    if (integer) return whole;
    const Node fraction =
        rules.optional(rules.sequence({rules.bytes("."), free_digits(rules, 1, most_digits)}));
    const Node exponent = rules.optional(
        rules.sequence({rules.set({{'e', 'e'}, {'E', 'E'}}),
                        rules.optional(rules.set({{'+', '+'}, {'-', '-'}})), free_digits(rules, 1, 2)}));
    return rules.sequence({whole, fraction, exponent});
}

GrammarRules::Node bounded_integer(GrammarRules& rules, int64_t least, int64_t most) {
    std::vector<Node> choices;
    const auto magnitude = [](int64_t value) {
        return value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
    };
    if (least > most) return rules.nothing();
    if (least < 0)
        choices.push_back(rules.sequence(
            {rules.bytes("-"), natural(rules, most < 0 ? magnitude(most) : 1, magnitude(least))}));
    if (most >= 0) choices.push_back(natural(rules, least < 0 ? 0 : magnitude(least), magnitude(most)));
    return rules.choice(std::move(choices));
}

GrammarRules::Node bounded_number(GrammarRules& rules, const NumberBounds& bounds, unsigned digits) {
    constexpr double largest = 999'999'999'999'999.0;
    const auto clamp = [&](double value) { return std::min(std::max(value, -largest), largest); };
    const bool no_least = !bounds.least || *bounds.least < -largest,
               no_most = !bounds.most || *bounds.most > largest;
    const double least = clamp(bounds.least.value_or(-largest)), most = clamp(bounds.most.value_or(largest));
    if ((bounds.least && *bounds.least > largest) || (bounds.most && *bounds.most < -largest) ||
        least > most || (least == most && (bounds.above_least || bounds.below_most)))
        return rules.nothing();
    std::vector<Node> choices;
    const bool above = bounds.above_least && !no_least, below = bounds.below_most && !no_most;
    if (most > 0 || (most == 0 && !below && (least < 0 || !above)))
        choices.push_back(least < 0
                              ? unsigned_number(rules, 0, false, no_most ? -1 : most, below, digits)
                              : unsigned_number(rules, least, above, no_most ? -1 : most, below, digits));
    if (least < 0)  // mirrored; zero itself is written without a sign
        choices.push_back(rules.sequence(
            {rules.bytes("-"),
             most < 0 ? unsigned_number(rules, -most, below, no_least ? -1 : -least, above, digits)
                      : unsigned_number(rules, 0, true, no_least ? -1 : -least, above, digits)}));
    return rules.choice(std::move(choices));
}

GrammarRules::Node multiples(GrammarRules& rules, uint32_t factor) {
    // One rule for each remainder and count of digits left; they call each other last, so no stack grows.
    const uint32_t length = std::min<uint32_t>(most_digits, std::max<uint32_t>(6, 20000 / factor));
    std::vector<GrammarRules::Rule> shorter;
    const auto choices = [&](uint32_t remainder, unsigned first, bool may_end) {
        std::vector<Node> parts;
        if (may_end && remainder == 0) parts.push_back(rules.empty());
        if (!shorter.empty())
            for (unsigned digit = first; digit <= 9; ++digit)
                parts.push_back(rules.sequence({digit_set(rules, digit, digit),
                                                rules.rule(shorter[(remainder * 10 + digit) % factor])}));
        return rules.choice(std::move(parts));
    };
    for (uint32_t left = 0; left < length; ++left) {
        std::vector<GrammarRules::Rule> present;
        for (uint32_t remainder = 0; remainder < factor; ++remainder) {
            present.push_back(rules.declare("remainder"));
            rules.define(present.back(), choices(remainder, 0, true));
        }
        shorter = std::move(present);
    }
    return rules.choice(
        {rules.bytes("0"), rules.sequence({rules.optional(rules.bytes("-")), choices(0, 1, false)})});
}

}  // namespace coterie::text
