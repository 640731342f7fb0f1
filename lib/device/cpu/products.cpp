#include "device/cpu/products.h"

#include <algorithm>

namespace coterie::cpu {
namespace {

// One row: the range is cut into as many contiguous streams as the kernel keeps in flight.
void multiply_row(const Product& product, const PackedShape& shape, const std::byte* weights, Range groups,
                  const void* x, float* y) {
    const int64_t count = groups.end - groups.begin;
    const int streams = int(std::min<int64_t>(max_streams, count));
    const int64_t longest = streams ? (count + streams - 1) / streams : 0;
    for (int64_t i = 0; i < longest; ++i) {
        Stream stream[max_streams];
        alignas(64) float last[group_rows];
        int n = 0;
        int64_t padded = -1;
        for (int s = 0; s < streams; ++s) {
            const Range part = part_of(count, s, streams);
            if (part.begin + i >= part.end) continue;
            const int64_t group = groups.begin + part.begin + i;
            const bool whole = shape.rows_of_group(group) == group_rows;
            if (!whole) padded = group;
            stream[n++] = {weights + group * shape.group_bytes, x, whole ? y + group * group_rows : last};
        }
        multiply_streams(product, shape, stream, n);
        if (padded >= 0) std::copy_n(last, shape.rows_of_group(padded), y + padded * group_rows);
    }
}

}  // namespace

void multiply_streams(const Product& product, const PackedShape& shape, const Stream* streams, int count) {
    for (int first = 0; first < count; first += max_streams) {
        const std::byte* groups[max_streams];
        const void* x[max_streams];
        float* y[max_streams];
        const int n = std::min(max_streams, count - first);
        for (int s = 0; s < n; ++s) {
            groups[s] = streams[first + s].group;
            x[s] = streams[first + s].x;
            y[s] = streams[first + s].y;
        }
        product.streams(shape, n, groups, x, y);
    }
}

void multiply(const Kernels& kernels, const PackedShape& shape, const std::byte* weights, Range groups,
              const void* const* x, int64_t rows, float* const* y) {
    const Product product = kernels.product(shape.type);
    if (rows == 1) return multiply_row(product, shape, weights, groups, x[0], y[0]);
    for (int64_t panel = 0; panel < rows; panel += panel_rows) {
        const int64_t in_panel = std::min(panel_rows, rows - panel);
        const int parts = int((in_panel + kernels.max_rows - 1) / kernels.max_rows);
        for (int64_t g = groups.begin; g < groups.end; ++g)
            for (int p = 0; p < parts; ++p) {
                const Range part = part_of(in_panel, p, parts);
                const int64_t first = panel + part.begin;
                product.rows(shape, weights + g * shape.group_bytes, int(part.end - part.begin), x + first,
                             y + first, g * group_rows, shape.rows_of_group(g));
            }
    }
}

}  // namespace coterie::cpu
