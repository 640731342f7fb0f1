// The bodies of Elements, in vectors of 16 floats made of the widest registers there are: the same text
// becomes SSE2, AVX2 or AVX-512 code, according to the flags of the translation unit that includes it.
// Everything has internal linkage for that reason. Sums are kept in 16 lanes and folded at the end.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "base/half.h"
#include "device/cpu/elements.h"

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

float sum_of_squares(const float* x, int64_t n) {
    Floats a{}, b{};
    int64_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
        const Floats p = load(x + i), q = load(x + i + lanes);
        a += p * p;
        b += q * q;
    }
    float rest = 0;
    for (; i < n; ++i) rest += x[i] * x[i];
    return sum(a + b) + rest;
}
void scale(float* y, const float* x, float factor, const float* gain, int64_t n) {
    if (gain)
        for_each(y, x, gain, nullptr, n, [=](Floats a, Floats g, Floats) { return a * factor * g; });
    else
        for_each(y, x, nullptr, nullptr, n, [=](Floats a, Floats, Floats) { return a * factor; });
}
void add(float* x, const float* y, int64_t n) {
    for_each(x, x, y, nullptr, n, [](Floats a, Floats b, Floats) { return a + b; });
}
float add_sum_of_squares(float* x, const float* y, int64_t n) {
    Floats squares{};
    for_each(x, x, y, nullptr, n, [&](Floats a, Floats b, Floats) {
        a += b;
        squares += a * a;
        return a;
    });
    return sum(squares);
}
void silu(float* y, const float* gate, const float* up, int64_t n) {
    if (up)
        for_each(y, gate, up, nullptr, n, [](Floats g, Floats u, Floats) { return g * sigmoid(g) * u; });
    else
        for_each(y, gate, nullptr, nullptr, n, [](Floats g, Floats, Floats) { return g * sigmoid(g); });
}
void gelu(float* y, const float* gate, const float* up, int64_t n) {
    for_each(y, gate, up, nullptr, n, [](Floats g, Floats u, Floats) {
        return 0.5f * g * (1.0f + hyperbolic_tangent(0.79788456f * (g + 0.044715f * g * g * g))) * u;
    });
}
void clamped_swiglu(float* y, const float* gate, const float* up, int64_t n) {
    for_each(y, gate, up, nullptr, n, [](Floats g, Floats u, Floats) {
        g = smaller(g, all(7.0f));
        u = smaller(larger(u, all(-7.0f)), all(7.0f));
        return g * sigmoid(1.702f * g) * (u + 1.0f);
    });
}
void sigmoid_gate(float* y, const float* gate, int64_t n) {
    for_each(y, y, gate, nullptr, n, [](Floats a, Floats g, Floats) { return a * sigmoid(g); });
}
void softcap(float* x, float cap, int64_t n) {
    for_each(x, x, nullptr, nullptr, n,
             [=](Floats a, Floats, Floats) { return cap * hyperbolic_tangent(a / cap); });
}
void weighted_sum(float* y, const float* const* x, const float* weights, int count, int64_t n) {
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        Floats total{};
        for (int j = 0; j < count; ++j)
            if (x[j]) total += weights[j] * load(x[j] + i);
        store(y + i, total);
    }
    for (; i < n; ++i) {
        float total = 0;
        for (int j = 0; j < count; ++j)
            if (x[j]) total += weights[j] * x[j][i];
        y[i] = total;
    }
}
void rotate(float* x, const float* cosine, const float* sine, int64_t half, bool adjacent) {
    int64_t i = 0;
    if (!adjacent)
        for (; i + lanes <= half; i += lanes) {
            const Floats a = load(x + i), b = load(x + i + half), c = load(cosine + i), s = load(sine + i);
            store(x + i, a * c - b * s);
            store(x + i + half, a * s + b * c);
        }
    for (; i < half; ++i) {
        float& first = x[adjacent ? 2 * i : i];
        float& second = x[adjacent ? 2 * i + 1 : i + half];
        const float a = first, b = second;
        first = a * cosine[i] - b * sine[i];
        second = a * sine[i] + b * cosine[i];
    }
}
float sum_of_exp(const float* x, float most, int64_t n) {
    Floats total{};
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) total += exponential(load(x + i) - most);
    if (i < n) {
        float last[lanes];
        for (int j = 0; j < lanes; ++j) last[j] = i + j < n ? x[i + j] - most : -1000.0f;
        total += exponential(load(last));
    }
    return sum(total);
}

