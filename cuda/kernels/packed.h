// How weights lie on a device. Quantised ones are packed in groups of 32 columns, planes apart, so that a
// warp reads each plane in 16-byte pieces:
//
//   codes   [experts][out][groups]: 16 bytes for 4, 5 and 6 bits, 32 for 8 bits. Byte i of 16 holds column i
//           (low nibble) and column 16 + i (high). For types with a table, 16-bit piece p of word w holds
//           columns 16p + 4w .. 16p + 4w + 3 instead, a nibble each.
//   high    5 bits: a word; bit 8b + w is bit 4 of column 4w + b. 6 bits: two words; bits 8b + 2w of word h
//           are bits 4 and 5 of column 16h + 4w + b.
//   scales  per group, by Scales.
//   supers  per super-block of the file: F16 d, or d and m. Group g's is (g + lead) >> shift: a shard that
//   begins
//           inside a super-block keeps a copy of its factors; ranges that don't follow each other have shift
//           0.
//
// A weight is D (u - offset) - M. Types without such a form, and F32, F16 and BF16, are rows of floats or
// 16-bit floats, `stride` elements apart.
#pragma once
#include <cstdint>

#include "quant/type.h"

namespace coterie::cuda {

enum class Scales : uint8_t {
    none,
    half,       // F16 D
    half_min,   // F16 D, F16 -M
    exponent,   // a byte e: D = 2^(e - 128)
    super,      // int8 s: D = d s
    super_min,  // uint8 s and t: D = d s, M = m t
    super16,    // int8 s for the first and second 16 columns: D = d s
};

struct Format {
    int bits = 0;  // of u; 0: not packed
    Scales scales = Scales::none;
    int offset = 0;
    bool table = false;  // u is an index; the value is the table's
};

constexpr Format format_of(Type type) {
    switch (type) {
        case Type::Q4_0:
            return {4, Scales::half, 8, false};
        case Type::Q4_1:
            return {4, Scales::half_min, 0, false};
        case Type::Q5_0:
            return {5, Scales::half, 16, false};
        case Type::Q5_1:
            return {5, Scales::half_min, 0, false};
        case Type::Q8_0:
            return {8, Scales::half, 0, false};
        case Type::Q3_K:
            return {4, Scales::super16, 4, false};
        case Type::Q4_K:
            return {4, Scales::super_min, 0, false};
        case Type::Q5_K:
            return {5, Scales::super_min, 0, false};
        case Type::Q6_K:
            return {6, Scales::super16, 32, false};
        case Type::IQ4_NL:
            return {4, Scales::half, 0, true};
        case Type::IQ4_XS:
            return {4, Scales::super, 0, true};
        case Type::MXFP4:
            return {4, Scales::exponent, 0, true};
        default:
            return {};
    }
}

constexpr int group_columns = 32;
constexpr int code_bytes(Format f) {
    return f.bits == 8 ? 32 : 16;
}
constexpr int high_bytes(Format f) {
    return f.bits == 5 ? 4 : f.bits == 6 ? 8 : 0;
}
constexpr int scale_bytes(Format f) {
    switch (f.scales) {
        case Scales::half_min:
            return 4;
        case Scales::half:
        case Scales::super_min:
        case Scales::super16:
            return 2;
        case Scales::exponent:
        case Scales::super:
            return 1;
        case Scales::none:
            break;
    }
    return 0;
}
constexpr int super_bytes(Format f) {
    return f.scales == Scales::super_min                              ? 4
           : f.scales == Scales::super || f.scales == Scales::super16 ? 2
                                                                      : 0;
}

struct Packed {
    const uint8_t *codes = nullptr, *high = nullptr, *scales = nullptr, *supers = nullptr;
    int32_t in = 0, out = 0, experts = 0;
    int32_t groups = 0, super_blocks = 0;  // of a row
    int32_t lead = 0, shift = 0;
    int32_t stride = 0;  // of floats, in elements
    // As it lies here: a packed type, F32, F16 or BF16. Others of the file became F16 or F32.
    Type type = Type::F32;
};

// Activations rounded to 8 bits, per 32 columns: value = d q. Sums of q over the first and second 16 columns
// serve the offsets and minima.
struct RoundedScale {
    float d;
    int16_t sums[2];
};
struct Rounded {
    int8_t* codes = nullptr;         // [rows][groups * 32]
    RoundedScale* scales = nullptr;  // [rows][groups]
    int32_t groups = 0;              // of a row
};

}  // namespace coterie::cuda
