// Strings as Python sees them: sequences of code points held as UTF-8. A byte that is not UTF-8 counts as one
// code point and is kept as it is, so nothing a template or a message holds is lost.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace coterie::text::jinja {

size_t code_point_bytes(std::string_view text, size_t at);  // of the code point that starts at `at`
size_t code_point_count(std::string_view text);
uint32_t code_point_at(std::string_view text, size_t at);      // 0xDC00 + byte for a byte that is not UTF-8
std::vector<size_t> code_point_starts(std::string_view text);  // and the end as the last element
void append_code_point(std::string& text, uint32_t code_point);

bool is_space(uint32_t code_point);      // str.isspace of one character
bool is_printable(uint32_t code_point);  // str.isprintable of one character, nearly
std::string_view stripped(std::string_view text, bool left, bool right);
std::string_view stripped_of(std::string_view text, std::string_view characters, bool left, bool right);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalized(std::string_view text);
std::string titled(std::string_view text);               // str.title: a letter after a non-letter is upper
std::string titled_words(std::string_view text);         // the filter: words begin after spaces, - ( { [ <
bool all_cased(std::string_view text, bool want_upper);  // str.isupper / str.islower
bool is_letter(std::string_view text, size_t at);
bool is_digit(uint32_t code_point);

std::string replaced(std::string_view text, std::string_view from, std::string_view to, int64_t count = -1);
std::vector<std::string> split_at_spaces(std::string_view text, int64_t limit, bool from_right);
std::vector<std::string> split_at(std::string_view text, std::string_view separator, int64_t limit,
                                  bool from_right);
std::vector<std::string> split_lines(std::string_view text, bool keep_ends);

}  // namespace coterie::text::jinja
