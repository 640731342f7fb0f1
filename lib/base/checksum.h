// A 64-bit checksum against damage, not against forgery: of the pieces added, in order. The same pieces give
// the same value on every machine of this byte order; cut differently they may not.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace coterie {

class Checksum {
  public:
    explicit Checksum(uint64_t seed = 0) : value_(seed ^ 0x243f6a8885a308d3ull) {}

    void add(std::span<const std::byte> piece) {
        mix(piece.size());
        size_t at = 0;
        for (; at + 8 <= piece.size(); at += 8) {
            uint64_t word;
            std::memcpy(&word, piece.data() + at, 8);
            mix(word);
        }
        uint64_t tail = 0;
        if (at < piece.size()) std::memcpy(&tail, piece.data() + at, piece.size() - at);
        mix(tail);
    }
    uint64_t value() const {
        uint64_t v = value_;
        v = (v ^ (v >> 32)) * 0xd6e8feb86659fd93ull;
        return v ^ (v >> 32);
    }

  private:
    void mix(uint64_t word) {
        value_ = (value_ ^ word) * 0x9e3779b97f4a7c15ull;
        value_ ^= value_ >> 29;
    }
    uint64_t value_;
};

}  // namespace coterie
