// One metadata value of a GGUF file: a typed view of its encoded bytes, which lie in the mapped file (or in a
// writer's buffer) and outlive it. Nothing is copied: a vocabulary of 250,000 strings costs no memory until
// read. The bytes were validated when the file was opened; reading past them is a Failure all the same.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

namespace coterie::gguf {

// The numbers are the file format's.
enum class ValueType : uint32_t {
    u8 = 0,
    i8 = 1,
    u16 = 2,
    i16 = 3,
    u32 = 4,
    i32 = 5,
    f32 = 6,
    boolean = 7,
    string = 8,
    array = 9,
    u64 = 10,
    i64 = 11,
    f64 = 12,
};

bool is_value_type(uint32_t number);
const char* value_type_name(ValueType type);  // "u32", "string", ...
int value_bytes(ValueType type);              // of a fixed-size type; 0 for string and array

class Value {
  public:
    Value() = default;
    // bytes: exactly the encoding: a number; u64 length and text; or u32 element type, u64 count and
    // elements.
    Value(ValueType type, std::span<const std::byte> bytes) : type_(type), bytes_(bytes) {}

    ValueType type() const { return type_; }
    bool is_array() const { return type_ == ValueType::array; }
    std::span<const std::byte> bytes() const { return bytes_; }

    // A number or text; empty when the type is another one or the value does not fit.
    std::optional<uint64_t> as_uint() const;  // any integer type, not negative
    std::optional<int64_t> as_int() const;    // any integer type
    std::optional<double> as_float() const;   // any number
    std::optional<bool> as_bool() const;      // a boolean, or an integer 0 or 1
    std::optional<std::string_view> as_string() const;

    // Of an array; element_type() is boolean and size() 0 for anything else (ask is_array() first).
    ValueType element_type() const;
    uint64_t size() const;
    // Calls visit for each element in order until it returns false.
    void each(const std::function<bool(const Value& element)>& visit) const;

  private:
    ValueType type_ = ValueType::u8;
    std::span<const std::byte> bytes_;
};

// Bytes the encoding of a value of this type takes at the front of bytes, checked to lie inside them. Throws
// bad_model with `where` (what is being read) otherwise. Arrays may be nested max_array_depth deep.
inline constexpr int max_array_depth = 4;
uint64_t encoded_bytes(ValueType type, std::span<const std::byte> bytes, std::string_view where,
                       int depth = 0);

}  // namespace coterie::gguf
