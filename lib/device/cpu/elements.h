// Everything that is not a product with weights, one table of functions per instruction set: norms,
// activations, rotations, conversions, the inner loops of attention and of the delta rule. One row or tile
// each, one thread.
#pragma once
#include <cstddef>
#include <cstdint>

#include "device/cpu/isa.h"

namespace coterie::cpu {

enum class CacheType { f32, f16, q8_0 };
constexpr int few_queries = 8;

// What one head has in a step: per token q, k [dim], v, y [values], decay (a log), beta.
struct TokenFloats {
    float* data;
    int64_t stride;  // in floats
    float* operator[](int64_t token) const { return data + token * stride; }
};
struct DeltaTokens {
    int64_t tokens;
    TokenFloats q, k, v, decay, beta, y;
    float query_scale;
};
constexpr int64_t delta_scratch(int64_t rows, int64_t dim) {
    return (rows + 31) / 32 * 32 * dim;
}

struct Elements {
    float (*sum_of_squares)(const float* x, int64_t n);
    void (*scale)(float* y, const float* x, float factor, const float* gain, int64_t n);  // gain may be null
    void (*add)(float* x, const float* y, int64_t n);                                     // x += y
    // x += y, and the sum of the squares of the new x.
    float (*add_sum_of_squares)(float* x, const float* y, int64_t n);
    void (*silu)(float* y, const float* gate, const float* up, int64_t n);  // up may be null
    void (*gelu)(float* y, const float* gate, const float* up, int64_t n);
    void (*clamped_swiglu)(float* y, const float* gate, const float* up, int64_t n);
    void (*sigmoid_gate)(float* y, const float* gate, int64_t n);  // y *= sigmoid(gate)
    void (*softcap)(float* x, float cap, int64_t n);
    // y = sum over j < count of weights[j] * x[j], where x[j] may be null.
    void (*weighted_sum)(float* y, const float* const* x, const float* weights, int count, int64_t n);
    // Rotates pairs of a head: (x[i], x[i + half]), or (x[2i], x[2i + 1]) when adjacent.
    void (*rotate)(float* x, const float* cosine, const float* sine, int64_t half, bool adjacent);
    float (*sum_of_exp)(const float* x, float most, int64_t n);  // sum of exp(x - most)

    void (*to_half)(uint16_t* to, const float* from, int64_t n);
    void (*from_half)(float* to, const uint16_t* from, int64_t n);
    // scale[i] * q[i * 16 + lane] -> float, for 16-lane blocks of 32: see the cache's layout in
    // attention.cpp.
    void (*from_lanes8)(float* to, const uint8_t* from, int64_t dims);
    void (*from_blocks8)(float* to, const uint8_t* from, int64_t n);  // Q8_0 blocks

    // s[i * stride + 16 b + t] = q[i] . k[b][., t] for t < 16; q is [queries][dim], k is [blocks][dim][16] as
    // in the cache. Every key is converted on its way into the product, once per few_queries.
    void (*scores)(const float* q, int queries, CacheType type, const std::byte* k, int dim, int blocks,
                   float* s, int64_t stride);
    // s = exp(s - most) in place for n entries (a multiple of 16); returns their sum.
    float (*exponentials)(float* s, float most, int64_t n);
    float (*largest)(const float* s, int64_t n);  // n a multiple of 16
    // o[i] += sum over t < tokens of p[i * stride + t] * v[t]; o is [queries][dim], v is [tokens][dim] as in
    // the cache, converted likewise.
    void (*values)(const float* p, int64_t stride, int queries, CacheType type, const std::byte* v,
                   int tokens, int dim, float* o);

    // One token of one head of the gated delta rule: S [rows][dim] in place, y [rows].
    void (*delta_step)(float* S, int rows, int dim, const float* q, const float* k, const float* v,
                       float decay, float beta, float query_scale, float* y);
    // Many tokens of one head; `scratch` holds delta_scratch(rows, dim) floats.
    void (*delta_tokens)(float* S, int rows, int dim, const DeltaTokens& tokens, float* scratch);
    // y[c] = silu(sum over k of taps[c * K + k] * u[k][c]) for c in [begin, end).
    void (*convolve)(float* y, const float* const* u, const float* taps, int K, int64_t begin, int64_t end);
};

const Elements& elements(Isa isa);
const Elements& portable_elements();
const Elements& avx2_elements();
const Elements& avx512_elements();

}  // namespace coterie::cpu
