#include <algorithm>
#include <charconv>

#include "text/go_template_syntax.h"
#include "text/jinja_text.h"

namespace coterie::text::go {
namespace {

using jinja::trouble;
using jinja::Value;

constexpr int max_depth = 100;

bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}
bool is_name_part(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
}

class Parser {
  public:
    Parser(std::string_view source, int& line)
        : text_(source), line_(line), program_(std::make_shared<Program>()) {
        line_ = 1;
    }

    std::shared_ptr<Program> whole() {
        std::string end;
        program_->body = body(end);
        if (!end.empty()) trouble("'{}' closes nothing", end);
        const bool answers = program_->fields.count("Messages") || program_->fields.count("Response");
        if (!answers) program_->body.push_back(response());
        bool seen = false;
        mark(program_->body, seen);
        return program_;
    }

  private:
    struct Level {
        explicit Level(int& of) : depth(of) {
            if (++depth > max_depth) trouble("the template is nested more than {} levels deep", max_depth);
        }
        ~Level() { --depth; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;
        int& depth;
    };

    static std::unique_ptr<Node> response() {
        auto node = std::make_unique<Node>();
        node->kind = Node::Kind::action;
        Operand operand;
        operand.fields = {"Response"};
        node->pipeline.commands.push_back({{operand}});
        return node;
    }

    static bool mentions_response(const Pipeline& pipeline) {
        for (const Command& command : pipeline.commands) {
            for (const Operand& word : command.words) {
                if (word.kind == Operand::Kind::dot &&
                    std::count(word.fields.begin(), word.fields.end(), "Response"))
                    return true;
                if (word.inside && mentions_response(*word.inside)) return true;
            }
        }
        return false;
    }

    static void mark(Body& body, bool& seen) {
        for (auto& node : body) {
            node->after_response = seen;
            if (node->kind == Node::Kind::action && mentions_response(node->pipeline)) seen = true;
            mark(node->body, seen);
            mark(node->otherwise, seen);
        }
    }

    void advance(size_t to) {
        line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                             text_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
        at_ = to;
    }

    // --- text and tags
    // --------------------------------------------------------------------------------------

    // Up to an `end`, `else` or the end of the text; which one is left in `end`.
    Body body(std::string& end) {
        Level level(depth_);
        Body nodes;
        for (;;) {
            const size_t tag = std::min(text_.find("{{", at_), text_.size());
            std::string_view data = text_.substr(at_, tag - at_);
            const bool trims = tag + 3 < text_.size() && text_[tag + 2] == '-' && is_blank(text_[tag + 3]);
            while (trims && !data.empty() && is_blank(data.back())) data.remove_suffix(1);
            if (!data.empty()) {
                auto node = std::make_unique<Node>();
                node->line = line_;
                node->text = std::string(data);
                nodes.push_back(std::move(node));
            }
            advance(tag);
            if (tag == text_.size()) return nodes;
            advance(tag + (trims ? 3 : 2));
            skip_blanks();
            if (text_.substr(at_, 2) == "/*") {
                const size_t close = text_.find("*/", at_ + 2);
                if (close == std::string_view::npos) trouble("a comment is never closed by '*/'");
                advance(close + 2);
                close_tag();
                continue;
            }
            const size_t before = at_;
            const std::string word = peek_word();
            if (word == "end" || word == "else") {
                advance(at_ + word.size());
                end = word;
                return nodes;
            }
            at_ = before;
            statement(nodes, word);
        }
    }

    void statement(Body& nodes, const std::string& word) {
        auto node = std::make_unique<Node>();
        node->line = line_;
        if (word == "if" || word == "range" || word == "with") {
            advance(at_ + word.size());
            node->kind = word == "if"      ? Node::Kind::branch
                         : word == "range" ? Node::Kind::range
                                           : Node::Kind::with;
            branch(*node);
        } else if (word == "define" || word == "block") {
            advance(at_ + word.size());
            const std::string name = quoted_name();
            if (word == "block") node->pipeline = pipeline();
            close_tag();
            std::string end;
            program_->templates[name] = body(end);
            if (end != "end") trouble("'{}' is never closed by 'end'", word);
            close_tag();
            if (word == "define") return;
            node->kind = Node::Kind::call;
            node->text = name;
        } else if (word == "template") {
            advance(at_ + word.size());
            node->kind = Node::Kind::call;
            node->text = quoted_name();
            skip_blanks();
            if (!at_close()) node->pipeline = pipeline();
            close_tag();
        } else if (word == "break" || word == "continue") {
            advance(at_ + word.size());
            node->kind = word == "break" ? Node::Kind::stop_loop : Node::Kind::next_round;
            close_tag();
        } else {
            node->kind = Node::Kind::action;
            node->pipeline = pipeline();
            close_tag();
        }
        nodes.push_back(std::move(node));
    }

