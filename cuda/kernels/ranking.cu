// The count largest numbers of each row, in order.
//
// A number and its index make a key of 64 bits whose order is the wanted one: the number's bits turned so
// that they compare as integers, then the index, lower first; no two are equal. A block sorts 2048 keys in
// shared memory (bitonic, 66 passes of 4 exchanges per thread) and hands on the first count; launches follow
// until one block is left per row: 250,000 numbers take three or four. Grid (pieces, rows). Bytes: 4 per
// number, 8 per key handed on, twice. Bound by the passes' barriers: some 10 us a launch, next to the 350 us
// that a head of 250,000 rows takes.
#include "cuda/kernels/kernel_language.h"
#include "cuda/kernels/ranking.h"

namespace coterie::cuda {

namespace {

constexpr int threads = 256, piece = 2048;
constexpr uint32_t sign = 0x80000000u;
constexpr uint32_t order_of_lowest = ~0xff800000u;  // of -inf

// Larger numbers have larger orders; NaN is -inf and -0 is 0.
__device__ __forceinline__ uint32_t order_of(float value) {
    if (value != value) return order_of_lowest;
    const uint32_t bits = value == 0.0f ? 0u : uint32_t(__float_as_int(value));
    return bits & sign ? ~bits : bits | sign;
}

struct Ranking {
    View x;
    const uint64_t* in = nullptr;  // [rows][width]; null: x
    uint64_t* out = nullptr;       // [rows][pieces][count]; null: best
    RankedNumber* best = nullptr;
    int32_t width = 0, count = 0;
};

__global__ void __launch_bounds__(threads) rank_kernel(Ranking w) {
    SHARED(uint64_t, keys, [piece]);
    const int64_t row = blockIdx.y;
    const int32_t first = int32_t(blockIdx.x) * piece;
    const float* numbers = w.x.data + row * w.x.stride;
    for (int i = int(threadIdx.x); i < piece; i += threads) {
        const int32_t at = first + i;
        uint64_t key = 0;
        if (at < w.width)
            key = w.in ? w.in[row * w.width + at] : uint64_t(order_of(numbers[at])) << 32 | uint32_t(~at);
        keys[i] = key;
    }
    __syncthreads();
    // Sorted runs of `run` keys, falling and rising in turn, become runs of twice that.
    for (int run = 2; run <= piece; run <<= 1)
        for (int apart = run >> 1; apart > 0; apart >>= 1) {
            for (int t = int(threadIdx.x); t < piece / 2; t += threads) {
                const int low = 2 * t - (t & (apart - 1)), high = low + apart;
                const uint64_t a = keys[low], b = keys[high];
                if ((a < b) == ((low & run) == 0)) keys[low] = b, keys[high] = a;
            }
            __syncthreads();
        }
    for (int i = int(threadIdx.x); i < w.count; i += threads) {
        const uint64_t key = keys[i];
        if (w.out) {
            w.out[(row * gridDim.x + blockIdx.x) * w.count + i] = key;
        } else if (uint32_t(key >> 32) <= order_of_lowest) {
            w.best[row * w.count + i] = {-1, -INFINITY};
        } else {
            const int32_t at = ~int32_t(uint32_t(key));
            w.best[row * w.count + i] = {at, numbers[at]};
        }
    }
}

}  // namespace

int64_t ranking_scratch(int64_t rows, int64_t width, int32_t count) {
    const int64_t first = parts_of(width, piece);
    return first <= 1 ? 0 : rows * count * (first + parts_of(first * count, piece));
}

cudaError_t rank(RankedNumber* best, int32_t count, View x, uint64_t* scratch, cudaStream_t stream) {
    if (x.rows == 0 || count == 0) return cudaSuccess;
    if (count < 0 || count > most_ranked) return cudaErrorInvalidValue;
    Ranking w;
    w.x = x;
    w.width = x.width;
    w.count = count;
    // Keys lie in two places in turn: each launch reads what the one before wrote.
    const int64_t first = int64_t(x.rows) * parts_of(x.width, piece) * count;
    uint64_t* places[] = {scratch, scratch ? scratch + first : nullptr};
    for (int turn = 0;; turn ^= 1) {
        const unsigned pieces = w.width > 0 ? parts_of(w.width, piece) : 1;
        w.out = pieces > 1 ? places[turn] : nullptr;
        w.best = best;
        const cudaError_t error =
            launch({dim3(pieces, unsigned(x.rows)), dim3(threads), 0, stream, "rank"}, rank_kernel, w);
        if (error != cudaSuccess || pieces == 1) return error;
        w.in = w.out;
        w.width = int32_t(pieces) * count;
    }
}

}  // namespace coterie::cuda
