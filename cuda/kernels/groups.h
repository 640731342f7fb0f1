// Reading packed weights in device code: a group of 32 columns as eight words of four signed bytes, with its
// factors; and its product with rounded activations.
#pragma once
#include "cuda/kernels/kernel_language.h"
#include "cuda/kernels/packed.h"

namespace coterie::cuda {

// Four bytes of the table of IQ4_NL and IQ4_XS, or of MXFP4, for the four nibbles in bits 0-15.
template <Type type>
__device__ __forceinline__ uint32_t looked_up(uint32_t nibbles) {
    // Little endian, entries 0-3, 4-7, 8-11, 12-15 of quant::iq4_values and quant::mxfp4_values.
    constexpr bool fp4 = type == Type::MXFP4;
    constexpr uint32_t t0 = fp4 ? 0x03020100u : 0xbfad9881u, t1 = fp4 ? 0x0c080604u : 0xf6eaddcfu,
                       t2 = fp4 ? 0xfdfeff00u : 0x26190d01u, t3 = fp4 ? 0xf4f8fafcu : 0x71594535u;
    const uint32_t low = pick_bytes(t0, t1, nibbles & 0x7777u), high = pick_bytes(t2, t3, nibbles & 0x7777u);
    return pick_bytes(low, high, 0x3210u | ((nibbles & 0x8888u) >> 1));
}

// Words of the signed codes of a group, before the offset: columns 4w .. 4w + 3. row: expert * out + row of
// the matrix; group: of the row.
template <Type type>
__device__ __forceinline__ void load_codes(const Packed& w, int64_t row, int group, int (&codes)[8]) {
    constexpr Format f = format_of(type);
    const int64_t index = row * w.groups + group;
    const int64_t piece = f.bits == 8 ? index + row * w.groups : index;
    const uint4 low = load_whole(reinterpret_cast<const uint4*>(w.codes) + piece);
    const uint32_t words[4] = {low.x, low.y, low.z, low.w};
    if constexpr (f.bits == 8) {
        const uint4 rest = load_whole(reinterpret_cast<const uint4*>(w.codes) + piece + w.groups);
        const uint32_t more[4] = {rest.x, rest.y, rest.z, rest.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) codes[i] = int(words[i]), codes[4 + i] = int(more[i]);
    } else if constexpr (f.table) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            codes[i] = int(looked_up<type>(words[i] & 0xffffu));
            codes[4 + i] = int(looked_up<type>(words[i] >> 16));
        }
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            codes[i] = int(words[i] & 0x0f0f0f0fu);
            codes[4 + i] = int(words[i] >> 4 & 0x0f0f0f0fu);
        }
        if constexpr (f.bits == 5) {
            const uint32_t high = reinterpret_cast<const uint32_t*>(w.high)[index];
#pragma unroll
            for (int i = 0; i < 8; ++i) codes[i] |= int((high >> i & 0x01010101u) << 4);
        }
        if constexpr (f.bits == 6) {
            const uint2 high = load_whole(reinterpret_cast<const uint2*>(w.high) + index);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                codes[i] |= int((high.x >> (2 * i) & 0x03030303u) << 4);
                codes[4 + i] |= int((high.y >> (2 * i) & 0x03030303u) << 4);
            }
        }
    }
}

// D of both halves of a group and M.
struct Factors {
    float first, second, minimum;
};

template <Type type>
__device__ __forceinline__ Factors load_factors(const Packed& w, int64_t row, int group) {
    constexpr Format f = format_of(type);
    const int64_t index = row * w.groups + group;
    if constexpr (f.scales == Scales::half) {
        const float d = half_value(reinterpret_cast<const uint16_t*>(w.scales)[index]);
        return {d, d, 0};
    } else if constexpr (f.scales == Scales::half_min) {
        const uint32_t both = reinterpret_cast<const uint32_t*>(w.scales)[index];
        const float d = half_value(uint16_t(both));
        return {d, d, -half_value(uint16_t(both >> 16))};
    } else if constexpr (f.scales == Scales::exponent) {
        const uint32_t e = w.scales[index];
        const float d = __int_as_float(int(e < 2 ? 0x00200000u << e : (e - 1) << 23));
        return {d, d, 0};
    } else {
        const int64_t super = row * w.super_blocks + ((group + w.lead) >> w.shift);
        if constexpr (f.scales == Scales::super_min) {
            const uint32_t factors = reinterpret_cast<const uint32_t*>(w.supers)[super];
            const uint32_t both = reinterpret_cast<const uint16_t*>(w.scales)[index];
            const float d = half_value(uint16_t(factors)) * float(both & 255);
            return {d, d, half_value(uint16_t(factors >> 16)) * float(both >> 8)};
        } else if constexpr (f.scales == Scales::super) {
            const float d = half_value(reinterpret_cast<const uint16_t*>(w.supers)[super]) *
                            float(int8_t(w.scales[index]));
            return {d, d, 0};
        } else {
            const float d = half_value(reinterpret_cast<const uint16_t*>(w.supers)[super]);
            const uint32_t both = reinterpret_cast<const uint16_t*>(w.scales)[index];
            return {d * float(int8_t(both & 255)), d * float(int8_t(both >> 8)), 0};
        }
    }
}

// The product of a group with the same group of a row of activations: 16 columns at x, 16 at x + groups.
template <Type type>
__device__ __forceinline__ float group_product(const int (&codes)[8], const Factors& f, const int4* x,
                                               int groups, const RoundedScale& scale_at) {
    constexpr Format format = format_of(type);
    const RoundedScale scale = load_whole(&scale_at);
    const int4 a = load_whole(x), b = load_whole(x + groups);
    const int words[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    int first = 0, second = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) first = dp4a(codes[i], words[i], first);
#pragma unroll
    for (int i = 4; i < 8; ++i) second = dp4a(codes[i], words[i], second);
    first -= format.offset * scale.sums[0];
    second -= format.offset * scale.sums[1];
    if constexpr (format.scales == Scales::super16)
        return scale.d * (f.first * float(first) + f.second * float(second));
    else if constexpr (format.scales == Scales::half_min || format.scales == Scales::super_min)
        return scale.d * (f.first * float(first + second) - f.minimum * float(scale.sums[0] + scale.sums[1]));
    else
        return scale.d * f.first * float(first + second);
}

// Four weights of a floating-point matrix, the first a multiple of four: in one piece, as rows are padded.
template <Type type>
__device__ __forceinline__ float4 four_weights(const Packed& w, int64_t index) {
    if constexpr (type == Type::F32) {
        return load_whole(reinterpret_cast<const float4*>(w.codes) + index / 4);
    } else {
        const uint2 bits = load_whole(reinterpret_cast<const uint2*>(w.codes) + index / 4);
        const auto value = [](uint32_t b) {
            return type == Type::F16 ? half_value(uint16_t(b)) : bfloat_value(uint16_t(b));
        };
        return make_float4(value(bits.x), value(bits.x >> 16), value(bits.y), value(bits.y >> 16));
    }
}

// One weight of a floating-point matrix.
template <Type type>
__device__ __forceinline__ float float_weight(const Packed& w, int64_t index) {
    if constexpr (type == Type::F32) return reinterpret_cast<const float*>(w.codes)[index];
    const uint16_t bits = reinterpret_cast<const uint16_t*>(w.codes)[index];
    return type == Type::F16 ? half_value(bits) : bfloat_value(bits);
}

}  // namespace coterie::cuda
