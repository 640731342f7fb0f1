#include "text/json_text.h"

#include <fmt/format.h>

namespace coterie::text {

void append_json_byte(std::string& out, char byte) {
    const auto value = static_cast<unsigned char>(byte);
    switch (byte) {
        case '"':
            out += "\\\"";
            break;
        case '\\':
            out += "\\\\";
            break;
        case '\n':
            out += "\\n";
            break;
        case '\r':
            out += "\\r";
            break;
        case '\t':
            out += "\\t";
            break;
        case '\b':
            out += "\\b";
            break;
        case '\f':
            out += "\\f";
            break;
        default:
            if (value < 0x20)
                out += fmt::format("\\u{:04x}", value);
            else
                out += byte;
    }
}

}  // namespace coterie::text