void to_half(uint16_t* to, const float* from, int64_t n) {
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128(
            reinterpret_cast<__m128i*>(to + i),
            _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
    for (; i < n; ++i) to[i] = float_to_half(from[i]);
}
void from_half(float* to, const uint16_t* from, int64_t n) {
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) store(to + i, load_half(from + i));
    for (; i < n; ++i) to[i] = half_to_float(from[i]);
}
void from_lanes8(float* to, const uint8_t* from, int64_t dims) {
    for (int64_t b = 0; b < dims / 32; ++b, from += 34 * lanes) {
        uint16_t bits[lanes];
        std::memcpy(bits, from, sizeof bits);
        const Floats d = load_half(bits);
        for (int i = 0; i < 32; ++i, to += lanes) store(to, d * load_bytes(from + 2 * lanes + i * lanes));
    }
}
void from_blocks8(float* to, const uint8_t* from, int64_t n) {
    for (int64_t b = 0; b < n / 32; ++b, from += 34, to += 32) {
        uint16_t bits;
        std::memcpy(&bits, from, 2);
        const float d = half_to_float(bits);
        store(to, d * load_bytes(from + 2));
        store(to + lanes, d * load_bytes(from + 2 + lanes));
    }
}

// Queries that are multiplied at once: with two blocks of 16 tokens, or two of 16 dimensions, their sums fill
// half of the registers (AVX2 and SSE2: with one).
constexpr int at_once = parts == 1 ? 8 : parts == 2 ? 4 : 2;
constexpr int wide = parts == 1 ? 2 : 1;

template <int n, int blocks>
COTERIE_INLINE void scores_of(const float* q, const float* k, int dim, float* s, int64_t stride) {
    Floats total[n][blocks] = {};
    for (int d = 0; d < dim; ++d) {
        Floats key[blocks];
        for (int b = 0; b < blocks; ++b) key[b] = load(k + (b * dim + d) * lanes);
        for (int i = 0; i < n; ++i)
            for (int b = 0; b < blocks; ++b) total[i][b] += q[i * dim + d] * key[b];
    }
    for (int i = 0; i < n; ++i)
        for (int b = 0; b < blocks; ++b) store(s + i * stride + b * lanes, total[i][b]);
}
template <int blocks>
void scores_of(const float* q, int queries, const float* k, int dim, float* s, int64_t stride) {
    int i = 0;
    for (; i + at_once <= queries; i += at_once)
        scores_of<at_once, blocks>(q + i * dim, k, dim, s + i * stride, stride);
    if (at_once > 4 && i + 4 <= queries)
        scores_of<4, blocks>(q + i * dim, k, dim, s + i * stride, stride), i += 4;
    for (; i < queries; ++i) scores_of<1, blocks>(q + i * dim, k, dim, s + i * stride, stride);
}
void scores(const float* q, int queries, const float* k, int dim, int blocks, float* s, int64_t stride) {
    int b = 0;
    for (; b + wide <= blocks; b += wide)
        scores_of<wide>(q, queries, k + b * dim * lanes, dim, s + b * lanes, stride);
    for (; b < blocks; ++b) scores_of<1>(q, queries, k + b * dim * lanes, dim, s + b * lanes, stride);
}
float exponentials(float* s, float most, int64_t n) {
    Floats total{};
    for (int64_t i = 0; i < n; i += lanes) {
        const Floats e = exponential(load(s + i) - most);
        store(s + i, e);
        total += e;
    }
    return sum(total);
}
float largest(const float* s, int64_t n) {
    Floats most = load(s);
    for (int64_t i = lanes; i < n; i += lanes) most = larger(most, load(s + i));
    float x[lanes];
    store(x, most);
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) x[i] = x[i] > x[i + half] ? x[i] : x[i + half];
    return x[0];
}
template <int n, int width>
COTERIE_INLINE void values_of(const float* p, int64_t stride, const float* v, int tokens, int dim, float* o) {
    Floats total[n][width];
    for (int i = 0; i < n; ++i)
        for (int w = 0; w < width; ++w) total[i][w] = load(o + i * dim + w * lanes);
    for (int t = 0; t < tokens; ++t) {
        Floats value[width];
        for (int w = 0; w < width; ++w) value[w] = load(v + t * dim + w * lanes);
        for (int i = 0; i < n; ++i)
            for (int w = 0; w < width; ++w) total[i][w] += p[i * stride + t] * value[w];
    }
    for (int i = 0; i < n; ++i)
        for (int w = 0; w < width; ++w) store(o + i * dim + w * lanes, total[i][w]);
}
template <int n>
COTERIE_INLINE void values_of(const float* p, int64_t stride, const float* v, int tokens, int dim, float* o) {
    int d = 0;
    for (; d + wide * lanes <= dim; d += wide * lanes)
        values_of<n, wide>(p, stride, v + d, tokens, dim, o + d);
    for (; d + lanes <= dim; d += lanes) values_of<n, 1>(p, stride, v + d, tokens, dim, o + d);
    for (; d < dim; ++d)
        for (int i = 0; i < n; ++i)
            for (int t = 0; t < tokens; ++t) o[i * dim + d] += p[i * stride + t] * v[t * dim + d];
}
void values(const float* p, int64_t stride, int queries, const float* v, int tokens, int dim, float* o) {
    int i = 0;
    for (; i + at_once <= queries; i += at_once)
        values_of<at_once>(p + i * stride, stride, v, tokens, dim, o + i * dim);
    if (at_once > 4 && i + 4 <= queries)
        values_of<4>(p + i * stride, stride, v, tokens, dim, o + i * dim), i += 4;
    for (; i < queries; ++i) values_of<1>(p + i * stride, stride, v, tokens, dim, o + i * dim);
}

