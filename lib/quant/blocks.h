// The packed blocks of the quantised formats, byte for byte as in a GGUF file. Every consumer of raw weights
// (decode, encode, scan, the device kernels) shares these. A block's bytes may lie at any address: copy one
// with memcpy before reading its members. F16 scales are raw bits (base/half.h). Invariant: each size equals
// the traits table's.
//
// Small formats hold 32 weights, the K and IQ formats 256 ("super-block") in sub-blocks of 16 or 32.
#pragma once
#include <bit>
#include <cstdint>

namespace coterie::quant {

static_assert(std::endian::native == std::endian::little, "block formats are little endian");

constexpr int small_block = 32;
constexpr int super_block = 256;

// clang-format off
// Nibbles: byte i holds weight i (low) and weight i + 16 (high). Bit i of qh is weight i's fifth bit.
struct BlockQ4_0 { uint16_t d; uint8_t qs[16]; };                              // d * (q - 8)
struct BlockQ4_1 { uint16_t d, m; uint8_t qs[16]; };                           // d * q + m
struct BlockQ5_0 { uint16_t d; uint8_t qh[4]; uint8_t qs[16]; };               // d * (q - 16)
struct BlockQ5_1 { uint16_t d, m; uint8_t qh[4]; uint8_t qs[16]; };            // d * q + m
struct BlockQ8_0 { uint16_t d; int8_t qs[32]; };                               // d * q
struct BlockQ8_1 { uint16_t d, s; int8_t qs[32]; };         // d * q; s = d * sum(q): activations only
struct BlockMXFP4 { uint8_t e; uint8_t qs[16]; };           // e8m0_half(e) * mxfp4_values[q]
struct BlockIQ4NL { uint16_t d; uint8_t qs[16]; };          // d * iq4_values[q]

// Q2_K: d * scale * q - dmin * min, 16 sub-blocks of 16, scale in the low nibble and minimum in the high.
// Weight h*128 + s*32 + l is bits 2s of qs[h*32 + l]; the same order holds for Q3_K.
struct BlockQ2K { uint8_t scales[16]; uint8_t qs[64]; uint16_t d, dmin; };
// Q3_K: d * scale * (q - 4), scales: q3k_scale(). Bit h*4 + s of hmask[l] is the third bit of q.
struct BlockQ3K { uint8_t hmask[32]; uint8_t qs[64]; uint8_t scales[12]; uint16_t d; };
// Q4_K, Q5_K: d * scale * q - dmin * min, 8 sub-blocks of 32, scales: k_scale(). Sub-block 2c is the low
// nibbles of qs[32c ...], 2c + 1 the high; bit j of qh[l] is the fifth bit of weight l of sub-block j.
struct BlockQ4K { uint16_t d, dmin; uint8_t scales[12]; uint8_t qs[128]; };
struct BlockQ5K { uint16_t d, dmin; uint8_t scales[12]; uint8_t qh[32]; uint8_t qs[128]; };
// Q6_K: d * scale * (q - 32), 16 sub-blocks of 16. In half h, weight s*32 + l has its low bits in nibble s/2
// of ql[h*64 + (s%2)*32 + l] and its high bits in bits 2s of qh[h*32 + l].
struct BlockQ6K { uint8_t ql[128]; uint8_t qh[64]; int8_t scales[16]; uint16_t d; };
struct BlockQ8K { float d; int8_t qs[256]; int16_t sums[16]; };  // activations only; sums of 16

// IQ formats: codebook indices (grids.h) for 8 (IQ1, IQ2) or 4 (IQ3) weights, signs apart.
struct BlockIQ2XXS { uint16_t d; uint16_t qs[32]; };             // per 32: 4 indices; 4 x 7 signs, scale
struct BlockIQ2XS { uint16_t d; uint16_t qs[32]; uint8_t scales[8]; };  // 9 index bits, 7 sign bits
struct BlockIQ2S { uint16_t d; uint8_t qs[32]; uint8_t signs[32]; uint8_t qh[8]; uint8_t scales[8]; };
struct BlockIQ3XXS { uint16_t d; uint8_t qs[64]; uint8_t scales[32]; };  // per 32: u32 of 4 x 7 signs, scale
struct BlockIQ3S { uint16_t d; uint8_t qs[64]; uint8_t qh[8]; uint8_t signs[32]; uint8_t scales[4]; };
struct BlockIQ1S { uint16_t d; uint8_t qs[32]; uint16_t qh[8]; };  // qh: 4 x 3 index bits, scale, delta sign
struct BlockIQ1M { uint8_t qs[32]; uint8_t qh[16]; uint16_t scales[4]; };  // d: iq1m_scale()
struct BlockIQ4XS { uint16_t d; uint16_t scales_h; uint8_t scales_l[4]; uint8_t qs[128]; };
struct BlockTQ1_0 { uint8_t qs[48]; uint8_t qh[4]; uint16_t d; };  // five (four in qh) base-3 digits a byte
struct BlockTQ2_0 { uint8_t qs[64]; uint16_t d; };                 // d * (q - 1)
// clang-format on

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockQ8_1) == 36);
static_assert(sizeof(BlockMXFP4) == 17 && sizeof(BlockIQ4NL) == 18 && sizeof(BlockQ2K) == 84);
static_assert(sizeof(BlockQ3K) == 110 && sizeof(BlockQ4K) == 144 && sizeof(BlockQ5K) == 176);
static_assert(sizeof(BlockQ6K) == 210 && sizeof(BlockQ8K) == 292 && sizeof(BlockIQ2XXS) == 66);
static_assert(sizeof(BlockIQ2XS) == 74 && sizeof(BlockIQ2S) == 82 && sizeof(BlockIQ3XXS) == 98);
static_assert(sizeof(BlockIQ3S) == 110 && sizeof(BlockIQ1S) == 50 && sizeof(BlockIQ1M) == 56);
static_assert(sizeof(BlockIQ4XS) == 136 && sizeof(BlockTQ1_0) == 54 && sizeof(BlockTQ2_0) == 66);

