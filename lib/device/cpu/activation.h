// Activations as the quantised products want them: 32 columns as int8 with a scale of their own, so that no
// product depends on how a weight was cut. Finer than one scale per 256, at 3 % of the multiply cost.
#pragma once
#include <cstdint>

namespace coterie::cpu {

struct ActivationBlock {
    int8_t q[32];        // round(x / scale), |q| <= 127
    float scale;         // max |x| / 127
    float sum;           // scale * sum of q: what a weight's constant part multiplies
    int32_t shift32[2];  // -32 * the sums of q[0..15] and q[16..31]: what makes a 16-wide u into u - 32
};
static_assert(sizeof(ActivationBlock) == 48);

}  // namespace coterie::cpu
