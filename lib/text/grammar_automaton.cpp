// From rules to states: checks first (undefined rules, left recursion, rules that never end), then Thompson's
// construction over bytes. Alternatives that can't end are left out, so every thread of a matcher can finish.
#include "text/grammar_automaton.h"

#include <algorithm>
#include <map>

#include "base/failure.h"
#include "text/grammar_rules.h"
#include "text/utf8.h"

namespace coterie::text {
namespace {

using Node = GrammarRules::Node;
using Kind = GrammarRules::Kind;
using Expression = GrammarRules::Expression;

constexpr size_t most_states = 1'000'000;
constexpr uint32_t most_unrolled = 8, most_unrolled_empty = 64;

struct ByteRange {
    uint8_t first, last;
};

// The UTF-8 forms of a range, as sequences of byte ranges.
void utf8_sequences(uint32_t first, uint32_t last, std::vector<std::vector<ByteRange>>& out) {
    for (const uint32_t boundary : {0x7Fu, 0x7FFu, 0xFFFFu})
        if (first <= boundary && last > boundary) {
            utf8_sequences(first, boundary, out);
            utf8_sequences(boundary + 1, last, out);
            return;
        }
    if (first >= 0x80)
        for (uint32_t shift = 6; shift <= 18; shift += 6) {
            const uint32_t low = (1u << shift) - 1;
            if ((first & ~low) == (last & ~low)) continue;
            if ((first & low) != 0) {
                utf8_sequences(first, first | low, out);
                utf8_sequences((first | low) + 1, last, out);
                return;
            }
            if ((last & low) != low) {
                utf8_sequences(first, (last & ~low) - 1, out);
                utf8_sequences(last & ~low, last, out);
                return;
            }
        }
    std::string from, to;
    append_utf8(from, first);
    append_utf8(to, last);
    std::vector<ByteRange> sequence;
    for (size_t i = 0; i < from.size(); ++i)
        sequence.push_back({static_cast<uint8_t>(from[i]), static_cast<uint8_t>(to[i])});
    out.push_back(std::move(sequence));
}

class Compiler {
  public:
    explicit Compiler(const GrammarRules& rules)
        : rules_(rules), result_(std::make_unique<GrammarAutomaton>()) {}

    std::unique_ptr<const GrammarAutomaton> run(uint32_t root) {
        const auto& definitions = rules_.definitions();
        for (const auto& definition : definitions)
            if (definition.body == GrammarRules::no_body)
                fail(Status::invalid_argument, "the grammar uses a rule '{}' that it doesn't define",
                     definition.name);
        settle(productive_, &Compiler::productive);
        settle(nullable_, &Compiler::nullable);
        if (!productive_[root])
            fail(Status::invalid_argument,
                 "nothing can satisfy the grammar: every way through it ends in a contradiction or never "
                 "ends");
        check_left_recursion();
        result_->rules.resize(definitions.size());
        result_->root = root;
        const std::vector<bool> recursive = in_cycles(false);
        for (uint32_t rule = 0; rule < definitions.size(); ++rule) {
            result_->rules[rule].start = add_state();
            result_->rules[rule].recursive = recursive[rule];
        }
        for (uint32_t rule = 0; rule < definitions.size(); ++rule)
            if (productive_[rule]) build_rule(rule, definitions[rule].body);
        for (const GrammarAutomaton::Call& call : result_->calls)
            if (call.plain) result_->plain_start = result_->rules[call.rule].start;
        mark_trivial();
        classify();
        return std::move(result_);
    }

  private:
    // --- what can be said about rules before there are states
    // -----------------------------------------------------

    bool productive(Node node) const {
        const Expression& e = rules_.expression(node);
        const auto is = [&](Node part) { return productive(part); };
        switch (e.kind) {
            case Kind::bytes:
            case Kind::without:
            case Kind::until:
                return true;
            case Kind::set:
                return !e.ranges.empty();
            case Kind::sequence:
                return std::all_of(e.parts.begin(), e.parts.end(), is);
            case Kind::choice:
                return std::any_of(e.parts.begin(), e.parts.end(), is);
            case Kind::repeat:
                return e.least <= e.most && (e.least == 0 || productive(e.parts[0]));
            case Kind::rule:
                return productive_[e.rule];
        }
        return false;
    }

