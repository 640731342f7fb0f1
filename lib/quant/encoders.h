// One block from its 32 or 256 floats, per format. For encode() only.
#pragma once
#include "quant/blocks.h"

namespace coterie::quant {

void pack(const float* x, BlockQ4_0& b);
void pack(const float* x, BlockQ4_1& b);
void pack(const float* x, BlockQ5_0& b);
void pack(const float* x, BlockQ5_1& b);
void pack(const float* x, BlockQ8_0& b);
void pack(const float* x, BlockIQ4NL& b);
void pack(const float* x, BlockMXFP4& b);
void pack(const float* x, BlockQ2K& b);
void pack(const float* x, BlockQ3K& b);
void pack(const float* x, BlockQ4K& b);
void pack(const float* x, BlockQ5K& b);
void pack(const float* x, BlockQ6K& b);

}  // namespace coterie::quant
