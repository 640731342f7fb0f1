// The gated delta rule of one value head over many tokens, chunk by chunk: exactly the token-by-token rule in
// real arithmetic (Device::delta_rule), with most of the work in products of small matrices. One thread, no
// allocation.
//
// In a chunk of n tokens, with G the running sum of the decays, E(i, j) = exp(G_i - G_j) and S the state at
// its start:
//   w_i = beta_i (v_i - exp(G_i) S k_i) - sum over j < i of beta_i (k_i . k_j) E(i, j) w_j
//   y_i = exp(G_i) S q_i + sum over j <= i of (q_i . k_j) E(i, j) w_j
//   S   = exp(G_n) S + sum over j of E(n, j) w_j k_j^T
// Differences are taken before exp, as exp(-G_j) alone overflows.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace coterie {

constexpr int64_t delta_chunk_tokens = 64;

// Numbers of scratch that delta_rule_chunked() needs.
constexpr int64_t delta_chunk_scratch(int64_t key_dim, int64_t value_dim) {
    return key_dim * value_dim + delta_chunk_tokens * (key_dim + value_dim + 3);
}

// A column of a step: one number or vector per token, `stride` numbers from token to token.
template <typename Real>
struct Column {
    Real* data = nullptr;
    int64_t stride = 0;
    Real* at(int64_t token) const { return data + token * stride; }
};

// y, v: [tokens][value_dim]; q, k: [tokens][key_dim]; decay (a log, <= 0), beta: [tokens]; state:
// [value_dim][key_dim].
template <typename Real>
void delta_rule_chunked(int64_t tokens, int64_t key_dim, int64_t value_dim, Column<Real> y,
                        Column<const Real> q, Column<const Real> k, Column<const Real> v,
                        Column<const Real> decay, Column<const Real> beta, Real query_scale, Real* state,
                        Real* scratch) {
    Real* const turned = scratch;                                    // S^T: [key_dim][value_dim]
    Real* const keys = turned + key_dim * value_dim;                 // K^T: [key_dim][chunk]
    Real* const w = keys + key_dim * delta_chunk_tokens;             // [chunk][value_dim]
    Real* const sums = w + delta_chunk_tokens * value_dim;           // G
    Real* const key_products = sums + delta_chunk_tokens;            // k_i . k_j
    Real* const query_products = key_products + delta_chunk_tokens;  // q_i . k_j

    // to += factor * from
    const auto add = [](int64_t n, Real factor, const Real* from, Real* to) {
        for (int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
    };
    // to = factor * S x
    const auto apply_state = [&](Real factor, const Real* x, Real* to) {
        std::fill_n(to, value_dim, Real(0));
        for (int64_t d = 0; d < key_dim; ++d) add(value_dim, factor * x[d], turned + d * value_dim, to);
    };
    // to[j] = x . k_j for j < n
    const auto apply_keys = [&](int64_t n, const Real* x, Real* to) {
        std::fill_n(to, n, Real(0));
        for (int64_t d = 0; d < key_dim; ++d) add(n, x[d], keys + d * delta_chunk_tokens, to);
    };

    for (int64_t d = 0; d < key_dim; ++d)
        for (int64_t o = 0; o < value_dim; ++o) turned[d * value_dim + o] = state[o * key_dim + d];
    for (int64_t first = 0; first < tokens; first += delta_chunk_tokens) {
        const int64_t n = std::min(delta_chunk_tokens, tokens - first);
        for (int64_t i = 0; i < n; ++i) {
            sums[i] = *decay.at(first + i) + (i ? sums[i - 1] : Real(0));
            for (int64_t d = 0; d < key_dim; ++d) keys[d * delta_chunk_tokens + i] = k.at(first + i)[d];
        }
        for (int64_t i = 0; i < n; ++i) {
            const int64_t t = first + i;
            const Real b = *beta.at(t);
            apply_keys(i, k.at(t), key_products);
            apply_keys(i + 1, q.at(t), query_products);
            Real* const wi = w + i * value_dim;
            apply_state(-b * std::exp(sums[i]), k.at(t), wi);
            add(value_dim, b, v.at(t), wi);
            apply_state(std::exp(sums[i]) * query_scale, q.at(t), y.at(t));
            for (int64_t j = 0; j < i; ++j) {
                const Real e = std::exp(sums[i] - sums[j]);
                add(value_dim, -b * key_products[j] * e, w + j * value_dim, wi);
                add(value_dim, query_products[j] * e * query_scale, w + j * value_dim, y.at(t));
            }
            add(value_dim, query_products[i] * query_scale, wi, y.at(t));
        }
        for (int64_t d = 0; d < key_dim; ++d) {
            Real* const row = turned + d * value_dim;
            const Real e = std::exp(sums[n - 1]);
            for (int64_t o = 0; o < value_dim; ++o) row[o] *= e;
        }
        for (int64_t j = 0; j < n; ++j) {
            const Real e = std::exp(sums[n - 1] - sums[j]);
            for (int64_t d = 0; d < key_dim; ++d)
                add(value_dim, e * k.at(first + j)[d], w + j * value_dim, turned + d * value_dim);
        }
    }
    for (int64_t d = 0; d < key_dim; ++d)
        for (int64_t o = 0; o < value_dim; ++o) state[o * key_dim + d] = turned[d * value_dim + o];
}

}  // namespace coterie