    bool nullable(Node node) const {
        const Expression& e = rules_.expression(node);
        const auto is = [&](Node part) { return nullable(part); };
        switch (e.kind) {
            case Kind::bytes:
            case Kind::until:
                return e.bytes.empty();
            case Kind::set:
                return false;
            case Kind::without:
                return true;
            case Kind::sequence:
                return std::all_of(e.parts.begin(), e.parts.end(), is);
            case Kind::choice:
                return std::any_of(e.parts.begin(), e.parts.end(), is);
            case Kind::repeat:
                return e.least == 0 || nullable(e.parts[0]);
            case Kind::rule:
                return nullable_[e.rule];
        }
        return false;
    }

    // Rules whose property follows from that of others, until nothing changes.
    void settle(std::vector<bool>& property, bool (Compiler::*holds)(Node) const) {
        const auto& definitions = rules_.definitions();
        property.assign(definitions.size(), false);
        // Both ways in turn, as definitions mostly follow or precede their uses.
        bool changed = true, forwards = false;
        while (changed) {
            changed = false;
            for (size_t i = 0; i < definitions.size(); ++i) {
                const size_t rule = forwards ? i : definitions.size() - 1 - i;
                if (!property[rule] && (this->*holds)(definitions[rule].body))
                    property[rule] = changed = true;
            }
            forwards = !forwards;
        }
    }

    // The rules an expression refers to; `left`: only those that can come before any byte.
    void collect(Node node, bool left, std::vector<uint32_t>& out) const {
        const Expression& e = rules_.expression(node);
        if (e.kind == Kind::rule) out.push_back(e.rule);
        for (Node part : e.parts) {
            collect(part, left, out);
            if (left && e.kind == Kind::sequence && !nullable(part)) break;
        }
    }

    // Rules in a cycle of references, or that lead into one.
    std::vector<bool> in_cycles(bool left) {
        const auto& definitions = rules_.definitions();
        std::vector<std::vector<uint32_t>> users(definitions.size());
        std::vector<size_t> open(definitions.size(), 0);
        references_.assign(definitions.size(), {});
        for (uint32_t rule = 0; rule < definitions.size(); ++rule) {
            collect(definitions[rule].body, left, references_[rule]);
            open[rule] = references_[rule].size();
            for (uint32_t used : references_[rule]) users[used].push_back(rule);
        }
        std::vector<uint32_t> free;
        std::vector<bool> cyclic(definitions.size(), true);
        for (uint32_t rule = 0; rule < definitions.size(); ++rule)
            if (open[rule] == 0) free.push_back(rule);
        while (!free.empty()) {
            const uint32_t rule = free.back();
            free.pop_back();
            cyclic[rule] = false;
            for (uint32_t user : users[rule])
                if (--open[user] == 0) free.push_back(user);
        }
        return cyclic;
    }

    void check_left_recursion() {
        const std::vector<bool> cyclic = in_cycles(true);
        const auto first = std::find(cyclic.begin(), cyclic.end(), true);
        if (first == cyclic.end()) return;
        auto rule = static_cast<uint32_t>(first - cyclic.begin());
        for (size_t step = 0; step < cyclic.size(); ++step)
            rule = *std::find_if(references_[rule].begin(), references_[rule].end(),
                                 [&](uint32_t to) { return cyclic[to]; });
        fail(Status::invalid_argument,
             "the grammar's rule '{}' begins with itself; write the repetition with * or +, or at the rule's "
             "end",
             rules_.definitions()[rule].name);
    }

    // --- states
    // -----------------------------------------------------------------------------------------------------

    uint32_t add_state() {
        if (result_->states.size() >= most_states)
            fail(Status::invalid_argument,
                 "the grammar is too large: it needs more than {} states; simplify it", most_states);
        result_->states.emplace_back();
        raw_.emplace_back();
        return static_cast<uint32_t>(result_->states.size() - 1);
    }

