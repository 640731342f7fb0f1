// Rows of a table of weights by token: the embedding.
#pragma once
#include "cuda/kernels/packed.h"
#include "cuda/kernels/view.h"

namespace coterie::cuda {

// y[r] = scale * table[tokens[r] - first]; zero where that row is not here.
cudaError_t look_up(View y, const Packed& table, const int32_t* tokens, float scale, int64_t first,
                    cudaStream_t stream);

}  // namespace coterie::cuda
