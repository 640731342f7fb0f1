#include "device/cpu/products.h"

#include <algorithm>

namespace coterie::cpu {

void multiply(const Kernels& kernels, const PackedShape& shape, const std::byte* weights, Range groups,
              const void* const* x, int64_t rows, float* const* y) {
    const Product product = kernels.product(shape.type);
    for (int64_t panel = 0; panel < rows; panel += panel_rows) {
        const int64_t in_panel = std::min(panel_rows, rows - panel);
        const int parts = int((in_panel + kernels.max_rows - 1) / kernels.max_rows);
        for (int64_t g = groups.begin; g < groups.end; ++g)
            for (int p = 0; p < parts; ++p) {
                const Range part = part_of(in_panel, p, parts);
                const int64_t first = panel + part.begin;
                product(shape, weights + g * shape.group_bytes, int(part.end - part.begin), x + first,
                        y + first, g * group_rows, shape.rows_of_group(g));
            }
    }
}

}  // namespace coterie::cpu
