#include "planted.h"

#include "cuda/kernels/kernel_language.h"

using namespace coterie::cuda;

namespace {

__global__ void past_the_end(float* y, float*, int n, bool faulty) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (faulty ? i <= n : i < n) y[i] = 1;
}
__global__ void past_shared(float* y, float*, int, bool faulty) {
    SHARED(float, s, [64]);
    SHARED(float, t, [64]);
    const int i = int(threadIdx.x);
    t[i] = 0;
    s[i] = float(i);
    __syncthreads();
    y[i] = s[i + (faulty ? 1 : 0)] + t[i];
}
__global__ void unwritten(float* y, float*, int, bool faulty) {
    SHARED(float, s, [64]);
    if (threadIdx.x || !faulty) s[threadIdx.x] = 1;
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x];
}
__global__ void no_barrier(float* y, float*, int, bool faulty) {
    SHARED(float, s, [128]);
    s[threadIdx.x] = 1;
    if (!faulty) __syncthreads();
    y[threadIdx.x] = s[127 - threadIdx.x];
}
__global__ void no_second_barrier(float* y, float*, int, bool faulty) {
    SHARED(float, s, [128]);
    float sum = 0;
    for (int turn = 0; turn < 3; ++turn) {
        s[threadIdx.x] = float(turn);
        __syncthreads();
        sum += s[(threadIdx.x + 1) & 127];
        if (!faulty) __syncthreads();
    }
    y[threadIdx.x] = sum;
}
__global__ void no_warp_barrier(float* y, float*, int, bool faulty) {
    SHARED(float, s, [32]);
    s[threadIdx.x] = 1;
    if (!faulty) __syncwarp();
    y[threadIdx.x] = s[31 - threadIdx.x];
}
__global__ void blocks_collide(float* y, float*, int, bool faulty) {
    y[faulty ? threadIdx.x : blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
// The last block reads what the others wrote, found by a counter.
__global__ void no_fence(float* y, float* other, int, bool faulty) {
    SHARED(int, last, [1]);
    y[blockIdx.x] = 1;
    if (!faulty) __threadfence();
    if (threadIdx.x == 0) last[0] = atomicAdd(reinterpret_cast<int*>(other), 1) == int(gridDim.x) - 1 ? 1 : 0;
    __syncthreads();
    if (!last[0]) return;
    if (!faulty) __threadfence();
    for (unsigned b = 0; b < gridDim.x; ++b) other[1 + b] = y[b];
}
__global__ void misaligned(float* y, float* other, int, bool faulty) {
    const float4 v = load_whole(reinterpret_cast<const float4*>(other + 4 * threadIdx.x + (faulty ? 1 : 0)));
    y[threadIdx.x] = v.x;
}
__global__ void elsewhere(float* y, float* other, int n, bool faulty) {
    // 8 GiB further lies the next device's memory; the test keeps some there.
    y[threadIdx.x] = other[threadIdx.x + (faulty ? (size_t(8) << 30) / sizeof(float) : 0)] + float(n);
}

}  // namespace

const std::vector<PlantedFault>& planted_faults() {
    static const std::vector<PlantedFault> faults = {
        {"past the end of an allocation", "outside global memory", 4, 100, past_the_end},
        {"past the end of a shared array", "outside shared memory", 1, 64, past_shared},
        {"shared memory never written", "unwritten shared memory", 1, 64, unwritten},
        {"no barrier", "race in shared memory", 1, 128, no_barrier},
        {"no barrier at the end of a loop", "race in shared memory", 1, 128, no_second_barrier},
        {"no barrier within a warp", "race in shared memory", 1, 32, no_warp_barrier},
        {"two blocks write the same place", "race in global memory", 2, 64, blocks_collide},
        {"no fence before a counter", "race in global memory", 4, 1, no_fence},
        {"off its alignment", "misaligned", 1, 32, misaligned},
        {"another device's memory", "another device's memory", 1, 32, elsewhere},
    };
    return faults;
}
