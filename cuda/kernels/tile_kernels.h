// The tiled products, as templates over the type; tile_*.cu instantiate them, tiles.cu chooses.
//
// A block of 4 warps makes 64 outputs of up to `most` rows, 128 columns at a time: their weights are unpacked
// to signed bytes in shared memory once, the rounded activations lie beside them. Where there are int8 tensor
// cores (sm_75 and later) a warp takes 16 x 8 products of 32 columns, or of 16 for types with a scale per 16;
// elsewhere a thread takes 4 x (most / 8) products by dp4a. Sums of a group are exact integers, scaled and
// added in F32. Floating-point weights take the same tiles in F32, 16 columns at a time, without tensor
// cores: nothing is rounded.
//
// Rows come through an order of choices where they are routed, one tile per block of rows that share an
// expert. Grid (outputs / 64, tiles). Bytes: the weight once per tile of rows, activations once per 64
// outputs. FLOPs: 2 per weight and row. Bound by the matrix units, and by unpacking at few rows.
//
// Words of 36 per row of a stage: eight rows begin in eight different groups of four banks. Factors of a
// group lie 4 apart from the next for the same reason.
#pragma once
#include "cuda/kernels/groups.h"
#include "cuda/kernels/kernel_language.h"
#include "cuda/kernels/tiles.h"

namespace coterie::cuda {

constexpr int tile_outputs = 64, tile_threads = 128;
constexpr int stage_groups = 4, stage_words = stage_groups * 8 + 4, stage_pieces = stage_words / 4;
constexpr int factor_stride = tile_outputs + 4;
constexpr int float_columns = 16;

// What a block multiplies: the rows of its tile and the matrix. False when there is nothing to do, or only
// zeros, which are written.
struct TileRows {
    int count, first;    // first: of the outputs
    int64_t matrix_row;  // of output 0
};
template <int most>
__device__ __forceinline__ bool tile_rows(const Product& p, const Grouping& g, int32_t (&source)[most],
                                          int32_t (&target)[most], TileRows& tile) {
    const int t = int(threadIdx.x);
    RowTile rows{0, int32_t(blockIdx.y) * most, 0};
    rows.count = min(most, p.y.rows - rows.begin);
    if (g.tiles) rows = g.tiles[blockIdx.y];
    if (rows.count == 0) return false;
    for (int r = t; r < most; r += tile_threads) {
        int32_t to = -1, from = -1;
        if (r < rows.count) {
            to = g.tiles ? g.order[rows.begin + r] : rows.begin + r;
            from = g.tiles && !p.x_per_choice ? to / p.choices.used : to;
        }
        source[r] = from;
        target[r] = to;
    }
    __syncthreads();
    tile.count = rows.count;
    tile.first = int(blockIdx.x) * tile_outputs;
    tile.matrix_row = int64_t(rows.matrix) * p.w.out;
    if (rows.matrix >= 0) return true;
    for (int i = t; i < rows.count * tile_outputs; i += tile_threads) {
        const int output = tile.first + i % tile_outputs;
        if (output < p.w.out) p.y.data[target[i / tile_outputs] * p.y.stride + output] = 0;
    }
    return false;
}

__device__ __forceinline__ void put_output(const Product& p, const TileRows& tile, int32_t target, int output,
                                           float value) {
    if (output >= p.w.out) return;
    if (p.bias) value += p.bias[tile.matrix_row + output];
    p.y.data[target * p.y.stride + output] = value;
}

// Codes less their offset, as signed bytes: no byte borrows from its neighbour.
template <Type type>
__device__ __forceinline__ int signed_codes(int codes) {
    constexpr Format f = format_of(type);
    if constexpr (f.offset == 0) return codes;
    constexpr uint32_t offsets = uint32_t(f.offset) * 0x01010101u;
    return int(((uint32_t(codes) | 0x80808080u) - offsets) ^ 0x80808080u);
}

template <Type type, int most>
struct PackedTile {
    static constexpr Format format = format_of(type);
    static constexpr bool halves = format.scales == Scales::super16;
    static constexpr bool minima = format.scales == Scales::half_min || format.scales == Scales::super_min;
    // Warps over outputs and rows, and the 16 x 8 tiles of a warp.
    static constexpr int warps_across = most >= 64 ? 2 : 1, warps_down = 4 / warps_across;
    static constexpr int down = tile_outputs / warps_down / 16, across = most / warps_across / 8;
    // Of a thread, by dp4a: outputs t & 15 + 16 i, rows t / 16 + 8 j.
    static constexpr int outputs_each = tile_outputs / 16, rows_each = most / 8;
    static constexpr int sums = tile_outputs * most / tile_threads;
    static_assert(down * across * 4 == sums && outputs_each * rows_each == sums);
};

// Products of a stage by tensor cores: sums[(m * across + n) * 4 + i].
template <Type type, int most>
__device__ __forceinline__ void multiply_stage_mma(const int* weights, const int* x, const float2* factors,
                                                   const float2* scales, int count,
                                                   float (&sums)[PackedTile<type, most>::sums]) {
    using Tile = PackedTile<type, most>;
    const int lane = lane_index(), group = lane >> 2, in_group = lane & 3;
    const int row = warp_index() % Tile::warps_down * Tile::down * 16 + group;
    const int column = warp_index() / Tile::warps_down * Tile::across * 8;
#pragma unroll 1
    for (int g = 0; g < stage_groups; ++g) {
        uint32_t a[Tile::down][4];
        float2 factor[Tile::down][2];
#pragma unroll
        for (int m = 0; m < Tile::down; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int at = row + m * 16 + half * 8;
                a[m][half] = uint32_t(weights[at * stage_words + g * 8 + in_group]);
                a[m][half + 2] = uint32_t(weights[at * stage_words + g * 8 + in_group + 4]);
                factor[m][half] = load_whole(factors + g * factor_stride + at);
            }
#pragma unroll
        for (int n = 0; n < Tile::across; ++n) {
            if (column + n * 8 >= count) break;  // the same for the whole warp
            const int at = (column + n * 8 + group) * stage_words + g * 8 + in_group;
            const uint32_t b[2] = {uint32_t(x[at]), uint32_t(x[at + 4])};
            const float2* first_scale = scales + g * (most + 4) + column + n * 8 + in_group * 2;
            const float2 scale[2] = {load_whole(first_scale), load_whole(first_scale + 1)};
#pragma unroll
            for (int m = 0; m < Tile::down; ++m) {
                int first[4] = {}, second[4] = {};
                if constexpr (Tile::halves) {
                    const uint32_t a0[2] = {a[m][0], a[m][1]}, a1[2] = {a[m][2], a[m][3]};
                    mma_s8_16816(first, a0, b[0]);
                    mma_s8_16816(second, a1, b[1]);
                } else {
                    mma_s8_16832(first, a[m], b);
                }
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float2 f = factor[m][i >> 1], s = scale[i & 1];
                    float& sum = sums[(m * Tile::across + n) * 4 + i];
                    if constexpr (Tile::halves)
                        sum += s.x * (f.x * float(first[i]) + f.y * float(second[i]));
                    else
                        sum += f.x * (s.x * float(first[i]));
                    if constexpr (Tile::minima) sum -= f.y * s.y;
                }
            }
        }
    }
}

