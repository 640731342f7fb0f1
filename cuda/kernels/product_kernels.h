// The mat-vec kernels, as templates over the type; product_*.cu instantiate them, products.cu chooses.
//
// product: `lanes` lanes share an output and stride over its groups of 32 columns (packed: 16 or 32 bytes of
// codes each, so neighbouring lanes read neighbouring pieces) or over pieces of 4 columns (floats). A warp
// makes 32 / lanes outputs, a block of 4 warps four times as many. One row of activations, or up to 8 in one
// pass over the weights; with `up` one row, or a choice. Products that share their rows (q, k and v) share a
// launch, one's blocks after the other's. Grid (outputs, rows or choices). Bytes: the weight
// once per pass; activations come from L1. FLOPs: 2 per weight and row. Bound by memory bandwidth at one row.
// combined: a block makes 32 / lanes outputs of one row; its warps take the choices in turn and add up
// through shared memory in the order of the choices, so that sums are repeatable. Grid (outputs, rows).
#pragma once
#include <algorithm>

#include "cuda/kernels/activations.h"
#include "cuda/kernels/groups.h"
#include "cuda/kernels/kernel_language.h"
#include "cuda/kernels/products.h"

namespace coterie::cuda {

constexpr int product_warps = 4, product_threads = product_warps * 32, most_product_rows = 8;
constexpr int most_combine_warps = 8;

// sums[r] += matrix row times activation row (first + r), this lane's share.
template <Type type, int most_rows>
__device__ __forceinline__ void dot(float (&sums)[most_rows], const Packed& w, int64_t row, const Product& p,
                                    int64_t first, int rows, int lane) {
    if constexpr (is_packed(type)) {
        const int4* x = reinterpret_cast<const int4*>(p.rounded.codes) + first * w.groups * 2;
        const RoundedScale* scales = p.rounded.scales + first * w.groups;
#pragma unroll(most_rows == 1 ? 2 : 1)
        for (int g = lane; g < w.groups; g += p.lanes) {
            int codes[8];
            load_codes<type>(w, row, g, codes);
            const Factors factors = load_factors<type>(w, row, g);
#pragma unroll
            for (int r = 0; r < most_rows; ++r)
                if (r < rows) {
                    const int64_t at = int64_t(r) * w.groups + g;
                    sums[r] +=
                        group_product<type>(codes, factors, x + at + r * w.groups, w.groups, scales[at]);
                }
        }
    } else {
        const float* x = p.x.data + first * p.x.stride;
        const int64_t base = row * w.stride;
#pragma unroll 1
        for (int i = lane * 4; i < w.in; i += p.lanes * 4) {
            const float4 four = four_weights<type>(w, base + i);
#pragma unroll
            for (int r = 0; r < most_rows; ++r)
                if (r < rows) {
                    const float* from = x + r * p.x.stride + i;
                    float4 v = make_float4(0, 0, 0, 0);
                    if (p.aligned && i + 4 <= w.in) {
                        v = load_whole(reinterpret_cast<const float4*>(from));
                    } else {
                        v.x = from[0];
                        if (i + 1 < w.in) v.y = from[1];
                        if (i + 2 < w.in) v.z = from[2];
                        if (i + 3 < w.in) v.w = from[3];
                    }
                    sums[r] += four.x * v.x + four.y * v.y + four.z * v.z + four.w * v.w;
                }
        }
    }
}

template <Type type, int most_rows, bool gated>
__global__ void __launch_bounds__(product_threads) product_kernel(Product p, Further further) {
    int block = int(blockIdx.x);
    if constexpr (!gated) {
#pragma unroll
        for (int i = 0; i < Further::most; ++i) {
            const Further::Part& part = further.part[i];
            if (i >= further.count || int(blockIdx.x) < part.first_block) continue;
            block = int(blockIdx.x) - part.first_block;
            p.w = part.w;
            p.bias = part.bias;
            p.y.data = part.y;
            p.y.stride = part.stride;
        }
    }
    const int lane = int(threadIdx.x) & (p.lanes - 1);
    const int output = (block * product_threads + int(threadIdx.x)) / p.lanes;
    int64_t first = int64_t(blockIdx.y) * most_rows, matrix = 0;
    const int64_t to = first;
    const int rows = min(most_rows, p.y.rows - int(first));
    bool here = true;
    if (p.choices.experts) {  // most_rows is 1
        matrix = p.choices.experts[first] - p.choices.first;
        here = matrix >= 0 && matrix < p.w.experts;
        if (!p.x_per_choice) first /= p.choices.used;
    }
    float sums[most_rows] = {}, ups[most_rows] = {};
    // All lanes of a warp go on to the sums over lanes, whatever they have.
    if (here && output < p.w.out) {
        dot<type, most_rows>(sums, p.w, matrix * p.w.out + output, p, first, rows, lane);
        if constexpr (gated) dot<type, most_rows>(ups, p.up, matrix * p.w.out + output, p, first, rows, lane);
    }
#pragma unroll
    for (int r = 0; r < most_rows; ++r) {
        if (r >= rows) break;
        float sum = lanes_sum(sums[r], p.lanes), up = 0;
        if constexpr (gated) up = lanes_sum(ups[r], p.lanes);
        if (lane != 0 || output >= p.w.out) continue;
        if (here) {
            if (p.bias) sum += p.bias[matrix * p.w.out + output];
            if constexpr (gated) {
                if (p.up_bias) up += p.up_bias[matrix * p.w.out + output];
                sum = activated(p.activation, sum, up);
            }
        }
        p.y.data[(to + r) * p.y.stride + output] = here ? sum : 0.0f;
    }
}

template <Type type>
__global__ void __launch_bounds__(most_combine_warps * 32) combined_kernel(Product p) {
    SHARED(float, partial, [most_combine_warps][32]);
    const int lane = int(threadIdx.x) & (p.lanes - 1), place = lane_index() / p.lanes;
    const int outputs = 32 / p.lanes, output = int(blockIdx.x) * outputs + place;
    const int warps = int(blockDim.x) >> 5;
    const int64_t row = blockIdx.y;
    float total = 0;
    for (int begin = 0; begin < p.choices.used; begin += warps) {
        const int j = begin + warp_index();
        float sum = 0;
        if (j < p.choices.used) {
            const int64_t choice = row * p.choices.used + j;
            const int64_t matrix = p.choices.experts[choice] - p.choices.first;
            if (matrix >= 0 && matrix < p.w.experts) {
                float sums[1] = {};
                if (output < p.w.out) dot<type, 1>(sums, p.w, matrix * p.w.out + output, p, choice, 1, lane);
                sum = lanes_sum(sums[0], p.lanes);
                if (p.bias && output < p.w.out) sum += p.bias[matrix * p.w.out + output];
                sum *= p.choices.weights[choice];
            }
        }
        if (lane == 0) partial[warp_index()][place] = sum;
        __syncthreads();
        if (warp_index() == 0 && lane == 0)
            for (int k = 0; k < warps && begin + k < p.choices.used; ++k) total += partial[k][place];
        __syncthreads();
    }
    if (warp_index() == 0 && lane == 0 && output < p.w.out) p.y.data[row * p.y.stride + output] = total;
}

template <Type type, int most_rows, bool gated>
cudaError_t launch_rows(const Product& p, Further further, cudaStream_t stream) {
    unsigned blocks = parts_of(int64_t(p.w.out) * p.lanes, product_threads);
    for (int i = 0; i < further.count; ++i) {
        further.part[i].first_block = int32_t(blocks);
        blocks += parts_of(int64_t(further.part[i].w.out) * p.lanes, product_threads);
    }
    const dim3 grid(blocks, parts_of(p.y.rows, most_rows));
    return launch({grid, dim3(product_threads), 0, stream, gated ? "gated product" : "product"},
                  product_kernel<type, most_rows, gated>, p, further);
}

template <Type type>
cudaError_t launch_product(const Product& p, const Further& further, cudaStream_t stream) {
    if (p.up.codes) return launch_rows<type, 1, true>(p, further, stream);
    return p.y.rows == 1 || p.choices.experts
               ? launch_rows<type, 1, false>(p, further, stream)
               : launch_rows<type, most_product_rows, false>(p, further, stream);
}

template <Type type>
cudaError_t launch_combined(const Product& p, cudaStream_t stream) {
    const int warps = std::min(p.choices.used, most_combine_warps);
    return launch({dim3(parts_of(p.w.out, 32 / p.lanes), unsigned(p.y.rows)), dim3(unsigned(warps) * 32), 0,
                   stream, "combined product"},
                  combined_kernel<type>, p);
}

#define COTERIE_PRODUCTS(type)                                                          \
    template cudaError_t launch_product<type>(const Product& p, const Further& further, \
                                              cudaStream_t stream);                     \
    template cudaError_t launch_combined<type>(const Product& p, cudaStream_t stream)

}  // namespace coterie::cuda
