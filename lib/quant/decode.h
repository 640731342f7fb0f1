// Blocks to floats, bit for bit what the formats' reference decoders give. One thread; no allocation. Integer
// tensors, F64 and the activation formats Q8_1 and Q8_K are not weights and are refused.
#pragma once
#include <cstddef>
#include <cstdint>

#include "quant/type.h"

namespace coterie::quant {

bool can_decode(Type type);

// n weights, a multiple of the format's block; `blocks` needs no alignment. Throws unsupported or
// invalid_argument.
void decode(Type type, const std::byte* blocks, float* out, int64_t n);

}  // namespace coterie::quant