// The same by dp4a: sums[j * outputs_each + i].
template <Type type, int most>
__device__ __forceinline__ void multiply_stage_dp4a(const int4* weights, const int4* x, const float2* factors,
                                                    const float2* scales, int count,
                                                    float (&sums)[PackedTile<type, most>::sums]) {
    using Tile = PackedTile<type, most>;
    const int output = int(threadIdx.x) & 15, row = int(threadIdx.x) >> 4;
    const auto four = [](const int4& a, const int4& b, int sum) {
        return dp4a(a.w, b.w, dp4a(a.z, b.z, dp4a(a.y, b.y, dp4a(a.x, b.x, sum))));
    };
#pragma unroll 1
    for (int g = 0; g < stage_groups; ++g) {
        int4 low[Tile::outputs_each], high[Tile::outputs_each];
        float2 factor[Tile::outputs_each];
#pragma unroll
        for (int i = 0; i < Tile::outputs_each; ++i) {
            low[i] = load_whole(weights + (output + 16 * i) * stage_pieces + g * 2);
            high[i] = load_whole(weights + (output + 16 * i) * stage_pieces + g * 2 + 1);
            factor[i] = load_whole(factors + g * factor_stride + output + 16 * i);
        }
#pragma unroll
        for (int j = 0; j < Tile::rows_each; ++j) {
            if (8 * j >= count) break;
            const int4* at = x + (row + 8 * j) * stage_pieces + g * 2;
            const int4 a = load_whole(at), b = load_whole(at + 1);
            const float2 s = load_whole(scales + g * (most + 4) + row + 8 * j);
#pragma unroll
            for (int i = 0; i < Tile::outputs_each; ++i) {
                float& sum = sums[j * Tile::outputs_each + i];
                const int first = four(low[i], a, 0);
                if constexpr (Tile::halves)
                    sum += s.x * (factor[i].x * float(first) + factor[i].y * float(four(high[i], b, 0)));
                else
                    sum += factor[i].x * (s.x * float(four(high[i], b, first)));
                if constexpr (Tile::minima) sum -= factor[i].y * s.y;
            }
        }
    }
}

