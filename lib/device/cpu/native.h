// Weights kept in the file's own blocks: decoded to an F32 tile of [column][16 rows] per fragment, then
// multiplied by the instruction set's F32 loop. Included by the kernels' translation units only; everything
// here has internal linkage, because each of them is compiled for another machine.
#pragma once
#include <cstddef>
#include <cstdint>

#include "device/cpu/layout.h"
#include "quant/decode.h"

namespace coterie::cpu {
namespace {

// Tile::add(w, columns, rows, x, sums): sums[r][i] += sum over k of w[k * 16 + i] * x[r][k].
template <typename Tile, int most_rows>
void rows_of_native(const PackedShape& shape, const std::byte* group, int rows, const void* const* x,
                    float* const* y, int64_t column, int valid) {
    alignas(64) float tile[quant::super_block * group_rows];
    alignas(64) float sums[most_rows][group_rows] = {};
    float values[quant::super_block];
    const int64_t bytes = traits(shape.type).block_bytes;
    int64_t taken = 0;
    for (const Fragment& fragment : shape.fragments) {
        const int n = fragment.count * block_columns;
        for (int i = 0; i < group_rows; ++i, group += bytes) {
            if (i >= valid) {
                for (int k = 0; k < n; ++k) tile[k * group_rows + i] = 0;
                continue;
            }
            quant::decode(shape.type, group, values, quant::super_block);
            for (int k = 0; k < n; ++k) tile[k * group_rows + i] = values[fragment.first * block_columns + k];
        }
        const float* at[most_rows];
        for (int r = 0; r < rows; ++r) at[r] = static_cast<const float*>(x[r]) + taken;
        Tile::add(tile, n, rows, at, sums);
        taken += n;
    }
    for (int r = 0; r < rows; ++r)
        for (int i = 0; i < valid; ++i) y[r][column + i] = sums[r][i];
}

}  // namespace
}  // namespace coterie::cpu
