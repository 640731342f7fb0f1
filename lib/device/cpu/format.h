// How each quantised type is held in packed form: the bits of a weight, the kind of scale, the offset or
// table. Every one of them is value = D * (u - offset) - M with an unsigned u of 8 bits or fewer, D and M per
// row and per 16 or 32 columns. Constants only; the layout itself is in layout.h, the arithmetic in the
// kernels.
#pragma once
#include <cstdint>

#include "quant/blocks.h"
#include "quant/type.h"

namespace coterie::cpu {

constexpr int group_rows = 16;     // rows packed side by side: one 32-bit lane of a 512-bit register each
constexpr int block_columns = 32;  // the unit of packing, of sharding and of the activations' scales
constexpr int super_blocks = 8;    // blocks in a fragment at most: a K-quant's super-block

enum class Scales : uint8_t {
    none,
    half,       // F16 D per 32
    half_min,   // F16 D and M per 32
    exponent,   // D = 2^(e - 128) per 32
    super,      // F16 d per fragment, int8 s per 32: D = d s
    super_min,  // F16 d and m per fragment, uint8 s and t per 32: D = d s, M = m t
    super16,    // F16 d per fragment, int8 s per 16: D = d s
};

struct Format {
    int bits = 0;  // of u: 3, 4, 5, 6 or 8; 0: not packed in blocks
    Scales scales = Scales::none;
    int offset = 0;
    const int8_t* table = nullptr;  // 16 values; u = table[code] + offset
};

constexpr Format format_of(Type type) {
    switch (type) {
        case Type::Q4_0:
            return {4, Scales::half, 8};
        case Type::Q4_1:
            return {4, Scales::half_min, 0};
        case Type::Q5_0:
            return {5, Scales::half, 16};
        case Type::Q5_1:
            return {5, Scales::half_min, 0};
        case Type::Q8_0:
            return {8, Scales::half, 128};
        case Type::Q3_K:
            return {3, Scales::super16, 4};
        case Type::Q4_K:
            return {4, Scales::super_min, 0};
        case Type::Q5_K:
            return {5, Scales::super_min, 0};
        case Type::Q6_K:
            return {6, Scales::super16, 32};
        case Type::IQ4_NL:
            return {4, Scales::half, 128, quant::iq4_values};
        case Type::IQ4_XS:
            return {4, Scales::super, 128, quant::iq4_values};
        case Type::MXFP4:
            return {4, Scales::exponent, 16, quant::mxfp4_values};
        default:
            return {};
    }
}

// Bytes of u for 16 rows by 32 columns.
constexpr int quant_bytes(const Format& f) {
    return f.bits * group_rows * block_columns / 8;
}

// Bytes of a fragment's header: what is kept once, then what is kept per block; padded to 64.
constexpr int header_once(const Format& f) {
    return f.scales == Scales::super_min                              ? 64
           : f.scales == Scales::super || f.scales == Scales::super16 ? 32
                                                                      : 0;
}
constexpr int header_per_block(const Format& f) {
    switch (f.scales) {
        case Scales::half_min:
            return 64;
        case Scales::half:
        case Scales::super_min:
        case Scales::super16:
            return 32;
        case Scales::exponent:
        case Scales::super:
            return 16;
        case Scales::none:
            break;
    }
    return 0;
}
constexpr int header_bytes(const Format& f, int blocks) {
    return (header_once(f) + blocks * header_per_block(f) + 63) / 64 * 64;
}

}  // namespace coterie::cpu
