// The choice of experts and the weighted sum of what they gave.
#pragma once
#include "cuda/kernels/view.h"

namespace coterie::cuda {

enum class Gating { softmax, sigmoid, selected_softmax, sqrt_softplus };
struct RouterWork {
    View scores;  // logits [rows, experts]
    int32_t used = 0;
    Gating gating = Gating::softmax;
    bool normalise = true;
    float scale = 1;
    const float* selection_bias = nullptr;
    int32_t groups = 1, groups_used = 1;
    int32_t* experts = nullptr;  // [rows][used]
    float* weights = nullptr;
};
constexpr int32_t most_experts = 1024, most_experts_used = 32;
cudaError_t choose_experts(const RouterWork& work, cudaStream_t stream);

// y[r] = sum over j of weights[r][j] * e[r * used + j], in the order of j.
cudaError_t combine_experts(View y, View e, const float* weights, int32_t used, cudaStream_t stream);

}  // namespace coterie::cuda