// Four blocks at once leave 128 registers a thread; left to itself, ptxas goes for more blocks and spills.
template <Type type, int most>
__global__ void __launch_bounds__(tile_threads, 4) packed_tile_kernel(Product p, Grouping grouping) {
    using Tile = PackedTile<type, most>;
    SHARED(int4, weights, [tile_outputs * stage_pieces]);
    SHARED(int4, x, [most * stage_pieces]);
    SHARED(float2, factors, [stage_groups * factor_stride]);  // D and M, or D of both halves
    SHARED(float2, scales, [stage_groups * (most + 4)]);      // d, and d times the sum of q
    SHARED(int32_t, source, [most]);
    SHARED(int32_t, target, [most]);
    TileRows tile;
    if (!tile_rows<most>(p, grouping, source, target, tile)) return;
    const int t = int(threadIdx.x);
    float sums[Tile::sums] = {};
    for (int base = 0; base < p.w.groups; base += stage_groups) {
        for (int i = t; i < tile_outputs * stage_groups; i += tile_threads) {
            const int r = i / stage_groups, g = i % stage_groups;
            int codes[8] = {};
            float2 factor = make_float2(0, 0);
            if (tile.first + r < p.w.out && base + g < p.w.groups) {
                const int64_t row = tile.matrix_row + tile.first + r;
                load_codes<type>(p.w, row, base + g, codes);
                const Factors f = load_factors<type>(p.w, row, base + g);
                factor = make_float2(f.first, Tile::halves ? f.second : f.minimum);
#pragma unroll
                for (int k = 0; k < 8; ++k) codes[k] = signed_codes<type>(codes[k]);
            }
            store_whole(weights + r * stage_pieces + g * 2,
                        make_int4(codes[0], codes[1], codes[2], codes[3]));
            store_whole(weights + r * stage_pieces + g * 2 + 1,
                        make_int4(codes[4], codes[5], codes[6], codes[7]));
            store_whole(factors + g * factor_stride + r, factor);
        }
        for (int i = t; i < most * stage_groups; i += tile_threads) {
            const int r = i / stage_groups, g = i % stage_groups;
            int4 first = make_int4(0, 0, 0, 0), second = first;
            float2 scale = make_float2(0, 0);
            if (source[r] >= 0 && base + g < p.w.groups) {
                const int64_t row = int64_t(source[r]) * p.w.groups;
                const int4* from = reinterpret_cast<const int4*>(p.rounded.codes) + row * 2 + base + g;
                first = load_whole(from);
                second = load_whole(from + p.w.groups);
                const RoundedScale s = load_whole(p.rounded.scales + row + base + g);
                scale = make_float2(s.d, s.d * float(s.sums[0] + s.sums[1]));
            }
            store_whole(x + r * stage_pieces + g * 2, first);
            store_whole(x + r * stage_pieces + g * 2 + 1, second);
            store_whole(scales + g * (most + 4) + r, scale);
        }
        __syncthreads();
        if (arch() >= 750)
            multiply_stage_mma<type, most>(reinterpret_cast<const int*>(weights),
                                           reinterpret_cast<const int*>(x), factors, scales, tile.count,
                                           sums);
        else
            multiply_stage_dp4a<type, most>(weights, x, factors, scales, tile.count, sums);
        __syncthreads();
    }
    if (arch() >= 750) {
        const int group = lane_index() >> 2, in_group = lane_index() & 3;
        const int output = tile.first + warp_index() % Tile::warps_down * Tile::down * 16 + group;
        const int row = warp_index() / Tile::warps_down * Tile::across * 8 + in_group * 2;
#pragma unroll
        for (int m = 0; m < Tile::down; ++m)
#pragma unroll
            for (int n = 0; n < Tile::across; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int r = row + n * 8 + (i & 1);
                    if (r < tile.count)
                        put_output(p, tile, target[r], output + m * 16 + (i >> 1) * 8,
                                   sums[(m * Tile::across + n) * 4 + i]);
                }
    } else {
#pragma unroll
        for (int j = 0; j < Tile::rows_each; ++j)
#pragma unroll
            for (int i = 0; i < Tile::outputs_each; ++i) {
                const int r = (t >> 4) + 8 * j;
                if (r < tile.count)
                    put_output(p, tile, target[r], tile.first + (t & 15) + 16 * i,
                               sums[j * Tile::outputs_each + i]);
            }
    }
}

