// The scalar functions of the activations, in device code.
#pragma once
#include "cuda/kernels/elements.h"
#include "cuda/kernels/kernel_language.h"

namespace coterie::cuda {

__device__ __forceinline__ float sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

// act(gate) * up
__device__ __forceinline__ float activated(Elementwise activation, float gate, float up) {
    if (activation == Elementwise::silu) return gate * sigmoid(gate) * up;
    if (activation == Elementwise::gelu_tanh) {
        const float inner = 0.79788456080286535588f * (gate + 0.044715f * gate * gate * gate);
        // 1 + tanh(z) = 2 sigmoid(2 z), which keeps its digits where tanh is near -1.
        return gate * sigmoid(2.0f * inner) * up;
    }
    gate = fminf(gate, 7.0f);
    up = fminf(fmaxf(up, -7.0f), 7.0f);
    return gate * sigmoid(1.702f * gate) * (up + 1.0f);
}

}  // namespace coterie::cuda
