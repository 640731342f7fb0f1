#include "text/answer_json.h"

#include <fmt/format.h>

#include "base/json.h"

namespace coterie::text {
namespace {

constexpr size_t max_nesting = 256;
constexpr std::string_view replacement = "\xEF\xBF\xBD";

bool space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}
bool digit(char byte) {
    return byte >= '0' && byte <= '9';
}

unsigned continuation_count(unsigned char byte) {
    if (byte >= 0xC2 && byte <= 0xDF) return 1;
    if (byte >= 0xE0 && byte <= 0xEF) return 2;
    if (byte >= 0xF0 && byte <= 0xF4) return 3;
    return 0;
}

// The second byte decides between overlong forms, surrogates, what lies beyond U+10FFFF, and the rest.
bool second_byte_valid(unsigned char first, unsigned char second) {
    if (first == 0xE0) return second >= 0xA0;
    if (first == 0xED) return second <= 0x9F;
    if (first == 0xF0) return second >= 0x90;
    if (first == 0xF4) return second <= 0x8F;
    return true;
}

}  // namespace

void JsonEscaper::feed(char byte, std::string& out) {
    const auto value = static_cast<unsigned char>(byte);
    if (missing_ > 0) {
        const bool fits =
            (value & 0xC0) == 0x80 &&
            (partial_.size() != 1 || second_byte_valid(static_cast<unsigned char>(partial_.front()), value));
        if (fits) {
            partial_ += byte;
            if (--missing_ == 0) {
                out += partial_;
                partial_.clear();
            }
            return;
        }
        flush(out);
    }
    if (value >= 0x80) {
        missing_ = continuation_count(value);
        if (missing_ == 0)
            out += replacement;
        else
            partial_ = byte;
        return;
    }
    append_json_byte(out, byte);
}

void JsonEscaper::flush(std::string& out) {
    if (missing_ > 0) out += replacement;
    missing_ = 0;
    partial_.clear();
}

std::string json_quoted(std::string_view text) {
    std::string out = "\"";
    JsonEscaper escaper;
    for (char byte : text) escaper.feed(byte, out);
    escaper.flush(out);
    return out + '"';
}

JsonStream::Step JsonStream::end_value() {
    if (nesting_.empty()) return Step::done;
    state_ = State::after;
    return Step::more;
}

void JsonStream::lone_surrogate(std::string& out) {
    if (surrogate_ != 0) out += replacement;
    surrogate_ = 0;
}

void JsonStream::escaped_unit(std::string& out) {
    const auto unit = static_cast<uint32_t>(std::stoul(escape_.substr(1), nullptr, 16));
    if (unit >= 0xDC00 && unit <= 0xDFFF) {
        if (surrogate_ != 0)
            out += fmt::format("\\u{:04x}\\u{:04x}", surrogate_, unit);
        else
            out += replacement;
        surrogate_ = 0;
        return;
    }
    lone_surrogate(out);
    if (unit >= 0xD800 && unit <= 0xDBFF)
        surrogate_ = unit;
    else
        out += "\\" + escape_;
}

JsonStream::Step JsonStream::string_byte(char byte, std::string& out) {
    if (escape_.empty()) {
        if (byte == '\\') {
            escaper_.flush(out);
            escape_ = "\\";
        } else if (byte == '"') {
            lone_surrogate(out);
            escaper_.flush(out);
            out += '"';
            if (is_key_) {
                is_key_ = false;
                state_ = State::colon;
                return Step::more;
            }
            return end_value();
        } else {
            lone_surrogate(out);
            escaper_.feed(byte, out);
        }
        return Step::more;
    }
    if (escape_ == "\\") {
        if (byte == 'u') {
            escape_ = "u";
            return Step::more;
        }
        escape_.clear();
        lone_surrogate(out);
        if (std::string_view("\"\\/bfnrt").find(byte) != std::string_view::npos) {
            out += '\\';
            out += byte;
        } else {  // not JSON: "\'" means ', and "\d" surely a backslash and a d
            if (byte != '\'') out += "\\\\";
            escaper_.feed(byte, out);
        }
        return Step::more;
    }
    if (!digit(byte) && !(byte >= 'a' && byte <= 'f') && !(byte >= 'A' && byte <= 'F')) {
        const std::string begun = std::move(escape_);
        escape_.clear();
        lone_surrogate(out);
        out += "\\\\" + begun;
        return string_byte(byte, out);
    }
    escape_ += byte;
    if (escape_.size() == 5) {
        escaped_unit(out);
        escape_.clear();
    }
    return Step::more;
}

