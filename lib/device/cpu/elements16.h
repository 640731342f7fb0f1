// The bodies of Elements, in vectors of 16 floats.
#pragma once
#include <type_traits>

#include "device/cpu/delta16.h"
#include "device/cpu/elements.h"
#include "device/cpu/vector16.h"

namespace coterie::cpu {
namespace {

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
    return greatest(most);
}
// A vector of the cache, and how far the next one lies: of 16 tokens' numbers in one dimension (keys), of 16
// dimensions of a token (values).
struct CachedF32 {
    static constexpr int64_t block(int dim) { return int64_t(dim) * lanes * 4; }
    static COTERIE_INLINE Floats key(const std::byte* k, int d) {
        return load(reinterpret_cast<const float*>(k) + d * lanes);
    }
    static constexpr int64_t row(int dim) { return int64_t(dim) * 4; }
    static COTERIE_INLINE Floats value(const std::byte* v, int d) {
        return load(reinterpret_cast<const float*>(v) + d);
    }
    static float one(const std::byte* v, int d) { return reinterpret_cast<const float*>(v)[d]; }
};
struct CachedF16 {
    static constexpr int64_t block(int dim) { return int64_t(dim) * lanes * 2; }
    static COTERIE_INLINE Floats key(const std::byte* k, int d) {
        return load_half(reinterpret_cast<const uint16_t*>(k) + d * lanes);
    }
    static constexpr int64_t row(int dim) { return int64_t(dim) * 2; }
    static COTERIE_INLINE Floats value(const std::byte* v, int d) {
        return load_half(reinterpret_cast<const uint16_t*>(v) + d);
    }
    static float one(const std::byte* v, int d) {
        return half_to_float(reinterpret_cast<const uint16_t*>(v)[d]);
    }
};
struct CachedQ8 {
    static constexpr int64_t block(int dim) { return int64_t(dim / 32) * 34 * lanes; }
    static COTERIE_INLINE Floats key(const std::byte* k, int d) {
        const std::byte* b = k + d / 32 * 34 * lanes;
        return load_half(reinterpret_cast<const uint16_t*>(b)) *
               load_bytes(reinterpret_cast<const uint8_t*>(b) + (2 + d % 32) * lanes);
    }
    static constexpr int64_t row(int dim) { return int64_t(dim / 32) * 34; }
    static COTERIE_INLINE Floats value(const std::byte* v, int d) {
        const std::byte* b = v + d / 32 * 34;
        uint16_t bits;
        std::memcpy(&bits, b, 2);
        return half_to_float(bits) * load_bytes(reinterpret_cast<const uint8_t*>(b) + 2 + d % 32);
    }
    static float one(const std::byte*, int) { return 0; }  // rows are whole blocks of 32
};

template <class Cached, int n, int blocks>
COTERIE_INLINE void scores_of(const float* q, const std::byte* k, int dim, float* s, int64_t stride) {
    Floats total[n][blocks] = {};
    for (int d = 0; d < dim; ++d) {
        Floats key[blocks];
        for (int b = 0; b < blocks; ++b) key[b] = Cached::key(k + b * Cached::block(dim), d);
        for (int i = 0; i < n; ++i)
            for (int b = 0; b < blocks; ++b) total[i][b] += q[i * dim + d] * key[b];
    }
    for (int i = 0; i < n; ++i)
        for (int b = 0; b < blocks; ++b) store(s + i * stride + b * lanes, total[i][b]);
}
template <class Cached, int n>
void scores_of(const float* q, const std::byte* k, int dim, int blocks, float* s, int64_t stride) {
    int b = 0;
    for (; b + wide <= blocks; b += wide)
        scores_of<Cached, n, wide>(q, k + b * Cached::block(dim), dim, s + b * lanes, stride);
    for (; b < blocks; ++b)
        scores_of<Cached, n, 1>(q, k + b * Cached::block(dim), dim, s + b * lanes, stride);
}
template <class Cached, int n, int width>
COTERIE_INLINE void values_of(const float* p, int64_t stride, const std::byte* v, int tokens, int dim, int d,
                              float* o) {
    Floats total[n][width];
    for (int i = 0; i < n; ++i)
        for (int w = 0; w < width; ++w) total[i][w] = load(o + i * dim + d + w * lanes);
    for (int t = 0; t < tokens; ++t, v += Cached::row(dim)) {
        Floats value[width];
        for (int w = 0; w < width; ++w) value[w] = Cached::value(v, d + w * lanes);
        for (int i = 0; i < n; ++i)
            for (int w = 0; w < width; ++w) total[i][w] += p[i * stride + t] * value[w];
    }
    for (int i = 0; i < n; ++i)
        for (int w = 0; w < width; ++w) store(o + i * dim + d + w * lanes, total[i][w]);
}
template <class Cached, int n>
void values_of(const float* p, int64_t stride, const std::byte* v, int tokens, int dim, float* o) {
    int d = 0;
    for (; d + wide * lanes <= dim; d += wide * lanes)
        values_of<Cached, n, wide>(p, stride, v, tokens, dim, d, o);
    for (; d + lanes <= dim; d += lanes) values_of<Cached, n, 1>(p, stride, v, tokens, dim, d, o);
    for (; d < dim; ++d)
        for (int i = 0; i < n; ++i)
            for (int t = 0; t < tokens; ++t)
                o[i * dim + d] += p[i * stride + t] * Cached::one(v + t * Cached::row(dim), d);
}
// function(first query, constant of how many) until all queries are done
template <typename Function>
COTERIE_INLINE void for_queries(int queries, Function&& function) {
    int i = 0;
    for (; i + at_once <= queries; i += at_once) function(i, std::integral_constant<int, at_once>());
    switch (queries - i) {
        case 1:
            return function(i, std::integral_constant<int, 1>());
        case 2:
            return function(i, std::integral_constant<int, 2>());
        case 3:
            return function(i, std::integral_constant<int, 3>());
        case 4:
            return function(i, std::integral_constant<int, 4>());
        case 5:
            return function(i, std::integral_constant<int, 5>());
        case 6:
            return function(i, std::integral_constant<int, 6>());
        case 7:
            return function(i, std::integral_constant<int, 7>());
    }
}
template <class Cached>
void scores_from(const float* q, int queries, const std::byte* k, int dim, int blocks, float* s,
                 int64_t stride) {
    for_queries(queries, [&](int i, auto n) {
        scores_of<Cached, n()>(q + i * dim, k, dim, blocks, s + i * stride, stride);
    });
}
template <class Cached>
void values_from(const float* p, int64_t stride, int queries, const std::byte* v, int tokens, int dim,
                 float* o) {
    for_queries(queries, [&](int i, auto n) {
        values_of<Cached, n()>(p + i * stride, stride, v, tokens, dim, o + i * dim);
    });
}
void scores(const float* q, int queries, CacheType type, const std::byte* k, int dim, int blocks, float* s,
            int64_t stride) {
    switch (type) {
        case CacheType::f32:
            return scores_from<CachedF32>(q, queries, k, dim, blocks, s, stride);
        case CacheType::f16:
            return scores_from<CachedF16>(q, queries, k, dim, blocks, s, stride);
        case CacheType::q8_0:
            return scores_from<CachedQ8>(q, queries, k, dim, blocks, s, stride);
    }
}
void values(const float* p, int64_t stride, int queries, CacheType type, const std::byte* v, int tokens,
            int dim, float* o) {
    switch (type) {
        case CacheType::f32:
            return values_from<CachedF32>(p, stride, queries, v, tokens, dim, o);
        case CacheType::f16:
            return values_from<CachedF16>(p, stride, queries, v, tokens, dim, o);
        case CacheType::q8_0:
            return values_from<CachedQ8>(p, stride, queries, v, tokens, dim, o);
    }
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

constexpr Elements table{sum_of_squares, scale,        add,         add_sum_of_squares, silu,    gelu,
                         clamped_swiglu, sigmoid_gate, softcap,     weighted_sum,       rotate,  sum_of_exp,
                         to_half,        from_half,    from_lanes8, from_blocks8,       scores,  exponentials,
                         largest,        values,       delta_step,  delta_tokens,       convolve};

}  // namespace
}  // namespace coterie::cpu
