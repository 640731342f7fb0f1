// 16-bit floats as stored in files: IEEE half (F16) and bfloat16 (BF16), converted bit-exactly with round to
// nearest even. Plain C++; vector code uses the machine's own instructions.
#pragma once
#include <bit>
#include <cstdint>

namespace coterie {

inline float half_to_float(uint16_t h) {
    const uint32_t sign = uint32_t(h & 0x8000u) << 16;
    const uint32_t exponent = (h >> 10) & 0x1f;
    const uint32_t fraction = h & 0x3ff;
    if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
    // Subnormal: fraction * 2^-24, exact in float.
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(float(fraction) * 0x1p-24f));
}

inline uint16_t float_to_half(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint16_t sign = uint16_t((bits >> 16) & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return uint16_t(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));  // NaN stays NaN
    if (magnitude >= 0x477ff000u) return uint16_t(sign | 0x7c00u);       // rounds to infinity
    if (magnitude < 0x38800000u) {                                       // subnormal or zero
        // Adding 0.5 puts the 10 fraction bits at the bottom of the mantissa, rounded to nearest even by the
        // FPU.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
        return uint16_t(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f)));
    }
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return uint16_t(sign | ((rounded - (112u << 23)) >> 13));
}

inline float bfloat_to_float(uint16_t b) {
    return std::bit_cast<float>(uint32_t(b) << 16);
}

inline uint16_t float_to_bfloat(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t((bits >> 16) | 0x40u);  // quiet NaN
    return uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace coterie