// E2M1 values doubled (so that they are integers), matched by e8m0_half() of the scale.
constexpr int8_t mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Half of the power of two that an E8M0 exponent stands for: 2^(e - 128), subnormal below 2.
inline float e8m0_half(uint8_t e) {
    return std::bit_cast<float>(e < 2 ? uint32_t(0x00200000) << e : uint32_t(e - 1) << 23);
}

struct ScaleMin {
    uint8_t scale, min;
};

// The 6-bit scale and minimum of sub-block j (0..7) in the 12 bytes of Q4_K and Q5_K: the first four are the
// low six bits of bytes j and j + 4; the others have their low nibbles in byte j + 4 and two bits above the
// first four's.
inline ScaleMin k_scale(const uint8_t packed[12], int j) {
    if (j < 4) return {uint8_t(packed[j] & 63), uint8_t(packed[j + 4] & 63)};
    return {uint8_t((packed[j + 4] & 15) | ((packed[j - 4] >> 2) & 0x30)),
            uint8_t((packed[j + 4] >> 4) | ((packed[j] >> 2) & 0x30))};
}

// The signed 6-bit scale of sub-block i (0..15) in the 12 bytes of Q3_K: nibbles in bytes 0..7, top bits
// in 8..11.
inline int q3k_scale(const uint8_t packed[12], int i) {
    const int low = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4;
    return (low | (((packed[8 + i % 4] >> (2 * (i / 4))) & 3) << 4)) - 32;
}

// The F16 bits of the super-block scale of IQ1_M, a nibble in each of its four scale words.
inline uint16_t iq1m_scale(const BlockIQ1M& b) {
    return uint16_t((b.scales[0] >> 12) | ((b.scales[1] >> 8) & 0x00f0) | ((b.scales[2] >> 4) & 0x0f00) |
                    (b.scales[3] & 0xf000));
}

}  // namespace coterie::quant
