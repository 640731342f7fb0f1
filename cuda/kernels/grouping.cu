// Sorts a step's choices of experts by expert and cuts them into row tiles.
//
// One block of 256 threads: counts per expert in shared memory, a running sum over experts of places and of
// tiles (a thread has up to 5 neighbours, then eight doublings), tiles written, and each choice takes the
// next place of its expert. Choices whose expert is elsewhere are the last bucket. Bytes: 8 read and 4
// written per choice, 12 per tile. Bound by latency and by atomics in shared memory; a few microseconds.
#include <algorithm>

#include "cuda/kernels/kernel_language.h"
#include "cuda/kernels/tiles.h"

namespace coterie::cuda {

namespace {

constexpr int threads = 256, most_buckets = most_grouped_experts + 1;

__global__ void __launch_bounds__(threads)
    group_kernel(Grouping to, const int32_t* chosen, int32_t first, int32_t count, int32_t experts) {
    SHARED(int, next, [most_buckets]);
    SHARED(int, places, [2][threads]);
    SHARED(int, tiles, [2][threads]);
    const int t = int(threadIdx.x), buckets = experts + 1, each = (buckets + threads - 1) / threads;
    const auto bucket_of = [&](int choice) {
        const int expert = chosen[choice] - first;
        return expert >= 0 && expert < experts ? expert : experts;
    };
    const auto tiles_of = [&](int rows) { return (rows + to.tile_rows - 1) / to.tile_rows; };
    for (int b = t; b < buckets; b += threads) next[b] = 0;
    __syncthreads();
    for (int c = t; c < count; c += threads) atomicAdd(&next[bucket_of(c)], 1);
    __syncthreads();
    int rows = 0, row_tiles = 0;
    for (int b = t * each; b < min(buckets, (t + 1) * each); ++b) {
        rows += next[b];
        row_tiles += tiles_of(next[b]);
    }
    int from = 0;
    places[0][t] = rows, tiles[0][t] = row_tiles;
    __syncthreads();
    for (int step = 1; step < threads; step *= 2) {
        places[1 - from][t] = places[from][t] + (t >= step ? places[from][t - step] : 0);
        tiles[1 - from][t] = tiles[from][t] + (t >= step ? tiles[from][t - step] : 0);
        from = 1 - from;
        __syncthreads();
    }
    int place = places[from][t] - rows, tile = tiles[from][t] - row_tiles;
    for (int b = t * each; b < min(buckets, (t + 1) * each); ++b) {
        const int n = next[b];
        for (int begin = 0; begin < n; begin += to.tile_rows)
            to.tiles[tile++] = RowTile{b < experts ? b : -1, place + begin, min(to.tile_rows, n - begin)};
        next[b] = place;
        place += n;
    }
    for (int left = tiles[from][threads - 1] + t; left < to.most; left += threads)
        to.tiles[left] = RowTile{-1, 0, 0};
    __syncthreads();
    for (int c = t; c < count; c += threads) to.order[atomicAdd(&next[bucket_of(c)], 1)] = c;
}

}  // namespace

int32_t rows_of_tile(int64_t choices, int32_t experts) {
    return choices > 40 * int64_t(std::max(experts, 1)) ? 64 : 32;
}

int32_t most_tiles(int64_t choices, int32_t experts, int32_t tile_rows) {
    return int32_t(choices / tile_rows + std::min<int64_t>(choices, experts + 1));
}

cudaError_t group_choices(const Grouping& to, const Choices& choices, int64_t count, int32_t experts,
                          cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    if (experts > most_grouped_experts || count > INT32_MAX) return cudaErrorInvalidValue;
    return launch({dim3(1), dim3(threads), 0, stream, "group_choices"}, group_kernel, to, choices.experts,
                  choices.first, int32_t(count), experts);
}

}  // namespace coterie::cuda
