// Finds damaged weights: NaN or infinite scales (or floats), which a flipped bit or a broken conversion
// leaves behind. Reads scales only, so that a scan runs at the speed of memory. Any bits are valid in the
// integers of a block.
#pragma once
#include <cstddef>
#include <cstdint>

#include "quant/type.h"

namespace coterie::quant {

// The index of the first block with a scale (F16, BF16, F32, F64: the first value) that isn't finite; -1 if
// none.
int64_t first_bad_block(Type type, const std::byte* blocks, int64_t n_blocks);

}  // namespace coterie::quant
