// The causal convolution and the gated delta rule over recurrent states.
#pragma once
#include "cuda/kernels/step_view.h"
#include "cuda/kernels/view.h"

namespace coterie::cuda {

// One layer of the states: slot s begins at data + s * slot_floats; there the history [taps - 1][channels],
// oldest first, then the states [value head][value dim][key dim].
struct StateLayer {
    float* data = nullptr;  // of this layer in slot 0
    int64_t slot_floats = 0;
    int32_t channels = 0, taps = 0, value_heads = 0, key_dim = 0, value_dim = 0;
};

// spans: how many the step has.
cudaError_t convolve(View y, View x, const float* taps, const StateLayer& layer, const StepView& step,
                     int32_t spans, cudaStream_t stream);

cudaError_t delta_gates(View decay, View beta, const float* dt, const float* a, cudaStream_t stream);

struct DeltaWork {
    View y, q, k, v, decay, beta;
    StateLayer layer;
    int32_t key_heads = 0;
    bool tiled = true;
    float query_scale = 1;
    StepView step;
    int32_t spans = 0;
    int32_t fewest_chunked = 0;  // spans of as many rows are taken in chunks; set by delta_rule()
};
constexpr int32_t most_delta_key_dim = 256, most_taps = 8;
constexpr int32_t most_chunked_key_dim = 128, fewest_chunked_tokens = 8;
// Which spans the step has: of fewer than fewest_chunked_tokens rows, and longer ones.
cudaError_t delta_rule(const DeltaWork& work, bool shorter, bool longer, cudaStream_t stream);
// The longer ones, in chunks (delta_chunks.cu). Keys of up to most_chunked_key_dim numbers.
cudaError_t chunked_delta_rule(const DeltaWork& work, cudaStream_t stream);

}  // namespace coterie::cuda
