// How weights lie on a device. Quantised ones are packed in groups of 32 columns, planes apart, so that a
// warp reads each plane in 16-byte pieces:
//
//   codes   [experts][out][groups]: 16 bytes; byte i holds column i (low nibble) and column 16 + i (high).
//   For
//           types with a table, 16-bit piece p of word w holds columns 16p + 4w .. 16p + 4w + 3 instead, a
//           nibble each. 8 bits: [experts][out][2][groups], 16 columns each.
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

#include "device/cuda_layout.h"
#include "quant/type.h"

namespace coterie::cuda {

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
    int8_t* codes = nullptr;         // [rows][2][groups]: 16 columns each
    RoundedScale* scales = nullptr;  // [rows][groups]
    int32_t groups = 0;              // of a row
};

}  // namespace coterie::cuda
