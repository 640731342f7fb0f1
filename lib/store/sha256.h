// SHA-256 (FIPS 180-4), fed piece by piece: the name of every blob in a model store. Uses the processor's own
// instructions where there are any.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace coterie::store {

class Sha256 {
  public:
    Sha256();
    void add(std::span<const std::byte> bytes);
    std::string hex();  // ends the message: call once, 64 lower-case digits

  private:
    using Compress = void (*)(std::array<uint32_t, 8>& state, const std::byte* blocks, size_t count);
    std::array<uint32_t, 8> state_;
    std::array<std::byte, 64> rest_{};
    size_t held_ = 0;
    uint64_t length_ = 0;
    Compress compress_;
};

std::string sha256_hex(std::string_view text);
bool is_hex_digest(std::string_view text);  // 64 hexadecimal digits

}  // namespace coterie::store
