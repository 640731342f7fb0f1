#include "text/jinja_text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <memory>

namespace coterie::text::jinja {
namespace {

bool is_ascii(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

char ascii_upper(char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
}
char ascii_lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

// PCRE2 knows Unicode's simple case pairs and its properties: one pattern replaces tables of our own.
class Pattern {
  public:
    explicit Pattern(const char* pattern) {
        int error = 0;
        PCRE2_SIZE offset = 0;
        code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_DOTALL | PCRE2_MATCH_INVALID_UTF, &error,
                                  &offset, nullptr));
        if (code_) data_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    }

    bool matches(std::string_view text) const {
        return code_ && data_ &&
               pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0,
                           PCRE2_ANCHORED, data_.get(), nullptr) > 0;
    }

    std::string substituted(std::string_view text, const char* replacement) const {
        std::string result(text.size() * 2 + 16, '\0');
        PCRE2_SIZE size = result.size();
        const int count =
            !code_ ? -1
                   : pcre2_substitute(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0,
                                      PCRE2_SUBSTITUTE_GLOBAL | PCRE2_SUBSTITUTE_EXTENDED, nullptr, nullptr,
                                      reinterpret_cast<PCRE2_SPTR>(replacement), PCRE2_ZERO_TERMINATED,
                                      reinterpret_cast<PCRE2_UCHAR*>(result.data()), &size);
        if (count < 0) return std::string(text);
        result.resize(size);
        return result;
    }

  private:
    struct Release {
        void operator()(pcre2_code* code) const { pcre2_code_free(code); }
        void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
    };
    std::unique_ptr<pcre2_code, Release> code_;
    std::unique_ptr<pcre2_match_data, Release> data_;
};

// Match data is scratch: one pattern per thread.
const Pattern& letter_pattern() {
    static thread_local const Pattern pattern("\\p{L}");
    return pattern;
}

std::string with_case(std::string_view text, bool to_upper) {
    if (is_ascii(text)) {
        std::string result(text);
        std::transform(result.begin(), result.end(), result.begin(), to_upper ? ascii_upper : ascii_lower);
        return result;
    }
    static thread_local const Pattern cased("[\\p{Ll}\\p{Lu}\\p{Lt}]+");
    if (to_upper)
        return cased.substituted(replaced(text, "ß", "SS"),
                                 "\\U$0");  // the one common pair that is not one to one
    return cased.substituted(text, "\\L$0");
}

}  // namespace

size_t code_point_bytes(std::string_view text, size_t at) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const size_t bytes = lead < 0x80                   ? 1
                         : lead >= 0xF0 && lead < 0xF5 ? 4
                         : lead >= 0xE0 && lead < 0xF0 ? 3
                         : lead >= 0xC2 && lead < 0xE0 ? 2
                                                       : 1;
    if (at + bytes > text.size()) return 1;
    for (size_t i = 1; i < bytes; ++i) {
        if ((static_cast<unsigned char>(text[at + i]) & 0xC0) != 0x80) return 1;
    }
    return bytes;
}

size_t code_point_count(std::string_view text) {
    size_t count = 0;
    for (size_t at = 0; at < text.size(); at += code_point_bytes(text, at)) ++count;
    return count;
}

uint32_t code_point_at(std::string_view text, size_t at) {
    const size_t bytes = code_point_bytes(text, at);
    const auto lead = static_cast<unsigned char>(text[at]);
    if (bytes == 1) return lead < 0x80 ? lead : 0xDC00u + lead;
    uint32_t code_point = lead & (0x7Fu >> bytes);
    for (size_t i = 1; i < bytes; ++i)
        code_point = code_point << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3Fu);
    return code_point;
}

std::vector<size_t> code_point_starts(std::string_view text) {
    std::vector<size_t> starts;
    starts.reserve(text.size() + 1);
    for (size_t at = 0; at < text.size(); at += code_point_bytes(text, at)) starts.push_back(at);
    starts.push_back(text.size());
    return starts;
}

