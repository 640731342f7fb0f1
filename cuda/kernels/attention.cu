// Attention of rows over the keys of their own sequence, in pages.
//
// y = sum over j of p(j) v(j), p = softmax(scale q k(j)), with an optional sink that takes probability but
// has no value. A block makes a tile of queries that share a kv head: neighbouring rows of one sequence, and
// all heads of the group. Keys come to shared memory as F32, 32 at a time (16 where vectors are longer than
// 128 numbers), are met by every query, and make room for their values; softmax is kept as (largest score,
// sum, weighted values) throughout. A tile has 8 queries where every sequence brings one row, so that a step
// of decoding loads keys and values once per kv head, and 32 (16) in a prompt. With several parts of the keys
// a second kernel joins them. Grid (tiles, kv heads, parts). Bytes: keys and values once per tile. FLOPs: 4
// per key, dimension and query. Bound by the cache's bandwidth in decode, by F32 arithmetic in a prompt.
#include "cuda/kernels/attention.h"
#include "cuda/kernels/cache_access.h"
#include "cuda/kernels/kernel_language.h"

namespace coterie::cuda {

namespace {

constexpr int threads = 128, few_queries = 8;
constexpr float lowest = -INFINITY;

// Of a partial result: the weighted values, the largest score, the sum.
constexpr int64_t partial_floats(int32_t value_dim) {
    return value_dim + 2;
}

// Query heads of a kv head that a tile takes, and rows.
constexpr int heads_of_tile(int32_t group, int queries) {
    return group < queries ? group : queries;
}

// Queries of a block: head `head` + i % heads of row `row` + i / heads, for i < count.
struct QueryTile {
    int32_t row, rows, head, heads, kv_head, sequence;
    int count;
};

template <int queries>
__device__ __forceinline__ bool find_tile(const AttentionWork& w, QueryTile& tile) {
    const int heads = heads_of_tile(w.group, queries), chunks = (w.group + heads - 1) / heads;
    tile.kv_head = int(blockIdx.y) / chunks;
    const int group_begin = tile.kv_head * w.group - w.group_offset;
    const int begin = group_begin + int(blockIdx.y) % chunks * heads;
    const int end = min(min(begin + heads, group_begin + w.group), w.heads);
    tile.head = max(begin, 0);
    tile.heads = end - tile.head;
    if (tile.heads <= 0) return false;
    const int rows_each = queries / heads;
    int index = int(blockIdx.x);
    for (int s = 0; s < w.spans; ++s) {
        const SpanView& span = w.step.spans[s];
        const int tiles = (span.rows + rows_each - 1) / rows_each;
        if (index < tiles) {
            tile.row = span.first_row + index * rows_each;
            tile.rows = min(rows_each, span.rows - index * rows_each);
            tile.sequence = span.sequence;
            tile.count = tile.rows * tile.heads;
            return true;
        }
        index -= tiles;
    }
    return false;
}

// The keys or values of positions [base, base + keys), zeros from `end` on.
template <int keys, int stride>
__device__ __forceinline__ void load_tile(float* to, const AttentionWork& w, const QueryTile& tile,
                                          int32_t base, int32_t end, bool values) {
    const CacheLayer& c = w.cache;
    const Type type = values ? c.value_type : c.key_type;
    const int dim = values ? c.value_dim : c.key_dim;
    for (int key = int(threadIdx.x) >> 3; key < keys; key += threads / 8) {
        const int32_t j = base + key;
        const bool on = j < end;
        const uint8_t* page = on ? page_of(c, w.step, tile.sequence, j) : c.pages;
        const uint8_t *numbers = page + (values ? c.values : c.keys),
                      *scales = page + (values ? c.value_scales : c.key_scales);
        const int64_t vector = int64_t(j % c.page_tokens) * c.kv_heads + tile.kv_head;
        for (int i = (int(threadIdx.x) & 7) * 4; i < dim; i += 32) {
            float4 four = make_float4(0, 0, 0, 0);
            if (on) four = load_four(type, numbers, scales, vector, dim, i);
            store_whole(reinterpret_cast<float4*>(to + key * stride + i), four);
        }
    }
}

// Three blocks at once leave 168 registers a thread; left to itself, ptxas goes for more blocks and spills.
template <int most_dim, int queries, int keys>
__global__ void __launch_bounds__(threads, 3) attend_kernel(AttentionWork w) {
    // Rows of vectors begin in different banks.
    constexpr int stride = most_dim + 4, p_stride = keys + 4;
    // For the scores: 16 threads across keys, 8 down queries. For the values: `lanes` across a vector.
    constexpr int score_rows = queries / 8, score_keys = keys / 16;
    constexpr int lanes = most_dim / 4 < 32 ? most_dim / 4 : 32, pieces = most_dim / 4 / lanes;
    constexpr int sets = threads / lanes, set_rows = queries / sets;
    // For the softmax: so many threads share a query.
    constexpr int sharers = threads / queries;
    static_assert(score_rows > 0 && score_keys > 0 && set_rows > 0);
    SHARED(float4, q_four, [queries * stride / 4]);
    SHARED(float4, tile_four, [keys * stride / 4]);
    SHARED(float4, p_four, [queries * p_stride / 4]);
    SHARED(float, fade, [queries]);
    SHARED(float, most_of, [queries]);
    SHARED(float, total_of, [queries]);
    float *q = reinterpret_cast<float*>(q_four), *kv = reinterpret_cast<float*>(tile_four),
          *p = reinterpret_cast<float*>(p_four);
    QueryTile tile;
    if (!find_tile<queries>(w, tile)) return;
    const CacheLayer& c = w.cache;
    const int t = int(threadIdx.x);
    const int32_t last = w.step.positions[tile.row + tile.rows - 1];
    const int32_t first = w.window > 0 ? max(0, w.step.positions[tile.row] - w.window + 1) : 0;
    const int32_t share = ((last - first) / (w.splits * keys) + 1) * keys;
    const int32_t begin = first + int(blockIdx.z) * share, end = min(last + 1, begin + share);

    for (int i = t >> 3; i < queries; i += threads / 8)
        for (int d = (t & 7) * 4; d < c.key_dim; d += 32) {
            float4 four = make_float4(0, 0, 0, 0);
            if (i < tile.count) {
                const float* from = w.q.data + (tile.row + i / tile.heads) * w.q.stride +
                                    int64_t(tile.head + i % tile.heads) * c.key_dim + d;
                four =
                    make_float4(from[0] * w.scale, from[1] * w.scale, from[2] * w.scale, from[3] * w.scale);
            }
            store_whole(reinterpret_cast<float4*>(q + i * stride + d), four);
        }

    const int across = t & 15, down = t >> 4;             // of the scores
    const int lane = t % lanes, set = t / lanes;          // of the values
    const int query = t / sharers, sharer = t % sharers;  // of the softmax
    float4 sums[set_rows][pieces] = {};
    float most = lowest, total = 0;
#pragma unroll 1
    for (int32_t base = begin; base < end; base += keys) {
        load_tile<keys, stride>(kv, w, tile, base, end, false);
        __syncthreads();
        float scores[score_rows][score_keys] = {};
#pragma unroll 2
        for (int d = 0; d < c.key_dim; d += 4) {
            float4 k[score_keys];
#pragma unroll
            for (int j = 0; j < score_keys; ++j)
                k[j] = load_whole(reinterpret_cast<const float4*>(kv + (across + 16 * j) * stride + d));
#pragma unroll
            for (int i = 0; i < score_rows; ++i) {
                if (8 * i >= tile.count) break;
                const float4 x = load_whole(reinterpret_cast<const float4*>(q + (down + 8 * i) * stride + d));
#pragma unroll
                for (int j = 0; j < score_keys; ++j)
                    scores[i][j] += x.x * k[j].x + x.y * k[j].y + x.z * k[j].z + x.w * k[j].w;
            }
        }
#pragma unroll
        for (int i = 0; i < score_rows; ++i) {
            const int number = down + 8 * i;
            const int32_t position =
                number < tile.count ? w.step.positions[tile.row + number / tile.heads] : -1;
#pragma unroll
            for (int j = 0; j < score_keys; ++j) {
                const int32_t key = base + across + 16 * j;
                float score = scores[i][j];
                if (w.softcap > 0) score = w.softcap * tanhf(score / w.softcap);
                const bool seen =
                    key < end && key <= position && (w.window <= 0 || position - key < w.window);
                p[number * p_stride + across + 16 * j] = seen ? score : lowest;
            }
        }
        __syncthreads();
        // The keys have been used: the values take their place while probabilities are formed.
        load_tile<keys, stride>(kv, w, tile, base, end, true);
        float larger = most;
        for (int j = sharer; j < keys; j += sharers) larger = fmaxf(larger, p[query * p_stride + j]);
        larger = lanes_max(larger, sharers);
        const bool none = larger == lowest;  // nothing seen so far: exp(-inf + inf) is no number
        float sum = 0;
        for (int j = sharer; j < keys; j += sharers) {
            const float now = none ? 0.0f : expf(p[query * p_stride + j] - larger);
            p[query * p_stride + j] = now;
            sum += now;
        }
        const float old = none ? 1.0f : expf(most - larger);
        total = total * old + lanes_sum(sum, sharers);
        most = larger;
        if (sharer == 0) fade[query] = old;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < set_rows; ++i) {
            const float old_sums = fade[set + sets * i];
#pragma unroll
            for (int n = 0; n < pieces; ++n) {
                float4& s = sums[i][n];
                s = make_float4(s.x * old_sums, s.y * old_sums, s.z * old_sums, s.w * old_sums);
            }
        }
#pragma unroll 1
        for (int key = 0; key < keys; key += 4) {
#pragma unroll
            for (int n = 0; n < pieces; ++n) {
                const int d = (n * lanes + lane) * 4;
                if (d >= c.value_dim) break;
                float4 v[4];
#pragma unroll
                for (int k = 0; k < 4; ++k)
                    v[k] = load_whole(reinterpret_cast<const float4*>(kv + (key + k) * stride + d));
#pragma unroll
                for (int i = 0; i < set_rows; ++i) {
                    const int number = set + sets * i;
                    const float4 f = load_whole(reinterpret_cast<const float4*>(p + number * p_stride + key));
                    float4& s = sums[i][n];
                    s.x += f.x * v[0].x + f.y * v[1].x + f.z * v[2].x + f.w * v[3].x;
                    s.y += f.x * v[0].y + f.y * v[1].y + f.z * v[2].y + f.w * v[3].y;
                    s.z += f.x * v[0].z + f.y * v[1].z + f.z * v[2].z + f.w * v[3].z;
                    s.w += f.x * v[0].w + f.y * v[1].w + f.z * v[2].w + f.w * v[3].w;
                }
            }
        }
        __syncthreads();
    }
    if (sharer == 0) most_of[query] = most, total_of[query] = total;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < set_rows; ++i) {
        const int number = set + sets * i;
        if (number >= tile.count) break;
        const int64_t row = tile.row + number / tile.heads;
        const int head = tile.head + number % tile.heads;
        const bool whole = w.splits == 1;
        float factor = 1;
        float* to = w.partial +
                    ((row * w.heads + head) * w.splits + int64_t(blockIdx.z)) * partial_floats(c.value_dim);
        if (whole) {
            // A sink takes probability and has no value.
            const float own = most_of[number], sink = w.sinks ? w.sinks[head] : lowest;
            const float larger = fmaxf(own, sink), kept = expf(own - larger);
            factor = kept / (total_of[number] * kept + expf(sink - larger));
            to = w.y.data + row * w.y.stride + int64_t(head) * c.value_dim;
        }
#pragma unroll
        for (int n = 0; n < pieces; ++n) {
            const int d = (n * lanes + lane) * 4;
            if (d >= c.value_dim) break;
            const float4 s = sums[i][n];
            to[d] = s.x * factor, to[d + 1] = s.y * factor, to[d + 2] = s.z * factor,
            to[d + 3] = s.w * factor;
        }
        if (!whole && lane == 0) {
            to[c.value_dim] = most_of[number];
            to[c.value_dim + 1] = total_of[number];
        }
    }
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

int32_t attention_splits(int64_t rows, int32_t heads, int32_t group, int32_t processors) {
    if (rows > 16) return 1;
    const int64_t blocks = rows * parts_of(heads, heads_of_tile(group, few_queries)),
                  wanted = (4 * int64_t(processors) + blocks - 1) / blocks;
    return int32_t(wanted < 1 ? 1 : wanted > 32 ? 32 : wanted);
}

int64_t attention_scratch_floats(int64_t rows, int32_t heads, int32_t value_dim, int32_t splits) {
    return splits > 1 ? rows * heads * splits * partial_floats(value_dim) : 0;
}

namespace {

template <int most_dim, int queries, int keys>
cudaError_t launch_attend(const AttentionWork& w, cudaStream_t stream) {
    const int heads = heads_of_tile(w.group, queries), rows_each = queries / heads;
    const unsigned chunks = parts_of(w.group, heads);
    // Tiles don't cross from one span to the next; the most there can be.
    const unsigned tiles = parts_of(w.q.rows + int64_t(w.spans) * (rows_each - 1), rows_each);
    return launch({dim3(tiles, unsigned(w.cache.kv_heads) * chunks, unsigned(w.splits)), dim3(threads), 0,
                   stream, "attend"},
                  attend_kernel<most_dim, queries, keys>, w);
}

}  // namespace

cudaError_t attend(const AttentionWork& w, cudaStream_t stream) {
    if (w.q.rows == 0) return cudaSuccess;
    const int32_t dim = w.cache.key_dim > w.cache.value_dim ? w.cache.key_dim : w.cache.value_dim;
    const bool few = w.q.rows <= w.spans;  // a row each
    const cudaError_t error =
        dim <= 64 ? few ? launch_attend<64, few_queries, 32>(w, stream) : launch_attend<64, 32, 32>(w, stream)
        : dim <= 128
            ? few ? launch_attend<128, few_queries, 32>(w, stream) : launch_attend<128, 32, 32>(w, stream)
        : few ? launch_attend<256, few_queries, 16>(w, stream)
              : launch_attend<256, 16, 16>(w, stream);
    if (error != cudaSuccess || w.splits == 1) return error;
    return launch({dim3(unsigned(w.heads), unsigned(w.q.rows)), dim3(threads), 0, stream, "join attention"},
                  join_kernel, w);
}

}  // namespace coterie::cuda
