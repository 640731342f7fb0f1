// The kernels in plain C++: the meaning of the layout, and the path for machines without AVX2.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "device/cpu/kernels.h"
#include "device/cpu/product_table.h"

namespace coterie::cpu {
namespace {

constexpr int most_rows = 8;

void quantise(const float* x, int64_t n, ActivationBlock* to) {
    for (int64_t b = 0; b < n / block_columns; ++b, x += block_columns, ++to) {
        float largest = 0;
        for (int i = 0; i < block_columns; ++i) largest = std::max(largest, std::fabs(x[i]));
        // A scale too small to invert would turn values into infinities: such a block is zero.
        const float scale = largest / 127.0f, inverse = scale > 1e-36f ? 1.0f / scale : 0.0f;
        int sums[2] = {};
        for (int i = 0; i < block_columns; ++i) {
            const int q = int(std::nearbyintf(std::min(127.0f, std::max(-127.0f, x[i] * inverse))));
            to->q[i] = int8_t(q);
            sums[i / 16] += q;
        }
        to->scale = scale;
        to->sum = scale * float(sums[0] + sums[1]);
        for (int h = 0; h < 2; ++h) to->shift32[h] = -32 * sums[h];
    }
}

// u of a block of 32 columns as [column][16 rows].
template <Type type>
void unpack(const uint8_t* q, uint8_t u[block_columns][group_rows]) {
    constexpr Format f = format_of(type);
    for (int i = 0; i < 8; ++i)
        for (int r = 0; r < group_rows; ++r)
            for (int c = 0; c < 4; ++c) {
                const uint8_t* at = q + 4 * r + c;
                int v;
                if constexpr (f.bits == 8)
                    v = at[64 * i];
                else if constexpr (f.bits == 3)
                    v = ((at[64 * (i / 4)] >> (2 * (i % 4))) & 3) | ((at[128] >> i) & 1) << 2;
                else
                    v = i < 4 ? at[64 * i] & 15 : at[64 * (i - 4)] >> 4;
                if constexpr (f.bits == 5) v |= ((at[256] >> i) & 1) << 4;
                if constexpr (f.bits == 6) v |= ((at[64 * (4 + i / 4)] >> (2 * (i % 4))) & 3) << 4;
                if constexpr (f.table != nullptr) v = f.table[v] + f.offset;
                u[4 * i + c][r] = uint8_t(v);
            }
}

// Per row: value = scale[half] * u + constant[half].
template <Type type>
void factors(const uint8_t* header, int block, float scale[2][group_rows], float constant[2][group_rows]) {
    constexpr Format f = format_of(type);
    const uint8_t* bytes = header + header_once(f) + block * header_per_block(f);
    const auto half_at = [](const uint8_t* p, int r) {
        uint16_t bits;
        std::memcpy(&bits, p + 2 * r, 2);
        return half_to_float(bits);
    };
    for (int r = 0; r < group_rows; ++r) {
        float d[2] = {}, m = 0;
        if constexpr (f.scales == Scales::half) d[0] = half_at(bytes, r);
        if constexpr (f.scales == Scales::half_min) d[0] = half_at(bytes, r), m = half_at(bytes + 32, r);
        if constexpr (f.scales == Scales::exponent) d[0] = quant::e8m0_half(bytes[r]);
        if constexpr (f.scales == Scales::super) d[0] = half_at(header, r) * float(int8_t(bytes[r]));
        if constexpr (f.scales == Scales::super_min) {
            d[0] = half_at(header, r) * float(bytes[r]);
            m = -half_at(header + 32, r) * float(bytes[16 + r]);
        }
        d[1] = d[0];
        if constexpr (f.scales == Scales::super16) {
            d[0] = half_at(header, r) * float(int8_t(bytes[r]));
            d[1] = half_at(header, r) * float(int8_t(bytes[16 + r]));
        }
        for (int h = 0; h < 2; ++h) scale[h][r] = d[h], constant[h][r] = m - float(f.offset) * d[h];
    }
}

template <Type type>
void rows_of_blocks(const PackedShape& shape, const std::byte* group, int rows, const void* const* x,
                    float* const* y, int64_t column, int valid) {
    constexpr Format f = format_of(type);
    float sums[most_rows][group_rows] = {};
    const auto* header = reinterpret_cast<const uint8_t*>(group);
    int64_t at = 0;
    for (const Fragment& fragment : shape.fragments) {
        const uint8_t* q = header + header_bytes(f, fragment.count);
        for (int b = 0; b < fragment.count; ++b, q += quant_bytes(f), ++at) {
            uint8_t u[block_columns][group_rows];
            float scale[2][group_rows], constant[2][group_rows];
            unpack<type>(q, u);
            factors<type>(header, b, scale, constant);
            for (int r = 0; r < rows; ++r) {
                const ActivationBlock& a = static_cast<const ActivationBlock*>(x[r])[at];
                for (int h = 0; h < 2; ++h) {
                    int32_t dot[group_rows] = {};
                    for (int k = 0; k < 16; ++k)
                        for (int i = 0; i < group_rows; ++i)
                            dot[i] += int(u[16 * h + k][i]) * a.q[16 * h + k];
                    const int32_t total = a.shift32[h] / -32;  // of q, exactly
                    const float sum = a.scale * float(total);
                    for (int i = 0; i < group_rows; ++i)
                        sums[r][i] += scale[h][i] * a.scale * float(dot[i]) + constant[h][i] * sum;
                }
            }
        }
        header = q;
    }
    for (int r = 0; r < rows; ++r) std::copy_n(sums[r], valid, y[r] + column);
}

template <Type type>
void rows_of_floats(const PackedShape& shape, const std::byte* group, int rows, const void* const* x,
                    float* const* y, int64_t column, int valid) {
    float sums[most_rows][group_rows] = {};
    for (int64_t k = 0; k < shape.columns; ++k) {
        float w[group_rows];
        if constexpr (type == Type::F32) {
            std::memcpy(w, group + 64 * k, 64);
        } else {
            uint16_t bits[group_rows];
            std::memcpy(bits, group + 32 * k, 32);
            for (int i = 0; i < group_rows; ++i)
                w[i] = type == Type::F16 ? half_to_float(bits[i]) : bfloat_to_float(bits[i]);
        }
        for (int r = 0; r < rows; ++r)
            for (int i = 0; i < group_rows; ++i) sums[r][i] += w[i] * static_cast<const float*>(x[r])[k];
    }
    for (int r = 0; r < rows; ++r) std::copy_n(sums[r], valid, y[r] + column);
}

struct Tile {
    static void add(const float* w, int64_t columns, int rows, const float* const* x,
                    float (*sums)[group_rows]) {
        for (int64_t k = 0; k < columns; ++k)
            for (int r = 0; r < rows; ++r)
                for (int i = 0; i < group_rows; ++i) sums[r][i] += w[k * group_rows + i] * x[r][k];
    }
};

struct Rows {
    static constexpr int most = most_rows;
    template <Type type>
    static void any(const PackedShape& s, const std::byte* g, int rows, const void* const* x, float* const* y,
                    int64_t column, int valid) {
        if constexpr (format_of(type).bits > 0)
            rows_of_blocks<type>(s, g, rows, x, y, column, valid);
        else
            rows_of_floats<type>(s, g, rows, x, y, column, valid);
    }
};

}  // namespace

const Kernels& portable_kernels() {
    static const Kernels table{Isa::portable, Rows::most, quantise, product_of<Rows, Tile>};
    return table;
}

}  // namespace coterie::cpu
