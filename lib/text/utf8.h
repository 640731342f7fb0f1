// UTF-8 as it arrives: whole or cut anywhere, valid or not. Each maximal ill-formed subpart counts as one
// U+FFFD, as the Unicode standard recommends and as Python's bytes.decode("utf-8", "replace") does it. No
// Unicode properties here.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace coterie::text {

inline constexpr std::string_view replacement_character = "\xef\xbf\xbd";  // U+FFFD

// The first character of a text that isn't empty.
struct Utf8Character {
    uint32_t code_point = 0xfffd;
    uint32_t length = 1;     // bytes of the character, or of the ill-formed subpart
    bool valid = false;      // false: ill-formed, or cut
    bool truncated = false;  // the text ends inside a character that is valid so far
};
Utf8Character first_character(std::string_view text);

bool is_valid_utf8(std::string_view text);

// The text with every ill-formed subpart replaced by U+FFFD.
std::string repaired_utf8(std::string_view text);

void append_utf8(std::string& text, uint32_t code_point);

// Turns a stream of bytes into a stream of whole characters: the outputs, joined, equal repaired_utf8 of the
// inputs, joined.
class Utf8Stream {
  public:
    std::string push(std::string_view bytes);
    std::string flush();  // what is left can't become a character any more

  private:
    std::string pending_;  // at most 3 bytes: the beginning of a character
};

}  // namespace coterie::text
