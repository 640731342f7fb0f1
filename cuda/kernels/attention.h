// Rotary embedding, the paged cache of keys and values, and attention.
#pragma once
#include "cuda/kernels/step_view.h"
#include "cuda/kernels/view.h"
#include "quant/type.h"

namespace coterie::cuda {

// One layer of the cache. A page holds planes one after the other: for keys the numbers [token][kv
// head][dim], then (Q8_0) the F16 scales [token][kv head][dim / 32]; for values the same.
struct CacheLayer {
    uint8_t* pages = nullptr;
    int64_t page_bytes = 0;
    int32_t page_tokens = 0;  // a multiple of 8, so that every plane begins at a multiple of 16
    int32_t kv_heads = 0, key_dim = 0, value_dim = 0;
    Type key_type = Type::F16, value_type = Type::F16;
    int64_t keys = 0, key_scales = 0, values = 0, value_scales = 0;  // where the planes begin in a page
};

struct Rotation {
    bool adjacent = false;   // pairs (2i, 2i + 1); otherwise (i, i + dimensions / 2)
    int32_t dimensions = 0;  // of each head that turn
    const float* frequencies = nullptr;
    float magnitude = 1;
};

// Per head of q, k and v in one launch: RMS norm where there is a gain, rotation of q and k, storing of k and
// v. A view with null data is left out.
struct HeadWork {
    View q, k, v;
    int32_t heads = 0;  // of q
    const float *q_gain = nullptr, *k_gain = nullptr;
    float eps = 0;
    bool rotate = false;
    Rotation rotation;
    bool store = false;
    CacheLayer cache;  // kv_heads and dims count even without storing
    StepView step;
};
cudaError_t head_work(const HeadWork& work, cudaStream_t stream);

struct AttentionWork {
    View y, q;
    CacheLayer cache;
    int32_t heads = 0, group = 1, group_offset = 0;
    float scale = 1, softcap = 0;
    int32_t window = 0;
    const float* sinks = nullptr;
    StepView step;
    int32_t spans = 0;  // of the step
    int32_t splits = 1;
    float* partial =
        nullptr;  // attention_scratch_floats() of them when splits > 1, otherwise anything but null
};
// Keys are shared out to this many blocks per tile of queries.
int32_t attention_splits(int64_t rows, int32_t heads, int32_t group, int32_t processors);
int64_t attention_scratch_floats(int64_t rows, int32_t heads, int32_t value_dim, int32_t splits);
constexpr int32_t most_head_width = 256;   // of keys and values
constexpr int32_t most_rope_width = 1024;  // of a head that is only rotated
cudaError_t attend(const AttentionWork& work, cudaStream_t stream);

}  // namespace coterie::cuda