    void link(uint32_t from, uint32_t to) { result_->states[from].empty.push_back(to); }

    uint32_t link_bytes(uint32_t from, uint8_t first, uint8_t last, uint32_t to) {
        raw_[from].push_back({{first, last}, to});
        return to;
    }

    void build_rule(uint32_t rule, Node body) {
        const uint32_t end = build(body, result_->rules[rule].start);
        result_->states[end].final = true;
    }

    uint32_t call(uint32_t from, uint32_t rule, uint32_t least, uint32_t most, bool counted, bool plain) {
        const uint32_t back = add_state();
        result_->states[from].calls.push_back(static_cast<uint32_t>(result_->calls.size()));
        result_->calls.push_back({rule, back, least, most, counted, plain});
        return back;
    }

    // Adds what derives the node after state `from`; returns the state behind it.
    uint32_t build(Node node, uint32_t from) {
        const Expression& e = rules_.expression(node);
        switch (e.kind) {
            case Kind::bytes:
                for (const char byte : e.bytes) {
                    const auto value = static_cast<uint8_t>(byte);
                    from = link_bytes(from, value, value, add_state());
                }
                return from;
            case Kind::set: {
                const uint32_t end = add_state();
                std::vector<std::vector<ByteRange>> sequences;
                for (const auto& [first, last] : e.ranges) utf8_sequences(first, last, sequences);
                for (const auto& sequence : sequences) {
                    uint32_t at = from;
                    for (size_t i = 0; i < sequence.size(); ++i)
                        at = link_bytes(at, sequence[i].first, sequence[i].last,
                                        i + 1 == sequence.size() ? end : add_state());
                }
                return end;
            }
            case Kind::sequence:
                for (Node part : e.parts) from = build(part, from);
                return from;
            case Kind::choice: {
                const uint32_t end = add_state();
                for (Node part : e.parts)
                    if (productive(part)) {
                        const uint32_t start = add_state();
                        link(from, start);
                        link(build(part, start), end);
                    }
                return end;
            }
            case Kind::repeat:
                return build_repeat(e, from);
            case Kind::rule:
                return call(from, e.rule, 1, 1, false, false);
            case Kind::until:
            case Kind::without:
                return build_until(e.bytes, from, e.kind == Kind::until);
        }
        return from;
    }

    uint32_t build_star(Node body, uint32_t from) {
        const uint32_t loop = add_state();
        link(from, loop);
        link(build(body, loop), loop);
        return loop;
    }

    uint32_t build_repeat(const Expression& e, uint32_t from) {
        const Node body = e.parts[0];
        if (e.most == 0 || !productive(body)) return from;
        const Kind kind = rules_.expression(body).kind;
        if (e.plain) return call(from, rules_.expression(body).rule, e.least, e.most, true, true);
        if (e.most == GrammarRules::unbounded && (e.least == 0 || nullable(body)))
            return build_star(body, from);
        if (e.most == GrammarRules::unbounded && e.least == 1) return build_star(body, build(body, from));
        if (e.least == 1 && e.most == 1) return build(body, from);
        const bool simple = e.most <= most_unrolled && (kind == Kind::set || kind == Kind::bytes);
        if (simple || e.most == 1 || nullable(body)) {
            if (e.most > most_unrolled_empty)
                fail(Status::invalid_argument,
                     "the grammar repeats up to {} times what may be empty; let the repeated part "
                     "have at least one character, or repeat at most {} times",
                     e.most, most_unrolled_empty);
            const uint32_t end = add_state();
            for (uint32_t count = 0; count < e.most; ++count) {
                if (count >= e.least) link(from, end);
                from = build(body, from);
            }
            link(from, end);
            return end;
        }
        uint32_t rule = rules_.expression(body).rule;
        if (kind != Kind::rule) {
            const auto known = repeated_.find(body);
            if (known == repeated_.end()) {
                rule = static_cast<uint32_t>(result_->rules.size());
                repeated_[body] = rule;
                result_->rules.push_back({add_state(), false});
                build_rule(rule, body);
            } else {
                rule = known->second;
            }
        }
        return call(from, rule, e.least, e.most, true, false);
    }

