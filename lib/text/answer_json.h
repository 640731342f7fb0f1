// JSON read byte by byte and passed on as valid JSON: the arguments of a call, while they are being written.
// Small sins of models are repaired on the way (raw control characters in strings, unknown escapes, trailing
// commas, Python's True/False/None, lone surrogates, invalid UTF-8); others make it `bad`. `close` completes
// a broken value.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace coterie::text {

// Raw bytes into the inside of a JSON string. Keeps half a code point until it is whole; invalid bytes become
// U+FFFD.
class JsonEscaper {
  public:
    void feed(char byte, std::string& out);
    void flush(std::string& out);  // the text is over

  private:
    std::string partial_;
    unsigned missing_ = 0;
};

std::string json_quoted(std::string_view text);

class JsonStream {
  public:
    enum class Step : uint8_t {
        more,
        done,
        done_before,
        bad
    };  // done_before: the byte belongs to what follows
    Step feed(char byte, std::string& out);
    void close(std::string& out);
    bool started() const { return state_ != State::value || !nesting_.empty(); }

  private:
    enum class State : uint8_t { value, string, number, literal, first_key, key, colon, first_item, after };
    Step end_value();
    Step start_value(char byte, std::string& out);
    Step string_byte(char byte, std::string& out);
    bool number_byte(char byte);
    void escaped_unit(std::string& out);
    void lone_surrogate(std::string& out);

    State state_ = State::value;
    std::string nesting_;  // '{' and '[' that are open
    bool is_key_ = false;
    std::string comma_;  // a comma and the white space behind it, until a value proves that it isn't trailing
    std::string escape_;  // an escape sequence under way, without its backslash; "\\" alone when just begun
    uint32_t surrogate_ = 0;  // a high surrogate that waits for its other half
    JsonEscaper escaper_;
    std::string_view literal_, literal_value_;
    size_t literal_at_ = 0;
    enum class Digits : uint8_t {
        minus,
        zero,
        whole,
        point,
        fraction,
        e,
        sign,
        exponent
    } digits_ = Digits::minus;
};

}  // namespace coterie::text
