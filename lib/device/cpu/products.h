// Matrix products over packed weights for one thread: which kernel, in which order. Threads take ranges of
// groups.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/threads.h"
#include "device/cpu/kernels.h"

namespace coterie::cpu {

// y[m][16 g + i] for the groups g of the range and all m < rows: `weights` are the packed groups of the
// range, x[m] is a row of activations (see kernels.h). Every byte of the weights is read once for up to
// panel_rows rows. fine_bytes > 0: that far behind each quantised row lies a second one that holds what
// rounding the first left over, and y is the sum of both products.
void multiply(const Kernels& kernels, const PackedShape& shape, const std::byte* weights, Range groups,
              const void* const* x, int64_t rows, float* const* y, int64_t fine_bytes = 0);

constexpr int64_t panel_rows = 96;  // activations of 2048 columns: 288 KiB, a part of a core's L2

}  // namespace coterie::cpu
