// Cuts a template into text, tags and the tokens inside tags, with whitespace control as chat templates
// expect it: trim_blocks and lstrip_blocks on, one newline at the end of the source dropped.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace coterie::text::jinja {

struct Token {
    enum class Kind {
        data,         // text between tags
        print_begin,  // {{
        print_end,    // }}
        block_begin,  // {%
        block_end,    // %}
        name,
        string,
        integer,
        real,
        sign,  // an operator or bracket, spelled in `text`
        end,
    };
    Kind kind = Kind::end;
    std::string text;
    int line = 1;
};

// Throws Trouble and leaves the line it happened at in `line`.
std::vector<Token> tokenize(std::string_view source, int& line);

}  // namespace coterie::text::jinja