bool JsonStream::number_byte(char byte) {
    const bool is_digit = digit(byte), is_e = byte == 'e' || byte == 'E';
    switch (digits_) {
        case Digits::minus:
            if (!is_digit) return false;
            digits_ = byte == '0' ? Digits::zero : Digits::whole;
            return true;
        case Digits::zero:
        case Digits::whole:
            if (is_digit && digits_ == Digits::whole) return true;
            if (byte != '.' && !is_e) return false;
            digits_ = byte == '.' ? Digits::point : Digits::e;
            return true;
        case Digits::point:
        case Digits::fraction:
            if (is_digit) {
                digits_ = Digits::fraction;
                return true;
            }
            if (digits_ == Digits::point || !is_e) return false;
            digits_ = Digits::e;
            return true;
        case Digits::e:
            if (byte == '+' || byte == '-') {
                digits_ = Digits::sign;
                return true;
            }
            [[fallthrough]];
        case Digits::sign:
        case Digits::exponent:
            if (is_digit) digits_ = Digits::exponent;
            return is_digit;
    }
    return false;
}

JsonStream::Step JsonStream::start_value(char byte, std::string& out) {
    if (space(byte)) {
        if (!comma_.empty())
            comma_ += byte;
        else if (!nesting_.empty())
            out += byte;
        return Step::more;
    }
    if (byte != '}' && byte != ']') {
        out += comma_;
        comma_.clear();
    }
    if (byte == '{' || byte == '[') {
        if (nesting_.size() >= max_nesting) return Step::bad;
        nesting_ += byte;
        out += byte;
        state_ = byte == '{' ? State::first_key : State::first_item;
        return Step::more;
    }
    if (byte == '"') {
        out += byte;
        state_ = State::string;
        return Step::more;
    }
    if (byte == '-' || digit(byte)) {
        digits_ = byte == '-' ? Digits::minus : byte == '0' ? Digits::zero : Digits::whole;
        out += byte;
        state_ = State::number;
        return Step::more;
    }
    constexpr std::string_view words[][2] = {{"true", "true"}, {"false", "false"}, {"null", "null"},
                                             {"True", "true"}, {"False", "false"}, {"None", "null"}};
    for (const auto& word : words) {
        if (word[0].front() != byte) continue;
        literal_ = word[0];
        literal_value_ = word[1];
        literal_at_ = 1;
        state_ = State::literal;
        return Step::more;
    }
    return Step::bad;
}

JsonStream::Step JsonStream::feed(char byte, std::string& out) {
    switch (state_) {
        case State::string:
            return string_byte(byte, out);
        case State::value:
            return start_value(byte, out);
        case State::literal:
            if (literal_[literal_at_] != byte) return Step::bad;
            if (++literal_at_ < literal_.size()) return Step::more;
            out += literal_value_;
            return end_value();
        case State::number:
            if (number_byte(byte)) {
                out += byte;
                return Step::more;
            }
            if (digits_ == Digits::minus || digits_ == Digits::point || digits_ == Digits::e ||
                digits_ == Digits::sign)
                return Step::bad;
            if (nesting_.empty()) return Step::done_before;
            state_ = State::after;
            return feed(byte, out);
        case State::first_item:
            if (byte == ']') break;
            state_ = space(byte) ? state_ : State::value;
            return start_value(byte, out);
        case State::first_key:
        case State::key:
            if (space(byte)) {
                (comma_.empty() ? out : comma_) += byte;
                return Step::more;
            }
            if (byte == '}') break;
            if (byte != '"') return Step::bad;
            out += comma_;
            comma_.clear();
            is_key_ = true;
            out += byte;
            state_ = State::string;
            return Step::more;
        case State::colon:
            if (byte != ':' && !space(byte)) return Step::bad;
            out += byte;
            if (byte == ':') state_ = State::value;
            return Step::more;
        case State::after:
            if (space(byte)) {
                out += byte;
                return Step::more;
            }
            if (byte == ',') {
                comma_ = ",";
                state_ = nesting_.back() == '{' ? State::key : State::first_item;
                return Step::more;
            }
            break;
    }
    if (nesting_.empty() || byte != (nesting_.back() == '{' ? '}' : ']')) return Step::bad;
    comma_.clear();
    nesting_.pop_back();
    out += byte;
    return end_value();
}

void JsonStream::close(std::string& out) {
    if (state_ == State::string) {
        lone_surrogate(out);
        escaper_.flush(out);
        out += '"';
        if (is_key_) out += ":null";
    } else if (state_ == State::number) {
        if (digits_ == Digits::minus || digits_ == Digits::point || digits_ == Digits::e ||
            digits_ == Digits::sign)
            out += '0';
    } else if (state_ == State::literal) {
        out += literal_value_;
    } else if (state_ == State::colon) {
        out += ":null";
    } else if (state_ == State::value) {
        out += "null";
    }
    for (; !nesting_.empty(); nesting_.pop_back()) out += nesting_.back() == '{' ? '}' : ']';
}

}  // namespace coterie::text
