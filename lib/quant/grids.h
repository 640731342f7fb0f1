// The codebooks of the IQ formats: entry i holds the magnitudes of 8 (IQ1, IQ2) or 4 (IQ3) weights, one byte
// each, the first weight in the lowest byte. IQ1's bytes are signed (-1, 0, 1).
#pragma once
#include <array>
#include <bit>
#include <cstdint>

namespace coterie::quant {

extern const std::array<uint64_t, 256> iq2xxs_grid;
extern const std::array<uint64_t, 512> iq2xs_grid;
extern const std::array<uint64_t, 1024> iq2s_grid;
extern const std::array<uint64_t, 2048> iq1_grid;
extern const std::array<uint32_t, 256> iq3xxs_grid;
extern const std::array<uint32_t, 512> iq3s_grid;

// Eight sign bits from the seven stored: the eighth makes their number even.
inline uint8_t even_signs(uint32_t seven) {
    return uint8_t(seven | ((std::popcount(seven) & 1u) << 7));
}

}  // namespace coterie::quant
