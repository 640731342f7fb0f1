// Floats to blocks: our own quantiser. It minimises the squared error of a block by a search over scales,
// each candidate refitted by least squares. Deterministic; one thread; no allocation. Invariant: every block
// it writes has finite scales, also for NaN or infinite input (whose values then mean nothing).
#pragma once
#include <cstddef>
#include <cstdint>

#include "quant/type.h"

namespace coterie::quant {

bool can_encode(Type type);

// n weights, a multiple of the format's block; `out` needs no alignment. Throws unsupported or
// invalid_argument.
void encode(Type type, const float* in, std::byte* out, int64_t n);

}  // namespace coterie::quant
