// Norms, activations and other operations row by row or element by element.
//
// norm: y = x f gain, f = 1 / sqrt(mean or sum of x^2 + eps). One block per part of a row; a thread keeps
// nothing, the second pass over the part comes from L1. Bytes: 4 (read) + 4 (written) per element, and 4 + 4
// more with an added row, 1.25 more where y is rounded for the products to come. 3 FLOPs per element; bound
// by latency at one row, by bandwidth at many. elementwise: a thread takes 4 elements, `threads` apart.
// Bytes: 8 or 12 per element. Bound by latency.
#include <algorithm>

#include "cuda/kernels/activations.h"
#include "cuda/kernels/elements.h"
#include "cuda/kernels/kernel_language.h"
#include "cuda/kernels/round_group.h"

namespace coterie::cuda {

namespace {

constexpr int most_warps = 16;

// Sum over the block, in every thread. `partial` has a place per warp.
__device__ __forceinline__ float block_sum(float value, float* partial) {
    const int warps = (int(blockDim.x) + 31) >> 5;
    value = warp_sum(value);
    if (warps == 1) return value;
    if (lane_index() == 0) partial[warp_index()] = value;
    __syncthreads();
    float sum = 0;
    for (int w = 0; w < warps; ++w) sum += partial[w];
    return sum;
}

__global__ void __launch_bounds__(most_warps * 32) norm_kernel(Norm n) {
    SHARED(float, partial, [most_warps]);
    const int row = int(blockIdx.x) / n.parts, part = int(blockIdx.x) % n.parts, width = n.x.width / n.parts;
    float* x = n.x.data + row * n.x.stride + int64_t(part) * width;
    float* y = n.y.data + row * n.y.stride + int64_t(part) * width;
    const float* added = n.added ? n.added + row * n.added_stride + int64_t(part) * width : nullptr;
    float sum = 0;
    for (int i = int(threadIdx.x); i < width; i += int(blockDim.x)) {
        float value = x[i];
        if (added) x[i] = value += added[i];
        sum += value * value;
    }
    sum = block_sum(sum, partial);
    const float factor = 1.0f / sqrtf((n.mean ? sum / float(width) : sum) + n.eps);
    for (int i = int(threadIdx.x); i < width; i += int(blockDim.x)) {
        const float value = x[i] * factor * (n.gain ? n.gain[i] : 1.0f);
        y[i] = value;
        // A warp has a group of 32 columns before it, whole, as the width is a multiple of 32.
        if (n.rounded.codes) round_group(n.rounded, row, i / group_columns, value);
    }
}

constexpr int element_threads = 128, elements_each = 4;

__global__ void __launch_bounds__(element_threads)
    elementwise_kernel(Elementwise operation, View y, View a, View b, float value, Rounded rounded) {
    const int64_t row = blockIdx.x;
    float* to = y.data + row * y.stride;
    const float* first = a.data + row * a.stride;
    const float* second = b.data + row * b.stride;
    for (int j = 0; j < elements_each; ++j) {
        const int i = (int(blockIdx.y) * elements_each + j) * element_threads + int(threadIdx.x);
        if (i >= y.width) return;
        if (operation == Elementwise::add)
            to[i] += first[i];
        else if (operation == Elementwise::clear)
            to[i] = 0.0f;
        else if (operation == Elementwise::sigmoid_gate)
            to[i] *= sigmoid(first[a.width == 1 ? 0 : i]);
        else if (operation == Elementwise::softcap)
            to[i] = value * tanhf(to[i] / value);
        else
            to[i] = activated(operation, first[i], second[i]);
        // As a whole warp: its 32 columns are inside together where the width is a multiple of 32.
        if (rounded.codes) round_group(rounded, row, i / group_columns, to[i]);
    }
}

// A thread carries one column through all rows, so y may be x.
__global__ void __launch_bounds__(element_threads) select_rows_kernel(View y, View x, const int32_t* rows) {
    const int i = int(blockIdx.x) * element_threads + int(threadIdx.x);
    if (i >= y.width) return;
    for (int r = 0; r < y.rows; ++r) y.data[r * y.stride + i] = x.data[rows[r] * x.stride + i];
}

}  // namespace

cudaError_t norm(const Norm& n, cudaStream_t stream) {
    const int width = n.x.width / n.parts;
    if (n.x.rows == 0 || width == 0) return cudaSuccess;
    const unsigned warps = std::min(int(parts_of(width, 4 * 32)), most_warps);
    return launch({dim3(unsigned(n.x.rows * n.parts)), dim3(32 * warps), 0, stream, "norm"}, norm_kernel, n);
}

cudaError_t elementwise(Elementwise operation, View y, View a, View b, float value, cudaStream_t stream,
                        const Rounded& rounded) {
    if (y.rows == 0 || y.width == 0) return cudaSuccess;
    const dim3 grid(unsigned(y.rows), parts_of(y.width, element_threads * elements_each));
    return launch({grid, dim3(element_threads), 0, stream, "elementwise"}, elementwise_kernel, operation, y,
                  a, b, value, rounded);
}

cudaError_t select_rows(View y, View x, const int32_t* rows, cudaStream_t stream) {
    if (y.rows == 0 || y.width == 0) return cudaSuccess;
    return launch({dim3(parts_of(y.width, element_threads)), dim3(element_threads), 0, stream, "select_rows"},
                  select_rows_kernel, y, x, rows);
}

}  // namespace coterie::cuda