    // Knuth, Morris and Pratt's automaton: state k has seen the tag's first k bytes. The mark of control
    // tokens isn't text; behind it only the tag itself may stand. Without `through` the tag's last byte is
    // never taken.
    uint32_t build_until(const std::string& tag, uint32_t from, bool through) {
        constexpr unsigned text_bytes = 0xFF;
        std::vector<uint32_t> seen(tag.size() + 1);
        seen[0] = add_state();
        link(from, seen[0]);
        for (size_t k = 1; k <= tag.size(); ++k) seen[k] = add_state();
        const uint32_t end = seen[tag.size()];
        size_t fallback = 0;
        std::vector<std::array<uint16_t, text_bytes>> next(tag.size());
        for (size_t k = 0; k < tag.size(); ++k) {
            for (unsigned byte = 0; byte < text_bytes; ++byte)
                next[k][byte] = k == 0 ? 0 : next[fallback][byte];
            const auto own = static_cast<uint8_t>(tag[k]);
            if (k > 0) fallback = next[fallback][own];
            next[k][own] = static_cast<uint16_t>(k + 1);
            for (unsigned first = 0; first < text_bytes;) {
                unsigned last = first;
                while (last + 1 < text_bytes && next[k][last + 1] == next[k][first]) ++last;
                if (through || next[k][first] < tag.size())
                    link_bytes(seen[k], static_cast<uint8_t>(first), static_cast<uint8_t>(last),
                               seen[next[k][first]]);
                first = last + 1;
            }
        }
        const uint32_t marked = add_state();
        for (size_t k = 0; k < tag.size(); ++k) {
            if (through)
                link_bytes(seen[k], text_bytes, text_bytes, marked);
            else
                link(seen[k], end);
        }
        if (through) {
            uint32_t at = marked;
            for (const char byte : tag) {
                const auto value = static_cast<uint8_t>(byte);
                at = link_bytes(at, value, value, add_state());
            }
            link(at, end);
        }
        return end;
    }

    void mark_trivial() {
        // Backwards would be faster; forwards with a bound is enough, as chains of empty edges are short.
        for (GrammarAutomaton::State& state : result_->states) {
            const GrammarAutomaton::State* at = &state;
            for (int step = 0; step < 16; ++step) {
                if (!at->calls.empty() || !raw_[static_cast<size_t>(at - result_->states.data())].empty())
                    break;
                if (at->final && at->empty.empty()) {
                    state.trivial = true;
                    break;
                }
                if (at->final || at->empty.size() != 1) break;
                at = &result_->states[at->empty.front()];
            }
        }
    }

    // Bytes that no edge tells apart are one class.
    void classify() {
        std::array<bool, 257> starts{};
        starts[0] = true;
        for (const auto& edges : raw_)
            for (const auto& [range, to] : edges) {
                starts[range.first] = true;
                starts[range.last + 1u] = true;
            }
        uint32_t count = 0;
        for (unsigned byte = 0; byte < 256; ++byte) {
            if (starts[byte]) ++count;
            result_->class_of[byte] = static_cast<uint8_t>(count - 1);
        }
        result_->class_count = count;
        for (size_t i = 0; i < raw_.size(); ++i)
            for (const auto& [range, to] : raw_[i])
                result_->states[i].edges.push_back(
                    {result_->class_of[range.first], result_->class_of[range.last], to});
    }

    const GrammarRules& rules_;
    std::unique_ptr<GrammarAutomaton> result_;
    std::vector<bool> productive_, nullable_;
    std::vector<std::vector<uint32_t>> references_;
    std::vector<std::vector<std::pair<ByteRange, uint32_t>>> raw_;
    std::map<Node, uint32_t> repeated_;
};

}  // namespace

std::unique_ptr<const GrammarAutomaton> GrammarRules::compile(Rule root) const {
    return Compiler(*this).run(root);
}

}  // namespace coterie::text
