// Reading and writing the cache of keys and values in device code, four numbers at a time.
#pragma once
#include "cuda/kernels/attention.h"
#include "cuda/kernels/kernel_language.h"

namespace coterie::cuda {

// The page of a position of a sequence.
__device__ __forceinline__ uint8_t* page_of(const CacheLayer& c, const StepView& step, int32_t sequence,
                                            int32_t position) {
    const int64_t slot = int64_t(sequence) * *step.pages_per_sequence + position / c.page_tokens;
    return c.pages + step.pages[slot] * c.page_bytes;
}

// Numbers [i, i + 4) of vector `vector` of a plane of vectors `dim` long.
__device__ __forceinline__ float4 load_four(Type type, const uint8_t* numbers, const uint8_t* scales,
                                            int64_t vector, int32_t dim, int32_t i) {
    const int64_t at = vector * dim + i;
    if (type == Type::F32) return load_whole(reinterpret_cast<const float4*>(numbers + at * 4));
    if (type == Type::F16) {
        const uint2 bits = load_whole(reinterpret_cast<const uint2*>(numbers + at * 2));
        return make_float4(half_value(uint16_t(bits.x)), half_value(uint16_t(bits.x >> 16)),
                           half_value(uint16_t(bits.y)), half_value(uint16_t(bits.y >> 16)));
    }
    const uint32_t codes = *reinterpret_cast<const uint32_t*>(numbers + at);
    const float d = half_value(reinterpret_cast<const uint16_t*>(scales)[vector * (dim / 32) + i / 32]);
    return make_float4(d * float(int8_t(codes)), d * float(int8_t(codes >> 8)),
                       d * float(int8_t(codes >> 16)), d * float(int8_t(codes >> 24)));
}

}  // namespace coterie::cuda
