// How each type of weight is held on a CUDA device, as far as bytes and constants go; the planes themselves
// are described in cuda/kernels/packed.h. The planner counts with it and the device packs by it, so that they
// agree to the byte.
#pragma once
#include <cstdint>
#include <span>

#include "base/threads.h"
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

// The part of a row's layout that depends on which columns are kept.
struct RowLayout {
    Type type = Type::F32;  // as it lies there: a packed type, F32, F16 or BF16
    int64_t groups = 0, super_blocks = 0;
    int64_t lead = 0, shift = 0;  // the super-block of group g is (g + lead) >> shift
    int64_t stride = 0;           // of floats, in elements
    static constexpr int planes = 4;
    int64_t bytes[planes] = {};  // of a row, by plane: codes (or floats), high bits, scales, super-blocks
};

// gather: rows are looked up, which must be exact.
RowLayout row_layout(Type type, std::span<const Range> columns, bool gather);

// Of a whole weight: planes begin at multiples of this.
constexpr int64_t plane_alignment = 256;
inline int64_t plane_bytes(const RowLayout& row, int plane, int64_t rows) {
    return (row.bytes[plane] * rows + plane_alignment - 1) / plane_alignment * plane_alignment;
}
inline uint64_t weight_bytes(const RowLayout& row, int64_t rows) {
    int64_t sum = 0;
    for (int plane = 0; plane < RowLayout::planes; ++plane) sum += plane_bytes(row, plane, rows);
    return uint64_t(sum);
}

}  // namespace coterie::cuda
