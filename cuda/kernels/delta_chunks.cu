// The gated delta rule over a prompt, 16 tokens at a time: in real arithmetic the token-by-token rule of
// recurrent.cu, with products of small matrices in place of a chain of 16.
//
// With G the running sum of the decays in a chunk, E(i, j) = exp(G_i - G_j) and S the state at its start:
//   w_i = beta_i (v_i - exp(G_i) S k_i) - sum over j < i of beta_i (k_i . k_j) E(i, j) w_j
//   y_i = exp(G_i) S q_i + sum over j <= i of (q_i . k_j) E(i, j) w_j
//   S   = exp(G_16) S + sum over j of E(16, j) w_j k_j^T
// Differences are taken before exp, as exp(-G_j) alone overflows. Tokens past the end have beta, k and q of
// 0.
//
// A block keeps 32 rows of S [value dim, key dim] in shared memory through a span; its 128 threads make
// 2 x 2 tiles of the products. Grid (value dim / 32, value heads, spans); 38 KiB of shared memory. Bytes: the
// state once in, once out, q and k once per 32 rows, v and y once. FLOPs per token and row: 6 per number of
// the state, and 64 for q k^T and k k^T. Bound by shared memory: about 4 FMAs per 4 bytes loaded.
#include "cuda/kernels/kernel_language.h"
#include "cuda/kernels/recurrent.h"

