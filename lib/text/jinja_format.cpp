// Python's two ways to fill a format: "%s" % value and "{}".format(value), for the conversions templates use.
#include <algorithm>
#include <cmath>

#include "text/jinja_interpreter.h"
#include "text/jinja_text.h"

namespace coterie::text::jinja {
namespace {

constexpr int64_t widest = 100000;

struct Layout {
    char align = 0;  // < > ^ =
    std::string fill = " ";
    char sign = '-';
    bool alternate = false;
    bool thousands = false;
    int64_t width = 0;
    int64_t precision = -1;
    char type = 0;
};

int64_t read_count(std::string_view text, size_t& at, std::string_view what) {
    int64_t number = 0;
    for (; at < text.size() && is_digit(static_cast<unsigned char>(text[at])); ++at) {
        number = number * 10 + (text[at] - '0');
        if (number > widest) trouble("{}: a width beyond {}", what, widest);
    }
    return number;
}

std::string padded(std::string text, const Layout& layout, char otherwise) {
    const auto length = static_cast<int64_t>(code_point_count(text));
    const int64_t missing = std::max<int64_t>(0, layout.width - length);
    const char align = layout.align ? layout.align : otherwise;
    const auto fill = [&](int64_t count) {
        std::string result;
        for (int64_t i = 0; i < count; ++i) result += layout.fill;
        return result;
    };
    if (align == '<') return text + fill(missing);
    if (align == '^') return fill(missing / 2) + text + fill(missing - missing / 2);
    if (align == '=') {
        size_t sign =
            !text.empty() && std::string_view("+- ").find(text[0]) != std::string_view::npos ? 1 : 0;
        return text.insert(sign, fill(missing));
    }
    return fill(missing) + text;
}

std::string grouped(std::string digits) {
    const size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
    for (size_t at = end; at > 3; at -= 3) digits.insert(at - 3, ",");
    return digits;
}

std::string signed_text(bool negative, std::string digits, const Layout& layout) {
    if (layout.thousands) digits = grouped(std::move(digits));
    if (negative) return "-" + digits;
    return (layout.sign == '-' ? "" : std::string(1, layout.sign)) + digits;
}

std::string whole_text(int64_t number, const Layout& layout) {
    const uint64_t size = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    std::string digits, prefix;
    switch (layout.type) {
        case 'x':
            digits = fmt::format("{:x}", size);
            prefix = "0x";
            break;
        case 'X':
            digits = fmt::format("{:X}", size);
            prefix = "0X";
            break;
        case 'o':
            digits = fmt::format("{:o}", size);
            prefix = "0o";
            break;
        case 'b':
            digits = fmt::format("{:b}", size);
            prefix = "0b";
            break;
        default:
            digits = fmt::format("{}", size);
    }
    return signed_text(number < 0, (layout.alternate ? prefix : "") + digits, layout);
}

std::string real_text(double number, const Layout& layout) {
    const bool negative = std::signbit(number) && !std::isnan(number);
    const double size = std::abs(number);
    const int precision =
        static_cast<int>(layout.precision < 0 ? 6 : std::min<int64_t>(layout.precision, 400));
    std::string digits;
    switch (layout.type) {
        case 'e':
            digits = fmt::format("{:.{}e}", size, precision);
            break;
        case 'E':
            digits = fmt::format("{:.{}E}", size, precision);
            break;
        case 'g':
        case 'G':
        case 'n':
            digits = fmt::format("{:.{}g}", size, std::max(1, precision));
            break;
        case '%':
            digits = fmt::format("{:.{}f}%", size * 100, precision);
            break;
        case 0:
            digits = layout.precision < 0 ? printed_real(size)
                                          : fmt::format("{:.{}g}", size, std::max(1, precision));
            break;
        default:
            digits = fmt::format("{:.{}f}", size, precision);
    }
    return signed_text(negative, std::move(digits), layout);
}

std::string shortened(std::string text, int64_t precision) {
    if (precision < 0) return text;
    const std::vector<size_t> starts = code_point_starts(text);
    if (precision < static_cast<int64_t>(starts.size())) text.resize(starts[static_cast<size_t>(precision)]);
    return text;
}

int64_t whole_of(const Value& value, char type) {
    if (value.is_whole()) return value.as_whole();
    if (value.is_real() && std::abs(value.as_double()) < 9.2e18)
        return static_cast<int64_t>(value.as_double());
    trouble("%{} needs a number, found '{}'", type, type_name(value));
}

std::string percent_item(const Value& value, Layout layout) {
    switch (layout.type) {
        case 's':
            return padded(shortened(printed(value), layout.precision), layout, '>');
        case 'r':
        case 'a':
            return padded(shortened(repr(value), layout.precision), layout, '>');
        case 'c': {
            std::string one;
            if (value.is_whole()) {
                if (value.as_whole() < 0 || value.as_whole() > 0x10FFFF) trouble("%c needs a character");
                append_code_point(one, static_cast<uint32_t>(value.as_whole()));
            } else {
                one = text_argument(value, "%c");
            }
            return padded(std::move(one), layout, '>');
        }
        case 'd':
        case 'i':
        case 'u':
            layout.type = 'd';
            return padded(whole_text(whole_of(value, 'd'), layout), layout, '>');
        case 'x':
        case 'X':
        case 'o':
            return padded(whole_text(whole_of(value, layout.type), layout), layout, '>');
        case 'e':
        case 'E':
        case 'f':
        case 'F':
        case 'g':
        case 'G':
            if (!value.is_number()) trouble("%{} needs a number, found '{}'", layout.type, type_name(value));
            return padded(real_text(value.as_double(), layout), layout, '>');
        default:
            trouble("the format has an unknown conversion '%{}'", layout.type);
    }
}

Layout brace_layout(std::string_view spec) {
    Layout layout;
    size_t at = 0;
    const auto is_align = [&](size_t place) {
        return place < spec.size() && std::string_view("<>^=").find(spec[place]) != std::string_view::npos;
    };
    const size_t fill = spec.empty() ? 0 : code_point_bytes(spec, 0);
    if (!spec.empty() && is_align(fill)) {
        layout.fill = std::string(spec.substr(0, fill));
        layout.align = spec[fill];
        at = fill + 1;
    } else if (is_align(0)) {
        layout.align = spec[at++];
    }
    if (at < spec.size() && std::string_view("+- ").find(spec[at]) != std::string_view::npos)
        layout.sign = spec[at++];
    if (at < spec.size() && spec[at] == '#') layout.alternate = spec[at++] == '#';
    if (at < spec.size() && spec[at] == '0') {
        if (!layout.align) {
            layout.align = '=';
            layout.fill = "0";
        }
        ++at;
    }
    layout.width = read_count(spec, at, "format");
    if (at < spec.size() && spec[at] == ',') layout.thousands = spec[at++] == ',';
    if (at < spec.size() && spec[at] == '.') layout.precision = read_count(spec, ++at, "format");
    if (at < spec.size()) layout.type = spec[at++];
    if (at != spec.size()) trouble("format: '{}' is not a format specification", spec.substr(0, 80));
    return layout;
}

std::string brace_item(const Value& value, std::string_view spec) {
    if (spec.empty()) return printed(value);
    const Layout layout = brace_layout(spec);
    if (value.is_text()) {
        if (layout.type && layout.type != 's')
            trouble("format: the type '{}' does not fit a str", layout.type);
        return padded(shortened(value.as_text(), layout.precision), layout, '<');
    }
    if (!value.is_number()) trouble("format: '{}' takes no format specification", type_name(value));
    const bool real = value.is_real() || (layout.type && std::string_view("eEfFgGn%").find(layout.type) !=
                                                             std::string_view::npos);
    if (real) return padded(real_text(value.as_double(), layout), layout, '>');
    if (layout.type && std::string_view("dxXob").find(layout.type) == std::string_view::npos)
        trouble("format: unknown type '{}'", layout.type);
    return padded(whole_text(value.as_whole(), layout), layout, '>');
}

}  // namespace

std::string percent_formatted(const std::string& format, const Value& values) {
    std::string result;
    const bool several = values.is_sequence(Sequence::tuple);
    size_t used = 0;
    const auto next = [&]() -> const Value& {
        const size_t count = several ? values.items().size() : 1;
        if (used >= count) trouble("the format needs more than {} values", count);
        ++used;
        return several ? values.items()[used - 1] : values;
    };
    for (size_t at = 0; at < format.size(); ++at) {
        if (format[at] != '%') {
            result += format[at];
            continue;
        }
        if (++at >= format.size()) trouble("the format ends after '%'");
        if (format[at] == '%') {
            result += '%';
            continue;
        }
        const Value* named = nullptr;
        if (format[at] == '(') {
            const size_t end = format.find(')', at);
            if (end == std::string::npos || !values.is_dict()) trouble("the format '%(name)' needs a dict");
            named = values.as_dict().find(std::string_view(format).substr(at + 1, end - at - 1));
            if (!named)
                trouble("the dict has no key '{}' for the format", format.substr(at + 1, end - at - 1));
            at = end + 1;
        }
        Layout layout;
        bool zero = false;
        for (; at < format.size() && std::string_view("-+ #0").find(format[at]) != std::string_view::npos;
             ++at) {
            if (format[at] == '-') layout.align = '<';
            if (format[at] == '+') layout.sign = '+';
            if (format[at] == ' ' && layout.sign == '-') layout.sign = ' ';
            if (format[at] == '#') layout.alternate = true;
            if (format[at] == '0') zero = true;
        }
        layout.width = read_count(format, at, "the format");
        if (at < format.size() && format[at] == '.')
            layout.precision = read_count(format, ++at, "the format");
        if (at >= format.size()) trouble("the format ends inside a conversion");
        layout.type = format[at];
        if (zero && !layout.align && std::string_view("srac").find(layout.type) == std::string_view::npos) {
            layout.align = '=';
            layout.fill = "0";
        }
        result += percent_item(named ? *named : next(), layout);
        require_weight(result.size());
    }
    if (several && used < values.items().size())
        trouble("the format uses {} of {} values", used, values.items().size());
    if (!several && used == 0 && !values.is_dict() && !values.is_list())
        trouble("the format has no place for its value");
    return result;
}

std::string brace_formatted(Interpreter& interpreter, const std::string& format, const Arguments& arguments) {
    std::string result;
    size_t automatic = 0;
    for (size_t at = 0; at < format.size();) {
        const char c = format[at];
        if ((c == '{' || c == '}') && at + 1 < format.size() && format[at + 1] == c) {
            result += c;
            at += 2;
            continue;
        }
        if (c == '}') trouble("format: a single '}}'");
        if (c != '{') {
            result += c;
            ++at;
            continue;
        }
        const size_t end = format.find('}', at);
        if (end == std::string::npos) trouble("format: a '{{' is never closed");
        std::string field = format.substr(at + 1, end - at - 1), spec;
        if (field.find('{') != std::string::npos) trouble("format: a field inside a field isn't supported");
        if (const size_t colon = field.find(':'); colon != std::string::npos) {
            spec = field.substr(colon + 1);
            field.resize(colon);
        }
        char conversion = 0;
        if (field.size() > 1 && field[field.size() - 2] == '!') {
            conversion = field.back();
            field.resize(field.size() - 2);
        }
        const size_t rest = std::min(field.find_first_of(".["), field.size());
        const std::string name = field.substr(0, rest);
        Value value;
        if (name.empty() || (name.size() < 6 && name.find_first_not_of("0123456789") == std::string::npos)) {
            const size_t index = name.empty() ? automatic++ : std::stoul(name);
            if (index >= arguments.positional.size())
                trouble("format: there is no value for place {}", index);
            value = arguments.positional[index];
        } else {
            const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                            [&](const auto& one) { return one.first == name; });
            if (found == arguments.named.end()) trouble("format: there is no value named '{}'", name);
            value = found->second;
        }
        for (size_t i = rest; i < field.size();) {
            const bool bracket = field[i] == '[';
            const size_t stop =
                bracket ? field.find(']', i) : std::min(field.find_first_of(".[", i + 1), field.size());
            if (stop == std::string::npos) trouble("format: a '[' is never closed");
            const std::string part = field.substr(i + 1, stop - i - 1);
            const bool number = bracket && !part.empty() && part.size() < 10 &&
                                part.find_first_not_of("0123456789") == std::string::npos;
            value = !bracket ? interpreter.attribute(value, part)
                             : interpreter.item(
                                   value, number ? Value::integer(std::stoll(part)) : Value::text(part));
            i = bracket ? stop + 1 : stop;
        }
        if (conversion == 'r') value = Value::text(repr(value));
        if (conversion == 's') value = Value::text(printed(value));
        result += brace_item(value, spec);
        require_weight(result.size());
        at = end + 1;
    }
    return result;
}

}  // namespace coterie::text::jinja