void append_code_point(std::string& text, uint32_t c) {
    if (c < 0x80) {
        text += static_cast<char>(c);
    } else if (c < 0x800) {
        text += static_cast<char>(0xC0 | c >> 6);
        text += static_cast<char>(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        text += static_cast<char>(0xE0 | c >> 12);
        text += static_cast<char>(0x80 | (c >> 6 & 0x3F));
        text += static_cast<char>(0x80 | (c & 0x3F));
    } else {
        text += static_cast<char>(0xF0 | (c >> 18 & 0x07));
        text += static_cast<char>(0x80 | (c >> 12 & 0x3F));
        text += static_cast<char>(0x80 | (c >> 6 & 0x3F));
        text += static_cast<char>(0x80 | (c & 0x3F));
    }
}

bool is_space(uint32_t c) {
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
           c == 0x3000;
}

bool is_printable(uint32_t c) {
    if (c == ' ') return true;
    if (c < 0x20 || is_space(c)) return false;
    const bool control = (c >= 0x7F && c <= 0xA0) || c == 0xAD || (c >= 0x200B && c <= 0x200F) ||
                         (c >= 0x202A && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
                         (c >= 0xD800 && c <= 0xF8FF) || c >= 0xE0000;
    return !control;
}

bool is_digit(uint32_t c) {
    return c >= '0' && c <= '9';
}

std::string_view stripped(std::string_view text, bool left, bool right) {
    while (left && !text.empty() && is_space(code_point_at(text, 0)))
        text.remove_prefix(code_point_bytes(text, 0));
    while (right && !text.empty()) {
        size_t at = text.size() - 1;
        while (at > 0 && text.size() - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
        if (at + code_point_bytes(text, at) != text.size() || !is_space(code_point_at(text, at))) break;
        text = text.substr(0, at);
    }
    return text;
}

std::string_view stripped_of(std::string_view text, std::string_view characters, bool left, bool right) {
    const auto listed = [&](std::string_view one) {
        for (size_t at = 0; at < characters.size(); at += code_point_bytes(characters, at)) {
            if (characters.substr(at, code_point_bytes(characters, at)) == one) return true;
        }
        return false;
    };
    while (left && !text.empty() && listed(text.substr(0, code_point_bytes(text, 0))))
        text.remove_prefix(code_point_bytes(text, 0));
    while (right && !text.empty()) {
        size_t at = text.size() - 1;
        while (at > 0 && text.size() - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
        if (at + code_point_bytes(text, at) != text.size()) at = text.size() - 1;
        if (!listed(text.substr(at))) break;
        text = text.substr(0, at);
    }
    return text;
}

std::string upper(std::string_view text) {
    return with_case(text, true);
}
std::string lower(std::string_view text) {
    return with_case(text, false);
}

std::string capitalized(std::string_view text) {
    if (text.empty()) return {};
    const size_t first = code_point_bytes(text, 0);
    return upper(text.substr(0, first)) + lower(text.substr(first));
}

bool is_letter(std::string_view text, size_t at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter_pattern().matches(text.substr(at, code_point_bytes(text, at)));
}

std::string titled(std::string_view text) {
    std::string result;
    for (size_t at = 0; at < text.size();) {
        if (!is_letter(text, at)) {
            const size_t bytes = code_point_bytes(text, at);
            result += text.substr(at, bytes);
            at += bytes;
            continue;
        }
        size_t end = at;
        while (end < text.size() && is_letter(text, end)) end += code_point_bytes(text, end);
        result += capitalized(text.substr(at, end - at));
        at = end;
    }
    return result;
}

std::string titled_words(std::string_view text) {
    const auto separates = [&](size_t at) {
        return std::string_view("-({[<").find(text[at]) != std::string_view::npos ||
               is_space(code_point_at(text, at));
    };
    std::string result;
    for (size_t at = 0; at < text.size();) {
        size_t end = at;
        while (end < text.size() && separates(end)) end += code_point_bytes(text, end);
        result += text.substr(at, end - at);
        at = end;
        while (end < text.size() && !separates(end)) end += code_point_bytes(text, end);
        result += capitalized(text.substr(at, end - at));
        at = end;
    }
    return result;
}

bool all_cased(std::string_view text, bool want_upper) {
    return (want_upper ? upper(text) : lower(text)) == text &&
           (want_upper ? lower(text) : upper(text)) != text;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to, int64_t count) {
    std::string result;
    size_t at = 0;
    if (from.empty()) {  // between all code points, as Python does
        while (at < text.size() && count != 0) {
            const size_t bytes = code_point_bytes(text, at);
            result.append(to).append(text.substr(at, bytes));
            at += bytes;
            --count;
        }
        if (count != 0) result += to;
        return result.append(text.substr(at));
    }
    for (; count != 0; --count) {
        const size_t found = text.find(from, at);
        if (found == std::string_view::npos) break;
        result.append(text.substr(at, found - at)).append(to);
        at = found + from.size();
    }
    return result.append(text.substr(at));
}

std::vector<std::string> split_at_spaces(std::string_view text, int64_t limit, bool from_right) {
    struct Word {
        size_t begin, end;
    };
    std::vector<Word> words;
    for (size_t at = 0; at < text.size();) {
        const bool space = is_space(code_point_at(text, at));
        const size_t bytes = code_point_bytes(text, at);
        if (!space && (words.empty() || words.back().end != at)) words.push_back({at, at});
        if (!space) words.back().end = at + bytes;
        at += bytes;
    }
    // Beyond the limit the rest stays one piece, with its spaces inside and at the far end.
    if (limit >= 0 && words.size() > static_cast<size_t>(limit)) {
        const auto kept = static_cast<std::ptrdiff_t>(limit);
        if (from_right) {
            const size_t end = (words.end() - kept - 1)->end;
            words.erase(words.begin(), words.end() - kept - 1);
            words.front() = {0, end};
        } else {
            (words.begin() + kept)->end = text.size();
            words.erase(words.begin() + kept + 1, words.end());
        }
    }
    std::vector<std::string> parts;
    for (const Word& word : words) parts.emplace_back(text.substr(word.begin, word.end - word.begin));
    return parts;
}

std::vector<std::string> split_at(std::string_view text, std::string_view separator, int64_t limit,
                                  bool from_right) {
    std::vector<std::string> parts;
    while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
        const size_t found = from_right ? text.rfind(separator) : text.find(separator);
        if (found == std::string_view::npos) break;
        if (from_right) {
            parts.emplace_back(text.substr(found + separator.size()));
            text = text.substr(0, found);
        } else {
            parts.emplace_back(text.substr(0, found));
            text.remove_prefix(found + separator.size());
        }
    }
    parts.emplace_back(text);
    if (from_right) std::reverse(parts.begin(), parts.end());
    return parts;
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
    const auto line_break = [&](size_t at) -> size_t {
        const uint32_t c = code_point_at(text, at);
        if (c == '\r' && at + 1 < text.size() && text[at + 1] == '\n') return 2;
        const bool breaks =
            (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
        return breaks ? code_point_bytes(text, at) : 0;
    };
    std::vector<std::string> lines;
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
        const size_t bytes = line_break(at);
        if (bytes == 0) {
            at += code_point_bytes(text, at);
            continue;
        }
        lines.emplace_back(text.substr(begin, at - begin + (keep_ends ? bytes : 0)));
        at += bytes;
        begin = at;
    }
    if (begin < text.size()) lines.emplace_back(text.substr(begin));
    return lines;
}

}  // namespace coterie::text::jinja