    void branch(Node& node) {
        Level level(depth_);
        node.pipeline = pipeline();
        close_tag();
        std::string end;
        node.body = body(end);
        if (end == "else") {
            skip_blanks();
            const std::string word = peek_word();
            if (word == "if" || word == "with") {
                auto inner = std::make_unique<Node>();
                inner->line = line_;
                inner->kind = word == "if" ? Node::Kind::branch : Node::Kind::with;
                advance(at_ + word.size());
                branch(*inner);
                node.otherwise.push_back(std::move(inner));
                return;  // the inner one has taken the `end`
            }
            close_tag();
            end.clear();
            node.otherwise = body(end);
        }
        if (end != "end") trouble("an 'if', 'range' or 'with' is never closed by 'end'");
        close_tag();
    }

    void skip_blanks() {
        size_t to = at_;
        while (to < text_.size() && is_blank(text_[to])) ++to;
        advance(to);
    }

    std::string peek_word() const {
        size_t to = at_;
        while (to < text_.size() && is_name_part(text_[to])) ++to;
        return std::string(text_.substr(at_, to - at_));
    }

    bool at_close() const {
        return text_.substr(at_, 2) == "}}" ||
               (text_.substr(at_, 3) == "-}}" && at_ > 0 && is_blank(text_[at_ - 1]));
    }

    void close_tag() {
        skip_blanks();
        if (!at_close()) trouble("expected '}}}}', found '{}'", text_.substr(at_, 12));
        const bool trims = text_[at_] == '-';
        advance(at_ + (trims ? 3 : 2));
        if (trims) skip_blanks();
    }

    std::string quoted_name() {
        skip_blanks();
        if (at_ >= text_.size() || (text_[at_] != '"' && text_[at_] != '`'))
            trouble("expected the name of a template in quotes");
        return string();
    }

    // --- pipelines
    // ------------------------------------------------------------------------------------------

    Pipeline pipeline() {
        Level level(depth_);
        Pipeline result;
        declaration(result);
        for (;;) {
            Command command;
            for (;;) {
                skip_blanks();
                if (at_ >= text_.size()) trouble("a tag is never closed by '}}'");
                if (at_close() || text_[at_] == ')' || text_[at_] == '|') break;
                command.words.push_back(operand());
            }
            if (command.words.empty()) trouble("expected a value, found '{}'", text_.substr(at_, 12));
            result.commands.push_back(std::move(command));
            if (text_[at_] != '|') return result;
            advance(at_ + 1);
        }
    }

    // $a := or $a, $b := or $a =
    void declaration(Pipeline& result) {
        skip_blanks();
        const size_t begin = at_;
        const int line = line_;
        std::vector<std::string> names;
        while (at_ < text_.size() && text_[at_] == '$') {
            size_t to = at_ + 1;
            while (to < text_.size() && is_name_part(text_[to])) ++to;
            names.emplace_back(text_.substr(at_, to - at_));
            advance(to);
            skip_blanks();
            if (at_ >= text_.size() || text_[at_] != ',') break;
            advance(at_ + 1);
            skip_blanks();
        }
        const bool declares = text_.substr(at_, 2) == ":=";
        const bool assigns = !declares && at_ < text_.size() && text_[at_] == '=';
        if (names.empty() || names.size() > 2 || (!declares && !assigns)) {
            at_ = begin;
            line_ = line;
            return;
        }
        advance(at_ + (declares ? 2 : 1));
        result.variables = std::move(names);
        result.declares = declares;
    }

