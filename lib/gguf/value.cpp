#include "gguf/value.h"

#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/failure.h"

namespace coterie::gguf {
namespace {

static_assert(std::endian::native == std::endian::little,
              "GGUF values are read in place: little-endian machines only");

template <typename T>
T number_at(std::span<const std::byte> bytes, uint64_t offset = 0) {
    T value{};
    if (bytes.size() < offset || bytes.size() - offset < sizeof(T))
        fail(Status::bad_model,
             "a metadata value is shorter than its type: was the file changed while it was read?");
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
}

constexpr uint64_t array_header_bytes = 12;  // u32 element type, u64 count

// Calls use(number) with the value in its own C++ type; false for text and arrays.
template <typename Use>
bool with_number(ValueType type, std::span<const std::byte> bytes, Use&& use) {
    switch (type) {
        case ValueType::u8:
            use(number_at<uint8_t>(bytes));
            return true;
        case ValueType::i8:
            use(number_at<int8_t>(bytes));
            return true;
        case ValueType::u16:
            use(number_at<uint16_t>(bytes));
            return true;
        case ValueType::i16:
            use(number_at<int16_t>(bytes));
            return true;
        case ValueType::u32:
            use(number_at<uint32_t>(bytes));
            return true;
        case ValueType::i32:
            use(number_at<int32_t>(bytes));
            return true;
        case ValueType::u64:
            use(number_at<uint64_t>(bytes));
            return true;
        case ValueType::i64:
            use(number_at<int64_t>(bytes));
            return true;
        case ValueType::f32:
            use(number_at<float>(bytes));
            return true;
        case ValueType::f64:
            use(number_at<double>(bytes));
            return true;
        case ValueType::boolean:
            use(number_at<uint8_t>(bytes) != 0);
            return true;
        case ValueType::string:
        case ValueType::array:
            return false;
    }
    return false;
}

}  // namespace

bool is_value_type(uint32_t number) {
    return number <= uint32_t(ValueType::f64);
}

const char* value_type_name(ValueType type) {
    constexpr const char* names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                     "bool", "string", "array", "u64", "i64", "f64"};
    return is_value_type(uint32_t(type)) ? names[uint32_t(type)] : "unknown";
}

int value_bytes(ValueType type) {
    constexpr int bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return is_value_type(uint32_t(type)) ? bytes[uint32_t(type)] : 0;
}

std::optional<uint64_t> Value::as_uint() const {
    std::optional<uint64_t> result;
    with_number(type_, bytes_, [&](auto number) {
        using T = decltype(number);
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
            if (number >= T(0)) result = uint64_t(number);
    });
    return result;
}

std::optional<int64_t> Value::as_int() const {
    std::optional<int64_t> result;
    with_number(type_, bytes_, [&](auto number) {
        using T = decltype(number);
        if constexpr (std::is_same_v<T, uint64_t>) {
            if (number <= uint64_t(std::numeric_limits<int64_t>::max())) result = int64_t(number);
        } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
            result = int64_t(number);
        }
    });
    return result;
}

std::optional<double> Value::as_float() const {
    std::optional<double> result;
    with_number(type_, bytes_, [&](auto number) {
        if constexpr (!std::is_same_v<decltype(number), bool>) result = double(number);
    });
    return result;
}

std::optional<bool> Value::as_bool() const {
    if (type_ == ValueType::boolean) return number_at<uint8_t>(bytes_) != 0;
    if (const std::optional<uint64_t> number = as_uint(); number && *number <= 1) return *number == 1;
    return std::nullopt;
}

std::optional<std::string_view> Value::as_string() const {
    if (type_ != ValueType::string) return std::nullopt;
    const uint64_t length = number_at<uint64_t>(bytes_);
    if (length > bytes_.size() - 8)
        fail(Status::bad_model,
             "a metadata text is longer than its place: was the file changed while it was read?");
    return std::string_view(reinterpret_cast<const char*>(bytes_.data()) + 8, length);
}

ValueType Value::element_type() const {
    if (!is_array()) return ValueType::boolean;
    const uint32_t number = number_at<uint32_t>(bytes_);
    if (!is_value_type(number))
        fail(Status::bad_model, "a metadata array has elements of unknown type {}", number);
    return ValueType(number);
}

uint64_t Value::size() const {
    return is_array() ? number_at<uint64_t>(bytes_, 4) : 0;
}

void Value::each(const std::function<bool(const Value& element)>& visit) const {
    if (!is_array()) return;
    const ValueType type = element_type();
    const uint64_t count = size();
    std::span<const std::byte> rest = bytes_.subspan(array_header_bytes);
    for (uint64_t i = 0; i < count; ++i) {
        uint64_t length = uint64_t(value_bytes(type));
        if (length == 0 || length > rest.size()) length = encoded_bytes(type, rest, "a metadata array", 1);
        if (!visit(Value(type, rest.first(length)))) return;
        rest = rest.subspan(length);
    }
}

uint64_t encoded_bytes(ValueType type, std::span<const std::byte> bytes, std::string_view where, int depth) {
    const auto need = [&](uint64_t wanted, const char* what) {
        if (wanted > bytes.size())
            fail(Status::bad_model,
                 "{} needs {} bytes for {} but only {} are left in the file: it is cut short or damaged",
                 where, wanted, what, bytes.size());
    };
    if (const int fixed = value_bytes(type); fixed != 0) {
        need(uint64_t(fixed), value_type_name(type));
        if (type == ValueType::boolean && uint8_t(bytes[0]) > 1)
            fail(Status::bad_model,
                 "{} is a bool with the value {}, but only 0 and 1 are valid: the file is damaged", where,
                 uint8_t(bytes[0]));
        return uint64_t(fixed);
    }
    if (type == ValueType::string) {
        need(8, "the length of a text");
        const uint64_t length = number_at<uint64_t>(bytes);
        bytes = bytes.subspan(8);
        need(length, "a text");
        return 8 + length;
    }
    if (depth >= max_array_depth)
        fail(Status::bad_model, "{} has arrays nested more than {} deep", where, max_array_depth);
    need(array_header_bytes, "the start of an array");
    const uint32_t number = number_at<uint32_t>(bytes);
    const uint64_t count = number_at<uint64_t>(bytes, 4);
    if (!is_value_type(number))
        fail(Status::bad_model, "{} is an array of elements of unknown type {}: the file is damaged", where,
             number);
    const ValueType element = ValueType(number);
    const uint64_t least = element == ValueType::string  ? 8
                           : element == ValueType::array ? array_header_bytes
                                                         : uint64_t(value_bytes(element));
    bytes = bytes.subspan(array_header_bytes);
    if (count > bytes.size() / least)
        fail(Status::bad_model,
             "{} says it is an array of {} elements of type {}, but only {} bytes are left in the file: it "
             "is cut short "
             "or damaged",
             where, count, value_type_name(element), bytes.size());
    if (least != 8 && element != ValueType::array && element != ValueType::boolean)
        return array_header_bytes + count * least;
    uint64_t length = array_header_bytes;
    for (uint64_t i = 0; i < count; ++i) {
        const uint64_t taken = encoded_bytes(element, bytes, where, depth + 1);
        length += taken;
        bytes = bytes.subspan(taken);
    }
    return length;
}

}  // namespace coterie::gguf