namespace coterie::cuda {

namespace {

constexpr int threads = 128, tokens = 16, values = 32;
constexpr int stride = most_chunked_key_dim + 4;  // neighbouring rows begin in other banks

__device__ __forceinline__ float dot(const float4& a, const float4& b, float sum) {
    return sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
__device__ __forceinline__ float4 four(const float4* rows, int row, int d) {
    return load_whole(rows + (row * stride + d) / 4);
}

__global__ void __launch_bounds__(threads, 2) chunk_kernel(DeltaWork w) {
    SHARED(float4, state, [values * stride / 4]);
    SHARED(float4, keys, [tokens * stride / 4]);
    SHARED(float4, queries, [tokens * stride / 4]);
    SHARED(float, below, [tokens * tokens]);         // beta_i (k_i . k_j) E(i, j) for j < i
    SHARED(float, through, [tokens * tokens]);       // (q_i . k_j) E(i, j) for j <= i
    SHARED(float4, changes, [tokens * values / 4]);  // w
    SHARED(float, sums, [tokens]);                   // G
    SHARED(float, betas, [tokens]);
    float* state_numbers = reinterpret_cast<float*>(state);
    float* change = reinterpret_cast<float*>(changes);

    const StateLayer& l = w.layer;
    const SpanView& span = w.step.spans[blockIdx.z];
    if (span.rows < w.fewest_chunked) return;
    const int head = int(blockIdx.y), first_value = int(blockIdx.x) * values, t = int(threadIdx.x);
    const int key_head = w.tiled ? head % w.key_heads : head / (l.value_heads / w.key_heads);
    const int dim = l.key_dim, dim4 = (dim + 3) / 4 * 4;
    float* stored = l.data + span.state * l.slot_floats + int64_t(l.taps - 1) * l.channels +
                    (int64_t(head) * l.value_dim + first_value) * dim;
    const float* q = w.q.data + int64_t(key_head) * dim;
    const float* k = w.k.data + int64_t(key_head) * dim;
    const float* v = w.v.data + int64_t(head) * l.value_dim + first_value;
    float* y = w.y.data + int64_t(head) * l.value_dim + first_value;
    const int held = l.value_dim - first_value;  // rows of the state from here on

    for (int o = warp_index(); o < values; o += threads / 32)
        for (int d = lane_index(); d < dim4; d += 32)
            state_numbers[o * stride + d] = o < held && d < dim ? stored[int64_t(o) * dim + d] : 0.0f;
    // What this thread makes of each chunk: tokens `token` and + 8; keys or values `across` and + 16.
    const int across = t & 15, token = t >> 4;

    for (int first = 0; first < span.rows; first += tokens) {
        const int n = min(tokens, span.rows - first);
        const int64_t row = span.first_row + first;
        for (int i = warp_index(); i < tokens; i += threads / 32)
            for (int d = lane_index(); d < dim4; d += 32) {
                const bool on = i < n && d < dim;
                reinterpret_cast<float*>(keys)[i * stride + d] = on ? k[(row + i) * w.k.stride + d] : 0.0f;
                reinterpret_cast<float*>(queries)[i * stride + d] = on ? q[(row + i) * w.q.stride + d] : 0.0f;
            }
        if (t < tokens) {
            float sum = 0;
            for (int j = 0; j <= t && j < n; ++j) sum += w.decay.data[(row + j) * w.decay.stride + head];
            sums[t] = sum;
            betas[t] = t < n ? w.beta.data[(row + t) * w.beta.stride + head] : 0.0f;
        }
        __syncthreads();

        float kk[2] = {}, qk[2] = {}, sk[2][2] = {}, sq[2][2] = {};
        for (int d = 0; d < dim4; d += 4) {
            const float4 key = four(keys, across, d);
            const float4 s[2] = {four(state, across, d), four(state, across + 16, d)};
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float4 ki = four(keys, token + 8 * i, d), qi = four(queries, token + 8 * i, d);
                kk[i] = dot(ki, key, kk[i]);
                qk[i] = dot(qi, key, qk[i]);
#pragma unroll
                for (int o = 0; o < 2; ++o) {
                    sk[i][o] = dot(ki, s[o], sk[i][o]);
                    sq[i][o] = dot(qi, s[o], sq[i][o]);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int at = token + 8 * i;
            const float e = across <= at ? expf(sums[at] - sums[across]) : 0.0f, whole = expf(sums[at]);
            below[at * tokens + across] = across < at ? betas[at] * kk[i] * e : 0.0f;
            through[at * tokens + across] = qk[i] * e;
#pragma unroll
            for (int o = 0; o < 2; ++o) {
                const int value = across + 16 * o;
                const float given = at < n && value < held ? v[(row + at) * w.v.stride + value] : 0.0f;
                change[at * values + value] = betas[at] * (given - whole * sk[i][o]);
                sq[i][o] *= whole;
            }
        }
        __syncthreads();

        if (t < values) {  // a lane per value: forward substitution
            float known[tokens];
#pragma unroll
            for (int i = 0; i < tokens; ++i) {
                known[i] = change[i * values + t];
#pragma unroll
                for (int j = 0; j < i; ++j) known[i] -= below[i * tokens + j] * known[j];
                change[i * values + t] = known[i];
            }
        }
        __syncthreads();

#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int at = token + 8 * i;
            for (int j = 0; j < tokens; ++j) {
                const float f = through[at * tokens + j];
#pragma unroll
                for (int o = 0; o < 2; ++o) sq[i][o] += f * change[j * values + across + 16 * o];
            }
#pragma unroll
            for (int o = 0; o < 2; ++o)
                if (at < n && across + 16 * o < held)
                    y[(row + at) * w.y.stride + across + 16 * o] = sq[i][o] * w.query_scale;
        }
        // A warp has 8 rows of the state, a lane 4 numbers of each.
        const int d = lane_index() * 4, o = warp_index() * 8;
        if (d < dim4) {
            float4 s[8];
            const float whole = expf(sums[tokens - 1]);
#pragma unroll
            for (int r = 0; r < 8; ++r) {
                s[r] = four(state, o + r, d);
                s[r] = make_float4(s[r].x * whole, s[r].y * whole, s[r].z * whole, s[r].w * whole);
            }
            for (int j = 0; j < tokens; ++j) {
                const float e = expf(sums[tokens - 1] - sums[j]);
                float4 key = four(keys, j, d);
                key = make_float4(key.x * e, key.y * e, key.z * e, key.w * e);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const float4 by = load_whole(changes + (j * values + o) / 4 + half);
                    const float factor[4] = {by.x, by.y, by.z, by.w};
#pragma unroll
                    for (int r = 0; r < 4; ++r) {
                        float4& to = s[half * 4 + r];
                        to = make_float4(to.x + factor[r] * key.x, to.y + factor[r] * key.y,
                                         to.z + factor[r] * key.z, to.w + factor[r] * key.w);
                    }
                }
            }
#pragma unroll
            for (int r = 0; r < 8; ++r) store_whole(state + ((o + r) * stride + d) / 4, s[r]);
        }
        __syncthreads();
    }
    for (int o = warp_index(); o < values && o < held; o += threads / 32)
        for (int d = lane_index(); d < dim; d += 32)
            stored[int64_t(o) * dim + d] = state_numbers[o * stride + d];
}

}  // namespace

cudaError_t chunked_delta_rule(const DeltaWork& w, cudaStream_t stream) {
    const StateLayer& l = w.layer;
    if (l.key_dim > most_chunked_key_dim) return cudaErrorInvalidValue;
    return launch({dim3(parts_of(l.value_dim, values), unsigned(l.value_heads), unsigned(w.spans)),
                   dim3(threads), 0, stream, "delta_chunks"},
                  chunk_kernel, w);
}

}  // namespace coterie::cuda