    Operand operand() {
        Operand result;
        const char c = text_[at_];
        if (c == '(') {
            advance(at_ + 1);
            result.kind = Operand::Kind::parenthesis;
            result.inside = std::make_shared<Pipeline>(pipeline());
            if (at_ >= text_.size() || text_[at_] != ')') trouble("expected ')'");
            advance(at_ + 1);
        } else if (c == '"' || c == '`' || c == '\'') {
            result.kind = Operand::Kind::constant;
            result.value = Value::text(string());
            return result;
        } else if (c == '$') {
            size_t to = at_ + 1;
            while (to < text_.size() && is_name_part(text_[to])) ++to;
            result.kind = Operand::Kind::variable;
            result.name = std::string(text_.substr(at_, to - at_));
            advance(to);
        } else if (c == '.' && !(at_ + 1 < text_.size() && is_name_part(text_[at_ + 1]))) {
            advance(at_ + 1);
            return result;
        } else if ((c >= '0' && c <= '9') || c == '-' || c == '+') {
            result.kind = Operand::Kind::constant;
            result.value = number();
            return result;
        } else if (c != '.') {
            const std::string word = peek_word();
            if (word.empty()) trouble("unexpected '{}'", text_.substr(at_, 1));
            advance(at_ + word.size());
            if (word == "true" || word == "false" || word == "nil") {
                result.kind = Operand::Kind::constant;
                result.value = word == "nil" ? Value::none() : Value::boolean(word == "true");
                return result;
            }
            result.kind = Operand::Kind::function;
            result.name = word;
            return result;
        }
        while (at_ + 1 < text_.size() && text_[at_] == '.' && is_name_part(text_[at_ + 1])) {
            advance(at_ + 1);
            result.fields.push_back(peek_word());
            advance(at_ + result.fields.back().size());
            program_->fields.insert(result.fields.back());
        }
        return result;
    }

    Value number() {
        size_t to = at_ + 1;
        while (to < text_.size() && (is_name_part(text_[to]) || text_[to] == '.')) ++to;
        const std::string digits(
            text_.substr(at_ + (text_[at_] == '+' ? 1 : 0), to - at_ - (text_[at_] == '+' ? 1 : 0)));
        advance(to);
        int64_t whole = 0;
        const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), whole);
        if (read.ec == std::errc() && read.ptr == digits.data() + digits.size()) return Value::integer(whole);
        double real = 0;
        const auto other = std::from_chars(digits.data(), digits.data() + digits.size(), real);
        if (other.ec != std::errc() || other.ptr != digits.data() + digits.size())
            trouble("'{}' is not a number", digits);
        return Value::real(real);
    }

    std::string string() {
        const char quote = text_[at_];
        std::string result;
        size_t i = at_ + 1;
        for (; i < text_.size() && text_[i] != quote; ++i) {
            if (text_[i] != '\\' || quote == '`') {
                result += text_[i];
                continue;
            }
            if (++i >= text_.size()) break;
            switch (text_[i]) {
                case 'n':
                    result += '\n';
                    break;
                case 't':
                    result += '\t';
                    break;
                case 'r':
                    result += '\r';
                    break;
                case 'a':
                    result += '\a';
                    break;
                case 'b':
                    result += '\b';
                    break;
                case 'f':
                    result += '\f';
                    break;
                case 'v':
                    result += '\v';
                    break;
                case 'x':
                    code_point(result, i, 2);
                    break;
                case 'u':
                    code_point(result, i, 4);
                    break;
                case 'U':
                    code_point(result, i, 8);
                    break;
                default:
                    result += text_[i];
            }
        }
        if (i >= text_.size()) trouble("a string is never closed by {}", quote);
        advance(i + 1);
        return result;
    }

    void code_point(std::string& result, size_t& i, size_t digits) {
        const std::string number(text_.substr(i + 1, digits));
        if (number.size() != digits ||
            number.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
            trouble("an escape needs {} hexadecimal digits", digits);
        const unsigned long value = std::stoul(number, nullptr, 16);
        if (value > 0x10FFFF) trouble("an escape is not a character");
        if (digits == 2) {
            result += static_cast<char>(value);
        } else {
            jinja::append_code_point(result, static_cast<uint32_t>(value));
        }
        i += digits;
    }

    std::string_view text_;
    int& line_;
    size_t at_ = 0;
    int depth_ = 0;
    std::shared_ptr<Program> program_;
};

}  // namespace

std::shared_ptr<Program> parse(std::string_view source, int& line) {
    return Parser(source, line).whole();
}

}  // namespace coterie::text::go
