// Rounds activations to 8 bits, once per row for all products with them.
#pragma once
#include "cuda/kernels/packed.h"
#include "cuda/kernels/view.h"

namespace coterie::cuda {

// x's width is a multiple of 32.
cudaError_t round_rows(const Rounded& to, View x, cudaStream_t stream);

}  // namespace coterie::cuda
