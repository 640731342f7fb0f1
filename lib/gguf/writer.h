// Writes a GGUF file (version 3) as a stream: metadata and tensor table first, then the bytes of each tensor
// in the order they were declared, in pieces of any size. The file has its name only when it is whole: until
// finish() it is PATH.tmp, and it is removed when anything fails or the writer is destroyed.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "gguf/file.h"

namespace coterie::gguf {

template <typename T>
constexpr ValueType value_type_of() {
    if constexpr (std::is_same_v<T, bool>)
        return ValueType::boolean;
    else if constexpr (std::is_same_v<T, uint8_t>)
        return ValueType::u8;
    else if constexpr (std::is_same_v<T, int8_t>)
        return ValueType::i8;
    else if constexpr (std::is_same_v<T, uint16_t>)
        return ValueType::u16;
    else if constexpr (std::is_same_v<T, int16_t>)
        return ValueType::i16;
    else if constexpr (std::is_same_v<T, uint32_t>)
        return ValueType::u32;
    else if constexpr (std::is_same_v<T, int32_t>)
        return ValueType::i32;
    else if constexpr (std::is_same_v<T, uint64_t>)
        return ValueType::u64;
    else if constexpr (std::is_same_v<T, int64_t>)
        return ValueType::i64;
    else if constexpr (std::is_same_v<T, float>)
        return ValueType::f32;
    else
        return ValueType::f64;
}

template <typename T>
concept Number = std::is_same_v<T, bool> || std::is_same_v<T, uint8_t> || std::is_same_v<T, int8_t> ||
    std::is_same_v<T, uint16_t> || std::is_same_v<T, int16_t> || std::is_same_v<T, uint32_t> ||
    std::is_same_v<T, int32_t> || std::is_same_v<T, uint64_t> || std::is_same_v<T, int64_t> ||
    std::is_same_v<T, float> || std::is_same_v<T, double>;

class Writer {
  public:
    // sparse: no tensor data are written; the file has its true size and takes no room on the disk (data read
    // as 0).
    explicit Writer(std::string path, bool sparse = false);
    ~Writer();
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    // Metadata, in the order they are first set; setting a key again replaces its value. The C++ type decides
    // the type in the file: set("x", uint32_t(3)). "general.alignment" (a u32) moves the data as well.
    template <Number T>
    void set(std::string_view key, T value) {
        set_encoded(key, value_type_of<T>(),
                    std::string(reinterpret_cast<const char*>(&value), sizeof value));
    }
    void set(std::string_view key, std::string_view text);
    void set(std::string_view key, const char* text) { set(key, std::string_view(text)); }
    template <Number T>
    requires(!std::is_same_v<T, bool>) void set(std::string_view key, const std::vector<T>& values) {
        set_array(key, value_type_of<T>(), values.size(), values.data(), values.size() * sizeof(T));
    }
    void set(std::string_view key, const std::vector<std::string>& texts);
    void set(std::string_view key, const std::vector<std::string_view>& texts);
    void set(std::string_view key, const Value& value);
    void remove(std::string_view key);
    // All of a file's metadata, but what describes its being split (split.*), and what keep refuses.
    void copy_metadata(const File& file, const std::function<bool(std::string_view key)>& keep = {});

    void add_tensor(std::string_view name, Type type, std::span<const uint64_t> shape);
    uint64_t data_bytes() const;  // of the tensors declared so far

    // The next bytes of the tensors, in order; the first call writes the header. A call may end anywhere.
    void append(std::span<const std::byte> bytes);
    // Throws invalid_argument if tensor data are missing. After it the file is at its path.
    void finish();

  private:
    struct Item {
        std::string key;
        ValueType type;
        std::string bytes;
    };
    void set_encoded(std::string_view key, ValueType type, std::string bytes);
    void set_array(std::string_view key, ValueType type, uint64_t count, const void* data, size_t bytes);
    void write_header();
    void write(const void* data, uint64_t bytes);
    [[noreturn]] void give_up(const char* what);
    void discard();

    std::string path_, temporary_;
    bool sparse_;
    int file_ = -1;
    bool finished_ = false;
    std::vector<Item> items_;
    std::vector<Tensor> tensors_;  // offset: from the start of the data
    uint64_t alignment_ = 32;
    uint64_t position_ = 0;  // bytes written so far
    uint64_t data_offset_ = 0;
    size_t current_ = 0;            // the tensor being written
    uint64_t current_written_ = 0;  // of it
};

}  // namespace coterie::gguf
