#include "device/cpu/products.h"

#include <algorithm>

namespace coterie::cpu {

namespace {

constexpr int most_rows = 64;  // at least Kernels::max_rows

// Rows in two planes, as twice as many rows of the same product.
void multiply_fine(const Kernels& kernels, const PackedShape& shape, const std::byte* weights, Range groups,
                   const void* const* x, int64_t rows, float* const* y, int64_t fine_bytes) {
    const Product product = kernels.product(shape.type);
    const int64_t each = std::min(kernels.max_rows, most_rows) / 2;
    alignas(64) float rest[most_rows / 2][group_rows];
    for (int64_t g = groups.begin; g < groups.end; ++g) {
        const int64_t column = g * group_rows;
        const int valid = shape.rows_of_group(g);
        for (int64_t first = 0; first < rows; first += each) {
            const int n = int(std::min(each, rows - first));
            const void* from[most_rows];
            float* to[most_rows];
            for (int r = 0; r < n; ++r) {
                from[2 * r] = x[first + r];
                from[2 * r + 1] = static_cast<const std::byte*>(x[first + r]) + fine_bytes;
                to[2 * r] = y[first + r] + column;
                to[2 * r + 1] = rest[r];
            }
            product(shape, weights + (g - groups.begin) * shape.group_bytes, 2 * n, from, to, 0, valid);
            for (int r = 0; r < n; ++r)
                for (int i = 0; i < valid; ++i) to[2 * r][i] += rest[r][i];
        }
    }
}

}  // namespace

void multiply(const Kernels& kernels, const PackedShape& shape, const std::byte* weights, Range groups,
              const void* const* x, int64_t rows, float* const* y, int64_t fine_bytes) {
    if (fine_bytes > 0 && shape.container == Container::blocks)
        return multiply_fine(kernels, shape, weights, groups, x, rows, y, fine_bytes);
    const Product product = kernels.product(shape.type);
    for (int64_t panel = 0; panel < rows; panel += panel_rows) {
        const int64_t in_panel = std::min(panel_rows, rows - panel);
        const int parts = int((in_panel + kernels.max_rows - 1) / kernels.max_rows);
        for (int64_t g = groups.begin; g < groups.end; ++g)
            for (int p = 0; p < parts; ++p) {
                const Range part = part_of(in_panel, p, parts);
                const int64_t first = panel + part.begin;
                product(shape, weights + (g - groups.begin) * shape.group_bytes, int(part.end - part.begin),
                        x + first, y + first, g * group_rows, shape.rows_of_group(g));
            }
    }
}

}  // namespace coterie::cpu
