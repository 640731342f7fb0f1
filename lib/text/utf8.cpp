// See utf8.h. The table of well-formed byte sequences is that of the Unicode standard, chapter 3.9.
#include "text/utf8.h"

#include <cstring>

namespace coterie::text {

Utf8Character first_character(std::string_view text) {
    const auto byte = [&](size_t i) { return uint32_t(uint8_t(text[i])); };
    const uint32_t lead = byte(0);
    if (lead < 0x80) return {lead, 1, true, false};
    if (lead < 0xc2 || lead > 0xf4) return {};
    const uint32_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    // Only the second byte has bounds of its own: no overlong forms, no surrogates, nothing above U+10FFFF.
    uint32_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint32_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    uint32_t code_point = lead & (0x7fu >> length);
    for (uint32_t i = 1; i < length; ++i) {
        if (i == text.size()) return {0xfffd, i, false, true};
        if (byte(i) < low || byte(i) > high) return {0xfffd, i, false, false};
        code_point = code_point << 6 | (byte(i) & 0x3f);
        low = 0x80, high = 0xbf;
    }
    return {code_point, length, true, false};
}

// Bytes of plain ASCII at the front, eight at a time.
static size_t ascii_prefix(std::string_view text) {
    size_t n = 0;
    while (n + 8 <= text.size()) {
        uint64_t word;
        std::memcpy(&word, text.data() + n, 8);
        if (word & 0x8080808080808080u) break;
        n += 8;
    }
    while (n < text.size() && uint8_t(text[n]) < 0x80) ++n;
    return n;
}

bool is_valid_utf8(std::string_view text) {
    for (;;) {
        text.remove_prefix(ascii_prefix(text));
        if (text.empty()) return true;
        const Utf8Character c = first_character(text);
        if (!c.valid) return false;
        text.remove_prefix(c.length);
    }
}

// Appends the whole characters of text to out and returns the cut one at its end, if there is one.
static std::string_view append_repaired(std::string& out, std::string_view text) {
    for (;;) {
        const size_t ascii = ascii_prefix(text);
        out.append(text.substr(0, ascii));
        text.remove_prefix(ascii);
        if (text.empty()) return text;
        const Utf8Character c = first_character(text);
        if (c.truncated) return text;
        out.append(c.valid ? text.substr(0, c.length) : replacement_character);
        text.remove_prefix(c.length);
    }
}

std::string repaired_utf8(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    if (!append_repaired(out, text).empty()) out.append(replacement_character);
    return out;
}

void append_utf8(std::string& text, uint32_t c) {
    const auto tail = [&](int shift) { text.push_back(char(0x80 | (c >> shift & 0x3f))); };
    if (c < 0x80) {
        text.push_back(char(c));
    } else if (c < 0x800) {
        text.push_back(char(0xc0 | c >> 6)), tail(0);
    } else if (c < 0x10000) {
        text.push_back(char(0xe0 | c >> 12)), tail(6), tail(0);
    } else {
        text.push_back(char(0xf0 | (c >> 18 & 7))), tail(12), tail(6), tail(0);
    }
}

std::string Utf8Stream::push(std::string_view bytes) {
    std::string out;
    if (pending_.empty()) {
        pending_ = append_repaired(out, bytes);
    } else {
        pending_.append(bytes);
        pending_ = std::string(append_repaired(out, pending_));
    }
    return out;
}

std::string Utf8Stream::flush() {
    std::string out(pending_.empty() ? std::string_view() : replacement_character);
    pending_.clear();
    return out;
}

}  // namespace coterie::text
