// The gated delta rule of one head, for one token and for many.
#pragma once
#include <cmath>

#include "device/cpu/elements.h"
#include "device/cpu/vector16.h"

namespace coterie::cpu {
namespace {

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

// Many tokens, four at a time: in a chunk with S the state before it, g_i the product of the decays up to
// token i, E(i, j) = g_i / g_j and a query scale c,
//   w_i = beta_i v_i - beta_i g_i S k_i - sum over j < i of beta_i (k_i . k_j) E(i, j) w_j
//   y_i = c g_i S q_i + sum over j <= i of c (q_i . k_j) E(i, j) w_j
//   S   = g_n S + sum over j of E(n, j) w_j k_j^T
// which is the rule token by token, with one pass over the state to read and one to write per chunk. The
// state lies turned, in slices [key dim][slice_values] that fit L1, and a slice meets a block of tokens at a
// time.
constexpr int chunk = 4, slice_vectors = parts == 1 ? 2 : 1, slice_values = slice_vectors * lanes;
constexpr int block_chunks = 16;

// What a chunk's tokens are to each other, the same for every slice.
struct DeltaChunk {
    float enter[chunk];         // beta_i g_i
    float leave[chunk];         // c g_i
    float keys[chunk][chunk];   // beta_i (k_i . k_j) E(i, j), j < i
    float reads[chunk][chunk];  // c (q_i . k_j) E(i, j), j <= i
    float carry[chunk];         // E(n, j)
    float whole;                // g_n
};

float dot(const float* a, const float* b, int n) {
    Floats total{};
    int i = 0;
    for (; i + lanes <= n; i += lanes) total += load(a + i) * load(b + i);
    float rest = 0;
    for (; i < n; ++i) rest += a[i] * b[i];
    return sum(total) + rest;
}

void describe(const DeltaTokens& t, int64_t first, int n, int dim, DeltaChunk& c) {
    float decay[chunk], g = 1;
    for (int i = 0; i < n; ++i) {
        const int64_t at = first + i;
        decay[i] = std::exp(*t.decay[at]);
        g *= decay[i];
        const float beta = *t.beta[at];
        c.enter[i] = beta * g;
        c.leave[i] = t.query_scale * g;
        float between = 1;
        for (int j = i; j >= 0; --j) {
            const float* k = t.k[first + j];
            c.reads[i][j] = t.query_scale * between * dot(t.q[at], k, dim);
            if (j < i) c.keys[i][j] = beta * between * dot(t.k[at], k, dim);
            between *= decay[j];
        }
    }
    c.whole = g;
    float after = 1;
    for (int j = n - 1; j >= 0; --j) c.carry[j] = after, after *= decay[j];
}

// to[i] = sum over d of x[i][d] T[d], for n vectors x
template <int n>
COTERIE_INLINE void apply_slice(const float* T, int dim, const float* const* x, Floats (*to)[slice_vectors]) {
    Floats total[n][slice_vectors] = {};
    for (int d = 0; d < dim; ++d, T += slice_values) {
        Floats state[slice_vectors];
        for (int s = 0; s < slice_vectors; ++s) state[s] = load(T + s * lanes);
        for (int i = 0; i < n; ++i)
            for (int s = 0; s < slice_vectors; ++s) total[i][s] += x[i][d] * state[s];
    }
    for (int i = 0; i < n; ++i)
        for (int s = 0; s < slice_vectors; ++s) to[i][s] = total[i][s];
}

// One chunk of n tokens on one slice, whose first value is `value`; `values` of them exist.
template <int n>
COTERIE_INLINE void delta_chunk(float* T, int dim, const DeltaTokens& t, int64_t first, const DeltaChunk& c,
                                int value, int values) {
    const float* x[2 * n];
    for (int i = 0; i < n; ++i) {
        x[i] = t.k[first + i];
        x[n + i] = t.q[first + i];
    }
    Floats seen[2 * n][slice_vectors], w[n][slice_vectors];
    if constexpr (parts == 1) {
        apply_slice<2 * n>(T, dim, x, seen);
    } else {
        apply_slice<n>(T, dim, x, seen);
        apply_slice<n>(T, dim, x + n, seen + n);
    }
    for (int i = 0; i < n; ++i) {
        const float beta = *t.beta[first + i];
        const float* v = t.v[first + i] + value;
        float* y = t.y[first + i] + value;
        float padded[slice_values] = {};
        if (values < slice_values) {
            std::memcpy(padded, v, size_t(values) * sizeof(float));
            v = padded;
        }
        float out[slice_values];
        for (int s = 0; s < slice_vectors; ++s) {
            Floats change = beta * load(v + s * lanes) - c.enter[i] * seen[i][s];
            Floats read = c.leave[i] * seen[n + i][s];
            for (int j = 0; j < i; ++j) {
                change += (-c.keys[i][j]) * w[j][s];
                read += c.reads[i][j] * w[j][s];
            }
            read += c.reads[i][i] * change;
            w[i][s] = change;
            store(out + s * lanes, read);
        }
        std::memcpy(y, out, size_t(values) * sizeof(float));
    }
    for (int j = 0; j < n; ++j)
        for (int s = 0; s < slice_vectors; ++s) w[j][s] = c.carry[j] * w[j][s];
    for (int d = 0; d < dim; ++d, T += slice_values)
        for (int s = 0; s < slice_vectors; ++s) {
            Floats state = c.whole * load(T + s * lanes);
            for (int j = 0; j < n; ++j) state += x[j][d] * w[j][s];
            store(T + s * lanes, state);
        }
}

void delta_tokens(float* S, int rows, int dim, const DeltaTokens& t, float* scratch) {
    const auto slice = [&](int o) { return scratch + int64_t(o / slice_values) * dim * slice_values; };
    for (int o = 0; o < rows; ++o)
        for (int d = 0; d < dim; ++d) slice(o)[d * slice_values + o % slice_values] = S[o * dim + d];
    if (const int last = rows % slice_values)
        for (int d = 0; d < dim; ++d)
            std::memset(slice(rows) + d * slice_values + last, 0,
                        size_t(slice_values - last) * sizeof(float));
    DeltaChunk chunks[block_chunks];
    for (int64_t first = 0; first < t.tokens; first += chunk * block_chunks) {
        const int n = int(t.tokens - first < chunk * block_chunks ? t.tokens - first : chunk * block_chunks);
        for (int i = 0; i < n; i += chunk)
            describe(t, first + i, n - i < chunk ? n - i : chunk, dim, chunks[i / chunk]);
        for (int o = 0; o < rows; o += slice_values) {
            const int values = rows - o < slice_values ? rows - o : slice_values;
            for (int i = 0; i < n; i += chunk) {
                const DeltaChunk& c = chunks[i / chunk];
                switch (n - i) {
                    case 1:
                        delta_chunk<1>(slice(o), dim, t, first + i, c, o, values);
                        break;
                    case 2:
                        delta_chunk<2>(slice(o), dim, t, first + i, c, o, values);
                        break;
                    case 3:
                        delta_chunk<3>(slice(o), dim, t, first + i, c, o, values);
                        break;
                    default:
                        delta_chunk<chunk>(slice(o), dim, t, first + i, c, o, values);
                }
            }
        }
    }
    for (int o = 0; o < rows; ++o)
        for (int d = 0; d < dim; ++d) S[o * dim + d] = slice(o)[d * slice_values + o % slice_values];
}

}  // namespace
}  // namespace coterie::cpu
