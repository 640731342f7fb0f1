// Rows of the seam as the kernels see them.
#pragma once
#include "cuda/kernels/elements.h"
#include "cuda/kernels/view.h"
#include "device/device.h"

namespace coterie::cuda {

inline View view_of(const Rows& x) {
    return {x.data, int32_t(x.rows), int32_t(x.width), x.stride};
}

inline Elementwise operation_of(Activation activation) {
    return activation == Activation::silu        ? Elementwise::silu
           : activation == Activation::gelu_tanh ? Elementwise::gelu_tanh
                                                 : Elementwise::clamped_swiglu;
}

}  // namespace coterie::cuda
