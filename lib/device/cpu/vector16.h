// Vectors of 16 floats made of the widest registers there are: the same text becomes SSE2, AVX2 or AVX-512
// code, according to the flags of the translation unit that includes it. Everything has internal linkage for
// that reason. Sums are kept in 16 lanes and folded at the end.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "base/half.h"

namespace coterie::cpu {
namespace {

constexpr int lanes = 16;
#if defined(__AVX512F__)
constexpr int parts = 1;
#elif defined(__AVX2__)
constexpr int parts = 2;
#else
constexpr int parts = 4;
#endif
typedef float Part __attribute__((vector_size(64 / parts)));
typedef int32_t IntPart __attribute__((vector_size(64 / parts)));
constexpr int part_lanes = lanes / parts;

struct Floats {
    Part p[parts];
};

#define COTERIE_INLINE inline __attribute__((always_inline))
#define COTERIE_OPERATOR(op)                                              \
    COTERIE_INLINE Floats operator op(const Floats& a, const Floats& b) { \
        Floats v;                                                         \
        for (int i = 0; i < parts; ++i) v.p[i] = a.p[i] op b.p[i];        \
        return v;                                                         \
    }                                                                     \
    COTERIE_INLINE Floats operator op(const Floats& a, float b) {         \
        Floats v;                                                         \
        for (int i = 0; i < parts; ++i) v.p[i] = a.p[i] op b;             \
        return v;                                                         \
    }                                                                     \
    COTERIE_INLINE Floats operator op(float a, const Floats& b) {         \
        Floats v;                                                         \
        for (int i = 0; i < parts; ++i) v.p[i] = a op b.p[i];             \
        return v;                                                         \
    }
COTERIE_OPERATOR(+)
COTERIE_OPERATOR(-)
COTERIE_OPERATOR(*)
COTERIE_OPERATOR(/)
#undef COTERIE_OPERATOR
// Multiplies and adds; one rounding where the compiler fuses the two.
COTERIE_INLINE void operator+=(Floats& a, const Floats& b) {
    a = a + b;
}

COTERIE_INLINE Floats load(const float* p) {
    Floats v;
    for (int i = 0; i < parts; ++i) std::memcpy(&v.p[i], p + i * part_lanes, sizeof(Part));
    return v;
}
COTERIE_INLINE void store(float* p, const Floats& v) {
    for (int i = 0; i < parts; ++i) std::memcpy(p + i * part_lanes, &v.p[i], sizeof(Part));
}
COTERIE_INLINE Floats all(float x) {
    return x - Floats{};
}
COTERIE_INLINE Floats load_half(const uint16_t* from) {
    Floats v;
#if defined(__AVX512F__)
    v.p[0] = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__AVX2__)
    for (int i = 0; i < parts; ++i)
        v.p[i] = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 8 * i)));
#else
    float values[lanes];
    for (int i = 0; i < lanes; ++i) values[i] = half_to_float(from[i]);
    v = load(values);
#endif
    return v;
}
COTERIE_INLINE Floats load_bytes(const uint8_t* from) {
    Floats v;
#if defined(__AVX512F__)
    v.p[0] =
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#elif defined(__AVX2__)
    for (int i = 0; i < parts; ++i)
        v.p[i] = _mm256_cvtepi32_ps(
            _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + 8 * i))));
#else
    float values[lanes];
    for (int i = 0; i < lanes; ++i) values[i] = float(int8_t(from[i]));
    v = load(values);
#endif
    return v;
}
COTERIE_INLINE float sum(const Floats& v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps(v.p[0]);
#else
    Part folded = v.p[0];
    for (int i = 1; i < parts; ++i) folded += v.p[i];
#if defined(__AVX2__)
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(folded), _mm256_extractf128_ps(folded, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_shuffle_ps(four, four, 1)));
#else
    return (folded[0] + folded[2]) + (folded[1] + folded[3]);
#endif
#endif
}
COTERIE_INLINE Floats larger(const Floats& a, const Floats& b) {
    Floats v;
    for (int i = 0; i < parts; ++i) v.p[i] = a.p[i] > b.p[i] ? a.p[i] : b.p[i];
    return v;
}
COTERIE_INLINE float greatest(const Floats& v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps(v.p[0]);
#else
    Part most = v.p[0];
    for (int i = 1; i < parts; ++i) most = most > v.p[i] ? most : v.p[i];
    float found = most[0];
    for (int i = 1; i < part_lanes; ++i) found = most[i] > found ? most[i] : found;
    return found;
#endif
}
COTERIE_INLINE Floats smaller(const Floats& a, const Floats& b) {
    Floats v;
    for (int i = 0; i < parts; ++i) v.p[i] = a.p[i] < b.p[i] ? a.p[i] : b.p[i];
    return v;
}

// exp with a relative error near 1e-7; 0 below -87, and finite: never above exp(88).
COTERIE_INLINE Floats exponential(Floats x) {
    const Floats clamped = smaller(larger(x, all(-87.0f)), all(88.0f));
    const Floats shift = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
    const Floats n = (clamped * 1.44269504f + shift) - shift;
    const Floats r = clamped - n * 0.693359375f - n * -2.12194440e-4f;
    Floats p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    for (int i = 0; i < parts; ++i) {
        const IntPart power = (__builtin_convertvector(n.p[i], IntPart) + 127) << 23;
        Part scale;
        std::memcpy(&scale, &power, sizeof scale);
        p.p[i] = x.p[i] >= -87.0f ? p.p[i] * scale : Part{};
    }
    return p;
}
COTERIE_INLINE Floats negative(const Floats& x) {
    return 0.0f - x;
}
COTERIE_INLINE Floats sigmoid(const Floats& x) {
    return 1.0f / (1.0f + exponential(negative(x)));
}
COTERIE_INLINE Floats hyperbolic_tangent(const Floats& x) {
    return 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f);
}

// f on every 16 of up to three arrays (b, c may be null: zeros); the rest goes through a padded copy.
template <typename Function>
COTERIE_INLINE void for_each(float* y, const float* a, const float* b, const float* c, int64_t n,
                             Function f) {
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
        store(y + i, f(load(a + i), b ? load(b + i) : Floats{}, c ? load(c + i) : Floats{}));
    if (i == n) return;
    float pad[3][lanes] = {};
    const size_t rest = size_t(n - i) * sizeof(float);
    std::memcpy(pad[0], a + i, rest);
    if (b) std::memcpy(pad[1], b + i, rest);
    if (c) std::memcpy(pad[2], c + i, rest);
    store(pad[0], f(load(pad[0]), load(pad[1]), load(pad[2])));
    std::memcpy(y + i, pad[0], rest);
}

}  // namespace
}  // namespace coterie::cpu