// `n` rows of S at once, so that their sums across lanes overlap.
template <int n>
COTERIE_INLINE void delta_rows(float* S, int dim, const float* q, const float* k, const float* v, float decay,
                               float beta, float query_scale, float* y) {
    const int whole = dim / lanes * lanes;
    Floats seen[n] = {}, out[n] = {};
    float change[n];
    for (int i = 0; i < whole; i += lanes)
        for (int o = 0; o < n; ++o) seen[o] += load(S + o * dim + i) * load(k + i);
    for (int o = 0; o < n; ++o) {
        float tail = 0;
        for (int i = whole; i < dim; ++i) tail += S[o * dim + i] * k[i];
        change[o] = beta * (v[o] - decay * (sum(seen[o]) + tail));
    }
    for (int i = 0; i < whole; i += lanes)
        for (int o = 0; o < n; ++o) {
            const Floats row = decay * load(S + o * dim + i) + change[o] * load(k + i);
            store(S + o * dim + i, row);
            out[o] += row * load(q + i);
        }
    for (int o = 0; o < n; ++o) {
        float tail = 0;
        for (int i = whole; i < dim; ++i) {
            S[o * dim + i] = decay * S[o * dim + i] + change[o] * k[i];
            tail += S[o * dim + i] * q[i];
        }
        y[o] = query_scale * (sum(out[o]) + tail);
    }
}
void delta_step(float* S, int rows, int dim, const float* q, const float* k, const float* v, float decay,
                float beta, float query_scale, float* y) {
    int o = 0;
    for (; o + 4 <= rows; o += 4)
        delta_rows<4>(S + o * dim, dim, q, k, v + o, decay, beta, query_scale, y + o);
    for (; o < rows; ++o) delta_rows<1>(S + o * dim, dim, q, k, v + o, decay, beta, query_scale, y + o);
}

template <int K>
COTERIE_INLINE void convolve_of(float* y, const float* const* u, const float* taps, int64_t begin,
                                int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
        float total = 0;
        for (int k = 0; k < K; ++k) total += taps[c * K + k] * u[k][c];
        y[c] = total;
    }
}
void convolve(float* y, const float* const* u, const float* taps, int K, int64_t begin, int64_t end) {
    if (K == 4) {
        convolve_of<4>(y, u, taps, begin, end);
    } else {
        for (int64_t c = begin; c < end; ++c) {
            float total = 0;
            for (int k = 0; k < K; ++k) total += taps[c * K + k] * u[k][c];
            y[c] = total;
        }
    }
    silu(y + begin, y + begin, nullptr, end - begin);
}

constexpr Elements table{sum_of_squares,
                         scale,
                         add,
                         add_sum_of_squares,
                         silu,
                         gelu,
                         clamped_swiglu,
                         sigmoid_gate,
                         softcap,
                         weighted_sum,
                         rotate,
                         sum_of_exp,
                         to_half,
                         from_half,
                         from_lanes8,
                         from_blocks8,
                         scores,
                         exponentials,
                         largest,
                         values,
                         delta_step,
                         convolve};

#undef COTERIE_INLINE

}  // namespace
}  // namespace coterie::cpu
