// Rounding of a group of 32 activations, one per lane, in kernels that have just made them. The same numbers
// as rounding.cu gives.
#pragma once
#include "cuda/kernels/kernel_language.h"
#include "cuda/kernels/packed.h"

namespace coterie::cuda {

// All lanes of the warp call it, with columns 32 group + lane.
__device__ __forceinline__ void round_group(const Rounded& to, int64_t row, int group, float value) {
    const int lane = lane_index();
    const float most = warp_max(fabsf(value));
    const bool tiny = most < 1e-35f;
    const int q = tiny ? 0 : int(rintf(value * (127.0f / most)));
    const int sum = lanes_sum(q, 16), other = __shfl_xor_sync(0xffffffffu, sum, 16);
    to.codes[((row * 2 + (lane >> 4)) * to.groups + group) * 16 + (lane & 15)] = int8_t(q);
    if (lane == 0)
        to.scales[row * to.groups + group] =
            RoundedScale{tiny ? 0.0f : most / 127.0f, {int16_t(sum), int16_t(other)}};
}

}  // namespace coterie::cuda
