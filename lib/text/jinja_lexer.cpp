#include "text/jinja_lexer.h"

#include <algorithm>

#include "text/jinja_text.h"
#include "text/jinja_value.h"

namespace coterie::text::jinja {
namespace {

// All newlines become \n, and the last one is dropped.
std::string with_plain_newlines(std::string_view source) {
    std::string result;
    result.reserve(source.size());
    for (size_t i = 0; i < source.size(); ++i) {
        if (source[i] == '\r') {
            result += '\n';
            if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
        } else {
            result += source[i];
        }
    }
    if (!result.empty() && result.back() == '\n') result.pop_back();
    return result;
}

bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_part(char c) {
    return is_name_start(c) || (c >= '0' && c <= '9');
}

class Lexer {
  public:
    Lexer(std::string_view source, int& line)
        : source_(with_plain_newlines(source)), text_(source_), line_(line) {
        line_ = 1;
    }

    std::vector<Token> tokens() {
        while (at_ < text_.size()) read_data();
        add(Token::Kind::end, "");
        return std::move(tokens_);
    }

  private:
    void add(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

    void advance(size_t to) {
        line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                             text_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
        at_ = to;
    }

    void skip_spaces() {
        size_t to = at_;
        while (to < text_.size() && is_space(code_point_at(text_, to))) to += code_point_bytes(text_, to);
        advance(to);
    }

    bool starts(std::string_view what, size_t at) const { return text_.substr(at, what.size()) == what; }

    // Text up to the next tag, shortened by what the tag's start asks for, then the tag itself.
    void read_data() {
        size_t tag = at_;
        while (tag < text_.size()) {
            tag = std::min(text_.find('{', tag), text_.size());
            if (tag < text_.size() && (starts("{{", tag) || starts("{%", tag) || starts("{#", tag))) break;
            if (tag < text_.size()) ++tag;
        }
        std::string_view data = text_.substr(at_, tag - at_);
        if (tag >= text_.size()) {
            add_data(data);
            advance(text_.size());
            return;
        }
        const char kind = text_[tag + 1];
        const char control = tag + 2 < text_.size() ? text_[tag + 2] : ' ';
        add_data(shortened(data, kind, control));
        advance(tag);
        const size_t inside = tag + 2 + (control == '-' || control == '+' ? 1 : 0);
        if (kind == '#') {
            read_comment(inside);
        } else if (kind == '%') {
            if (!read_raw(inside)) read_tag(inside, Token::Kind::block_begin, Token::Kind::block_end, "%}");
        } else {
            read_tag(inside, Token::Kind::print_begin, Token::Kind::print_end, "}}");
        }
    }

    void add_data(std::string_view data) {
        if (!data.empty()) add(Token::Kind::data, std::string(data));
    }

    std::string_view shortened(std::string_view data, char kind, char control) const {
        if (control == '-') return stripped(data, false, true);
        if (control == '+' || kind == '{') return data;
        const size_t line_break = data.rfind('\n');
        if (line_break == std::string_view::npos && !line_starting_) return data;
        const size_t begin = line_break == std::string_view::npos ? 0 : line_break + 1;
        return stripped(data.substr(begin), true, false).empty() ? data.substr(0, begin) : data;
    }

    // After the end of a block or comment: `-` eats all spaces, otherwise one newline goes (not with `+`).
    void finish_tag(char control, size_t after) {
        advance(after);
        if (control == '-') {
            skip_spaces();
        } else if (control != '+' && at_ < text_.size() && text_[at_] == '\n') {
            advance(at_ + 1);
        }
        line_starting_ = at_ > 0 && text_[at_ - 1] == '\n';
    }

    void read_comment(size_t inside) {
        const size_t end = text_.find("#}", inside);
        if (end == std::string_view::npos) trouble("a comment is opened by '{{#' and never closed by '#}}'");
        const char before = end > inside ? text_[end - 1] : ' ';
        finish_tag(before == '-' || before == '+' ? before : ' ', end + 2);
    }

    size_t past_spaces(size_t at) const {
        while (at < text_.size() && is_space(code_point_at(text_, at))) at += code_point_bytes(text_, at);
        return at;
    }

    bool read_raw(size_t inside) {
        size_t at = past_spaces(inside);
        if (!starts("raw", at)) return false;
        at = past_spaces(at + 3);
        const bool strip = starts("-%}", at);
        if (!strip && !starts("%}", at)) return false;
        size_t begin = at + (strip ? 3 : 2);
        if (strip) begin = past_spaces(begin);
        for (size_t tag = text_.find("{%", begin); tag != std::string_view::npos;
             tag = text_.find("{%", tag + 2)) {
            size_t end = tag + 2;
            const char control =
                end < text_.size() && (text_[end] == '-' || text_[end] == '+') ? text_[end] : ' ';
            end = past_spaces(control == ' ' ? end : end + 1);
            if (!starts("endraw", end)) continue;
            end = past_spaces(end + 6);
            const char closing =
                end < text_.size() && (text_[end] == '-' || text_[end] == '+') ? text_[end] : ' ';
            if (closing != ' ') ++end;
            if (!starts("%}", end)) continue;
            advance(begin);
            line_starting_ = begin > 0 && text_[begin - 1] == '\n';
            add_data(shortened(text_.substr(begin, tag - begin), '%', control));
            finish_tag(closing, end + 2);
            return true;
        }
        trouble("'raw' is never closed by 'endraw'");
    }

    void read_tag(size_t inside, Token::Kind begin, Token::Kind end, std::string_view closing) {
        add(begin, "");
        advance(inside);
        std::string open;  // brackets that are not closed yet: inside them `}}` is not the end
        for (;;) {
            skip_spaces();
            if (at_ >= text_.size()) trouble("a tag is never closed by '{}'", closing);
            if (open.empty()) {
                const bool controlled = text_[at_] == '-' || (text_[at_] == '+' && closing == "%}");
                if (starts(closing, at_ + (controlled ? 1 : 0))) {
                    add(end, "");
                    const char control = controlled ? text_[at_] : ' ';
                    const size_t after = at_ + (controlled ? 3 : 2);
                    if (closing == "%}") {
                        finish_tag(control, after);
                    } else {
                        advance(after);
                        if (control == '-') skip_spaces();
                        line_starting_ = text_[at_ - 1] == '\n';
                    }
                    return;
                }
            }
            read_token(open);
        }
    }

    void read_token(std::string& open) {
        const char c = text_[at_];
        if (c >= '0' && c <= '9') return read_number();
        if (c == '\'' || c == '"') return read_string(c);
        if (is_name_start(c)) {
            size_t to = at_;
            while (to < text_.size() && is_name_part(text_[to])) ++to;
            add(Token::Kind::name, std::string(text_.substr(at_, to - at_)));
            return advance(to);
        }
        for (std::string_view two : {"//", "**", "==", "!=", ">=", "<="}) {
            if (starts(two, at_)) {
                add(Token::Kind::sign, std::string(two));
                return advance(at_ + 2);
            }
        }
        if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos)
            trouble("unexpected character '{}'", text_.substr(at_, code_point_bytes(text_, at_)));
        if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
        if (c == ')' || c == ']' || c == '}') {
            if (open.empty() || open.back() != c) trouble("unexpected '{}'", c);
            open.pop_back();
        }
        add(Token::Kind::sign, std::string(1, c));
        advance(at_ + 1);
    }

