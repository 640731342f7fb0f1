// Structured output: a grammar compiled once, and a matcher that tells for every step which tokens may come
// next. JSON Schemas, GBNF texts, regular expressions and tool calls all become the same thing: rules over
// bytes, run as a set of threads with stacks. Sets of threads and their answers are remembered, so a typical
// step looks its mask up. Not here: how schemas (json_schema.h) and call markup (answer_grammar.h) are turned
// into rules.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace coterie::text {

struct GrammarAutomaton;  // grammar_automaton.h
class GrammarStates;      // grammar_states.h

// Immutable; share it between sequences and threads.
class Grammar {
  public:
    explicit Grammar(std::unique_ptr<const GrammarAutomaton> automaton);
    ~Grammar();
    // GBNF: rules `name ::= ...`; the first to match is `root`. Throws a Failure that names the line.
    static std::shared_ptr<const Grammar> from_gbnf(std::string_view text);
    // A regular expression (no look-around, no back references) that the whole text must match.
    static std::shared_ptr<const Grammar> from_regex(std::string_view pattern);

    const GrammarAutomaton& automaton() const { return *automaton_; }
    // Whether the grammar derives exactly this text.
    bool derives(std::string_view text) const;

  private:
    std::unique_ptr<const GrammarAutomaton> automaton_;
};

// A vocabulary sorted for masks. Immutable; build it once per model. End tokens are allowed where the grammar
// can finish, tokens without text never. A control token (such as <|channel|>) stands for markup that a
// grammar asks for by name; it is no way to write the same letters in a text. `control` may be empty: no
// token is one.
class TokenTrie {
  public:
    TokenTrie(std::vector<std::string> tokens, std::vector<uint32_t> end_tokens,
              const std::vector<bool>& control = {});

    struct Node {
        uint32_t skip;   // the node after this subtree
        uint32_t first;  // its tokens are ids[first .. first + count)
        uint16_t depth;  // the root's children have depth 0
        uint16_t count;
        uint8_t byte;
    };
    struct Tree {
        std::vector<Node> nodes;  // in preorder
        std::vector<uint32_t> ids;
    };
    // Tokens that can stand inside a JSON string as they are, apart from all others.
    const Tree& plain() const { return plain_; }
    const Tree& other() const { return other_; }
    // Sets the bits of the plain tokens of at most `most` code points.
    void set_plain(uint64_t most, std::span<uint32_t> bits) const;

    size_t size() const { return tokens_.size(); }
    size_t mask_words() const { return (tokens_.size() + 31) / 32; }
    // What a grammar sees: the token's text, after a byte 0xFF if it is a control token.
    std::string_view token(uint32_t id) const { return tokens_[id]; }
    const std::vector<uint32_t>& end_tokens() const { return end_tokens_; }
    bool is_end(uint32_t id) const;
    uint32_t deepest() const { return deepest_; }

  private:
    static constexpr size_t counted_masks = 24;
    std::vector<std::string> tokens_;
    std::vector<uint32_t> end_tokens_;
    Tree plain_, other_;
    std::vector<std::pair<uint32_t, uint32_t>> by_code_points_;  // (code points, id) of plain tokens
    std::vector<std::vector<uint32_t>> plain_masks_;             // [n]: plain tokens of at most n code points
    uint32_t deepest_ = 0;
};

// Where one sequence stands in a grammar. Copies are cheap and share what they learn.
class GrammarMatcher {
  public:
    GrammarMatcher(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> tokens);

    // Bit i of word i / 32 says whether token i may come next. `bits` has tokens().mask_words() words, all
    // overwritten.
    void mask(std::span<uint32_t> bits);
    // Takes a token; false (and nothing changes) if the grammar doesn't allow it.
    bool accept(uint32_t token);
    bool accept_text(std::string_view text);
    bool can_finish() const;  // the text so far is whole
    bool finished() const;    // an end token was accepted, or nothing but one could follow
    GrammarMatcher clone() const { return *this; }
    void restart();
    const TokenTrie& tokens() const { return *tokens_; }

  private:
    void refresh();
    std::shared_ptr<const Grammar> grammar_;
    std::shared_ptr<const TokenTrie> tokens_;
    std::shared_ptr<GrammarStates> states_;
    uint32_t state_ = 0;
    bool ended_ = false;
};

}  // namespace coterie::text
