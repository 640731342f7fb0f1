// Products of weights with few rows of activations, dense or routed to experts.
#pragma once
#include "cuda/kernels/elements.h"
#include "cuda/kernels/packed.h"
#include "cuda/kernels/view.h"

namespace coterie::cuda {

// Which expert each (row, choice) goes to. Experts [first, first + weight.experts) are here.
struct Choices {
    const int32_t* experts = nullptr;  // [rows][used]; null: no routing
    const float* weights = nullptr;    // [rows][used]
    int32_t used = 1, first = 0;
};

// y = w x + bias; or, with `up`: y = activation(w x + bias) * (up x + up_bias). Routed: y has a row per
// choice, x has one per choice or one per row. Packed weights take x rounded, the others take it as it is.
struct Product {
    View y;
    Packed w;
    const float* bias = nullptr;  // [experts][out]
    Packed up;                    // up.codes null: a plain product
    const float* up_bias = nullptr;
    Elementwise activation = Elementwise::silu;
    Rounded rounded;
    View x;
    bool x_per_choice = false;
    Choices choices;
    int32_t lanes = 32;    // that share an output, set by product()
    bool aligned = false;  // x may be read 16 bytes at a time, set by product()
};
// Plain products of weights of p.w's type and width with the same rows, in the same launch.
struct Further {
    static constexpr int most = 3;
    struct Part {
        Packed w;
        const float* bias = nullptr;
        float* y = nullptr;
        int64_t stride = 0;
        int32_t first_block = 0;  // set by product()
    } part[most];
    int32_t count = 0;
};
cudaError_t product(Product product, cudaStream_t stream, const Further& further = {});

// y[r] = sum over j of weight(r, j) (w[e(r, j)] x[r * used + j] + bias), in the order of j. With p.w, p.bias,
// p.x or p.rounded, p.choices.
cudaError_t product_combined(Product product, cudaStream_t stream);

constexpr bool is_packed(Type type) {
    return format_of(type).bits != 0;
}

}  // namespace coterie::cuda
