// Attention of each row over the keys of its own sequence, in pages.
//
// y = sum over j of p(j) v(j), p = softmax(scale q k(j)), with an optional sink that takes probability but
// has no value. A block makes one head of one row over one part of the keys: 16 keys at a time, 8 lanes each,
// every lane with its share of the value in registers; the 16 partial sums meet in shared memory. With
// several parts a second kernel joins them. Softmax is kept as (largest score, sum, weighted values)
// throughout. Grid (heads, rows, parts). Bytes: keys and values once per query head. FLOPs: 4 per key,
// dimension and head. Bound by the cache's bandwidth at long contexts, by latency at short ones.
#include "cuda/kernels/attention.h"
#include "cuda/kernels/cache_access.h"
#include "cuda/kernels/kernel_language.h"

namespace coterie::cuda {

namespace {

constexpr int threads = 128, slots = threads / 8;
constexpr float lowest = -INFINITY;

// Of a partial result: the weighted values, the largest score, the sum.
constexpr int64_t partial_floats(int32_t value_dim) {
    return value_dim + 2;
}

// pieces: of 4 numbers per lane, enough for value_dim / 32.
template <int pieces>
__global__ void __launch_bounds__(threads) attend_kernel(AttentionWork w) {
    DYNAMIC_SHARED(float, shared);
    const CacheLayer& c = w.cache;
    float* q = shared;            // [key_dim]
    float* sums = q + c.key_dim;  // [slots][value_dim]
    float* most_of = sums + slots * c.value_dim;
    float* total_of = most_of + slots;
    const int head = int(blockIdx.x), t = int(threadIdx.x), slot = t / 8, lane = t & 7;
    const int64_t row = blockIdx.y;
    const int kv_head = (w.group_offset + head) / w.group;
    const SpanView& span = w.step.spans[w.step.span_of[row]];
    const int32_t last = w.step.positions[row];
    const int32_t first = w.window > 0 ? max(0, last - w.window + 1) : 0;
    const int32_t share = ((last - first) / (w.splits * slots) + 1) * slots;
    const int32_t begin = first + int(blockIdx.z) * share, end = min(last + 1, begin + share);

    for (int i = t; i < c.key_dim; i += threads)
        q[i] = w.q.data[row * w.q.stride + int64_t(head) * c.key_dim + i] * w.scale;
    __syncthreads();

    float4 sum[pieces] = {};
    float most = lowest, total = 0;
#pragma unroll 1
    for (int32_t base = begin; base < end; base += slots) {
        const int32_t j = base + slot;
        const bool on = j < end;
        const uint8_t* page = nullptr;
        int64_t vector = 0;
        float score = 0;
        if (on) {
            page = page_of(c, w.step, span.sequence, j);
            vector = int64_t(j % c.page_tokens) * c.kv_heads + kv_head;
#pragma unroll 2
            for (int i = lane * 4; i < c.key_dim; i += 32) {
                const float4 k =
                    load_four(c.key_type, page + c.keys, page + c.key_scales, vector, c.key_dim, i);
                score += q[i] * k.x + q[i + 1] * k.y + q[i + 2] * k.z + q[i + 3] * k.w;
            }
        }
        score = lanes_sum(score, 8);
        if (!on) continue;
        if (w.softcap > 0) score = w.softcap * tanhf(score / w.softcap);
        const float larger = fmaxf(most, score), old = expf(most - larger), now = expf(score - larger);
        total = total * old + now;
        most = larger;
#pragma unroll
        for (int p = 0; p < pieces; ++p) {
            const int i = p * 32 + lane * 4;
            if (i >= c.value_dim) break;
            const float4 v =
                load_four(c.value_type, page + c.values, page + c.value_scales, vector, c.value_dim, i);
            sum[p] = make_float4(sum[p].x * old + now * v.x, sum[p].y * old + now * v.y,
                                 sum[p].z * old + now * v.z, sum[p].w * old + now * v.w);
        }
    }
#pragma unroll
    for (int p = 0; p < pieces; ++p) {
        const int i = p * 32 + lane * 4;
        if (i >= c.value_dim) break;
        float* to = sums + slot * c.value_dim + i;
        to[0] = sum[p].x, to[1] = sum[p].y, to[2] = sum[p].z, to[3] = sum[p].w;
    }
    if (lane == 0) most_of[slot] = most, total_of[slot] = total;
    __syncthreads();

    const bool whole = w.splits == 1;
    most = whole && w.sinks ? w.sinks[head] : lowest;
    for (int s = 0; s < slots; ++s) most = fmaxf(most, most_of[s]);
    total = whole && w.sinks ? expf(w.sinks[head] - most) : 0.0f;
    // A part without keys has most = -inf everywhere; its factors are zero, not exp(-inf + inf).
    const bool empty = most == lowest;
    for (int s = 0; s < slots; ++s) total += empty ? 0.0f : total_of[s] * expf(most_of[s] - most);
    float* partial =
        w.partial + ((row * w.heads + head) * w.splits + int64_t(blockIdx.z)) * partial_floats(c.value_dim);
    for (int i = t; i < c.value_dim; i += threads) {
        float value = 0;
        for (int s = 0; s < slots && !empty; ++s)
            value += sums[s * c.value_dim + i] * expf(most_of[s] - most);
        if (whole)
            w.y.data[row * w.y.stride + int64_t(head) * c.value_dim + i] = value / total;
        else
            partial[i] = value;
    }
    if (!whole && t == 0) partial[c.value_dim] = most, partial[c.value_dim + 1] = total;
}

__global__ void __launch_bounds__(threads) join_kernel(AttentionWork w) {
    const int head = int(blockIdx.x);
    const int64_t row = blockIdx.y;
    const int32_t dim = w.cache.value_dim;
    const float* parts = w.partial + (row * w.heads + head) * w.splits * partial_floats(dim);
    float most = w.sinks ? w.sinks[head] : lowest;
    for (int s = 0; s < w.splits; ++s) most = fmaxf(most, parts[s * partial_floats(dim) + dim]);
    float total = w.sinks ? expf(w.sinks[head] - most) : 0.0f;
    for (int s = 0; s < w.splits; ++s) {
        const float* part = parts + s * partial_floats(dim);
        total += part[dim + 1] * expf(part[dim] - most);
    }
    for (int i = int(threadIdx.x); i < dim; i += threads) {
        float value = 0;
        for (int s = 0; s < w.splits; ++s) {
            const float* part = parts + s * partial_floats(dim);
            value += part[i] * expf(part[dim] - most);
        }
        w.y.data[row * w.y.stride + int64_t(head) * dim + i] = value / total;
    }
}

}  // namespace

int32_t attention_splits(int64_t rows, int32_t heads, int32_t processors) {
    if (rows > 16) return 1;
    const int64_t blocks = rows * heads, wanted = (4 * int64_t(processors) + blocks - 1) / blocks;
    return int32_t(wanted < 1 ? 1 : wanted > 16 ? 16 : wanted);
}

int64_t attention_scratch_floats(int64_t rows, int32_t heads, int32_t value_dim, int32_t splits) {
    return splits > 1 ? rows * heads * splits * partial_floats(value_dim) : 0;
}

cudaError_t attend(const AttentionWork& w, cudaStream_t stream) {
    if (w.q.rows == 0) return cudaSuccess;
    const CacheLayer& c = w.cache;
    const size_t bytes =
        sizeof(float) * (size_t(c.key_dim) + size_t(slots) * size_t(c.value_dim) + 2 * slots);
    const dim3 grid(unsigned(w.heads), unsigned(w.q.rows), unsigned(w.splits));
    const Launch l{grid, dim3(threads), bytes, stream, "attend"};
    const cudaError_t error = c.value_dim <= 64    ? launch(l, attend_kernel<2>, w)
                              : c.value_dim <= 128 ? launch(l, attend_kernel<4>, w)
                                                   : launch(l, attend_kernel<8>, w);
    if (error != cudaSuccess || w.splits == 1) return error;
    return launch({dim3(unsigned(w.heads), unsigned(w.q.rows)), dim3(threads), 0, stream, "join attention"},
                  join_kernel, w);
}

}  // namespace coterie::cuda