template <Type type, int most>
__global__ void __launch_bounds__(tile_threads) float_tile_kernel(Product p, Grouping grouping) {
    constexpr int outputs_each = tile_outputs / 16, rows_each = most / 8, pieces = float_columns / 4;
    // Columns by outputs or rows; four columns lie eight banks apart.
    SHARED(float, weights, [float_columns][tile_outputs + 2]);
    SHARED(float, x, [float_columns][most + 2]);
    SHARED(int32_t, source, [most]);
    SHARED(int32_t, target, [most]);
    TileRows tile;
    if (!tile_rows<most>(p, grouping, source, target, tile)) return;
    const int t = int(threadIdx.x), output = t & 15, row = t >> 4;
    float sums[rows_each][outputs_each] = {};
    for (int base = 0; base < p.w.in; base += float_columns) {
        for (int i = t; i < tile_outputs * pieces; i += tile_threads) {
            const int r = i / pieces, column = i % pieces * 4;
            float4 four = make_float4(0, 0, 0, 0);
            if (tile.first + r < p.w.out && base + column < p.w.in)
                four =
                    four_weights<type>(p.w, (tile.matrix_row + tile.first + r) * p.w.stride + base + column);
            weights[column][r] = four.x, weights[column + 1][r] = four.y;
            weights[column + 2][r] = four.z, weights[column + 3][r] = four.w;
        }
        for (int i = t; i < most * pieces; i += tile_threads) {
            const int r = i / pieces, column = i % pieces * 4, at = base + column;
            float4 v = make_float4(0, 0, 0, 0);
            if (source[r] >= 0 && at < p.w.in) {
                const float* from = p.x.data + source[r] * p.x.stride + at;
                if (p.aligned && at + 4 <= p.w.in) {
                    v = load_whole(reinterpret_cast<const float4*>(from));
                } else {
                    v.x = from[0];
                    if (at + 1 < p.w.in) v.y = from[1];
                    if (at + 2 < p.w.in) v.z = from[2];
                    if (at + 3 < p.w.in) v.w = from[3];
                }
            }
            x[column][r] = v.x, x[column + 1][r] = v.y, x[column + 2][r] = v.z, x[column + 3][r] = v.w;
        }
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < float_columns; ++k) {
            float w[outputs_each];
#pragma unroll
            for (int i = 0; i < outputs_each; ++i) w[i] = weights[k][output + 16 * i];
#pragma unroll
            for (int j = 0; j < rows_each; ++j) {
                const float v = x[k][row + 8 * j];
#pragma unroll
                for (int i = 0; i < outputs_each; ++i) sums[j][i] += w[i] * v;
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < rows_each; ++j)
#pragma unroll
        for (int i = 0; i < outputs_each; ++i)
            if (row + 8 * j < tile.count)
                put_output(p, tile, target[row + 8 * j], tile.first + output + 16 * i, sums[j][i]);
}

template <Type type, int most>
cudaError_t launch_tiles_of(const Product& p, const Grouping& grouping, cudaStream_t stream) {
    const unsigned tiles = grouping.tiles ? unsigned(grouping.most) : parts_of(p.y.rows, most);
    const Launch l{dim3(parts_of(p.w.out, tile_outputs), tiles), dim3(tile_threads), 0, stream,
                   "tiled product"};
    if constexpr (is_packed(type))
        return launch(l, packed_tile_kernel<type, most>, p, grouping);
    else
        return launch(l, float_tile_kernel<type, most>, p, grouping);
}

template <Type type>
cudaError_t launch_tiles(const Product& p, const Grouping& grouping, cudaStream_t stream) {
    return (grouping.tiles ? grouping.tile_rows : rows_of_tile(p.y.rows, 1)) == 64
               ? launch_tiles_of<type, 64>(p, grouping, stream)
               : launch_tiles_of<type, 32>(p, grouping, stream);
}

#define COTERIE_TILES(type) \
    template cudaError_t launch_tiles<type>(const Product& p, const Grouping& grouping, cudaStream_t stream)

}  // namespace coterie::cuda