    void read_number() {
        const auto digits = [&](size_t at, auto accepts) {
            while (at < text_.size() && (accepts(text_[at]) || (text_[at] == '_' && at + 1 < text_.size() &&
                                                                accepts(text_[at + 1]))))
                ++at;
            return at;
        };
        const auto decimal = [](char c) { return c >= '0' && c <= '9'; };
        const auto hexadecimal = [](char c) {
            return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        };
        size_t to = at_;
        bool real = false;
        const char kind = at_ + 1 < text_.size() && text_[at_] == '0' ? ascii_lower(text_[at_ + 1]) : ' ';
        if (kind == 'x') {
            to = digits(at_ + 2, hexadecimal);
        } else if (kind == 'b' || kind == 'o') {
            to = digits(at_ + 2, decimal);
        } else {
            to = digits(at_, decimal);
            // A dot belongs to the number only if digits follow it and the number is not itself after a dot:
            // x.0.1
            const bool after_dot =
                !tokens_.empty() && tokens_.back().kind == Token::Kind::sign && tokens_.back().text == ".";
            if (!after_dot && to + 1 < text_.size() && text_[to] == '.' && decimal(text_[to + 1])) {
                real = true;
                to = digits(to + 1, decimal);
            }
            if (!after_dot && to < text_.size() && (text_[to] == 'e' || text_[to] == 'E')) {
                size_t exponent = to + 1;
                if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
                if (exponent < text_.size() && decimal(text_[exponent])) {
                    real = true;
                    to = digits(exponent, decimal);
                }
            }
        }
        std::string text(text_.substr(at_, to - at_));
        text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
        add(real ? Token::Kind::real : Token::Kind::integer, std::move(text));
        advance(to);
    }

    static char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

    void read_string(char quote) {
        size_t end = at_ + 1;
        while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
        if (end >= text_.size()) trouble("a string is never closed by {}", quote);
        add(Token::Kind::string, unescaped(text_.substr(at_ + 1, end - at_ - 1)));
        advance(end + 1);
    }

    // Python's escapes; an unknown one keeps its backslash.
    static std::string unescaped(std::string_view text) {
        std::string result;
        for (size_t i = 0; i < text.size(); ++i) {
            if (text[i] != '\\' || i + 1 >= text.size()) {
                result += text[i];
                continue;
            }
            const char c = text[++i];
            switch (c) {
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
                case '\n':
                    break;
                case '\\':
                case '\'':
                case '"':
                    result += c;
                    break;
                case 'x':
                    append_hexadecimal(result, text, i, 2);
                    break;
                case 'u':
                    append_hexadecimal(result, text, i, 4);
                    break;
                case 'U':
                    append_hexadecimal(result, text, i, 8);
                    break;
                default:
                    if (c >= '0' && c <= '7') {
                        uint32_t value = 0;
                        size_t digits = 0;
                        for (; digits < 3 && i < text.size() && text[i] >= '0' && text[i] <= '7';
                             ++i, ++digits)
                            value = value * 8 + static_cast<uint32_t>(text[i] - '0');
                        --i;
                        append_code_point(result, value);
                    } else {
                        result += '\\';
                        result += c;
                    }
            }
        }
        return result;
    }

    static void append_hexadecimal(std::string& result, std::string_view text, size_t& i, size_t digits) {
        const std::string number(text.substr(i + 1, digits));
        if (number.size() != digits ||
            number.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
            trouble("the escape \\{}{} needs {} hexadecimal digits", text[i], number, digits);
        const unsigned long value = std::stoul(number, nullptr, 16);
        if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
            trouble("the escape \\{}{} is not a character", text[i], number);
        append_code_point(result, static_cast<uint32_t>(value));
        i += digits;
    }

    std::string source_;
    std::string_view text_;
    int& line_;
    size_t at_ = 0;
    bool line_starting_ = true;
    std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, int& line) {
    return Lexer(source, line).tokens();
}

}  // namespace coterie::text::jinja
