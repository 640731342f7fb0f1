// The best numbers of long rows: what a step returns of a vocabulary.
#pragma once
#include "cuda/kernels/view.h"

namespace coterie::cuda {

constexpr int32_t most_ranked = 256;  // per row

struct RankedNumber {  // device/device.h's Ranked
    int32_t index;
    float value;
};

// Keys of scratch that rank() needs.
int64_t ranking_scratch(int64_t rows, int64_t width, int32_t count);

// best [rows][count]: the count largest of each row, of equal ones the lower index first; index -1 past what
// is above -inf.
cudaError_t rank(RankedNumber* best, int32_t count, View x, uint64_t* scratch, cudaStream_t stream);

}  // namespace coterie::cuda
