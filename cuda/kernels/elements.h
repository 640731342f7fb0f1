// Norms, activations and other operations row by row or element by element, in F32.
#pragma once
#include "cuda/kernels/packed.h"
#include "cuda/kernels/view.h"

namespace coterie::cuda {

// One norm per row and part of it: y = f x / sqrt(mean or sum of squares + eps) * gain.
struct Norm {
    View y, x;
    const float* added = nullptr;  // x += added first (rows of x's width, added_stride apart)
    int64_t added_stride = 0;
    const float* gain = nullptr;  // [width / parts]
    int32_t parts = 1;            // of a row, normed each on its own
    bool mean = true;             // of squares; the sum otherwise
    float eps = 0;
    Rounded rounded;  // where there are codes: y rounded to 8 bits too; a width of a multiple of 32, one part
};
cudaError_t norm(const Norm& norm, cudaStream_t stream);

enum class Elementwise { add, clear, silu, gelu_tanh, clamped_swiglu, sigmoid_gate, softcap };
// y = operation(a, b), per element. add: y += a. The activations: a is the gate, b the up. sigmoid_gate: y *=
// sigmoid(a), where a may have width 1. softcap: y = value * tanh(y / value). Where `rounded` has codes, y is
// rounded too; its width is then a multiple of 32.
cudaError_t elementwise(Elementwise operation, View y, View a, View b, float value, cudaStream_t stream,
                        const Rounded& rounded = {});

// y[i] = x[rows[i]]; y may be x when rows ascend and rows[i] >= i.
cudaError_t select_rows(View y, View x, const int32_t* rows, cudaStream_t stream);

}  // namespace coterie::cuda
