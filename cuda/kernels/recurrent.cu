// Causal convolution with SiLU, the gates and the gated delta rule, token by token per sequence (of a prompt
// the rule is taken in chunks: delta_chunks.cu).
//
// convolve: a thread carries one channel through a span's rows. Grid (channels / 128, spans). Bytes: 8 per
// number, and the history twice. delta_rule: S = exp(decay) S;  d = beta (v - S k);  S += d k^T;  y = S
// (query_scale q). 8 lanes keep one row of S [key dim] in registers through a span's tokens; a block of 4
// warps has 16 rows. Grid (value dim / 16, value heads, spans). Bytes: the state once in, once out, and 4 per
// number of q, k, v, y. FLOPs: 7 per number of the state and token. Bound by the state's bandwidth at one
// token, by latency at many.
#include "cuda/kernels/activations.h"
#include "cuda/kernels/kernel_language.h"
#include "cuda/kernels/recurrent.h"

namespace coterie::cuda {

namespace {

constexpr int threads = 128, rows_of_block = threads / 8;

__global__ void __launch_bounds__(threads)
    convolve_kernel(View y, View x, const float* taps, StateLayer layer, StepView step) {
    const int channel = int(blockIdx.x) * threads + int(threadIdx.x), n = layer.taps;
    if (channel >= layer.channels) return;
    const SpanView& span = step.spans[blockIdx.y];
    float* history = layer.data + span.state * layer.slot_floats + channel;
    float weights[most_taps], seen[most_taps];  // seen: the last n - 1 inputs, oldest first
#pragma unroll
    for (int k = 0; k < most_taps; ++k) {
        weights[k] = k < n ? taps[channel * n + k] : 0.0f;
        seen[k] = k < n - 1 ? history[int64_t(k) * layer.channels] : 0.0f;
    }
    for (int64_t r = span.first_row; r < span.first_row + span.rows; ++r) {
        const float now = x.data[r * x.stride + channel];
        float sum = 0;
#pragma unroll
        for (int k = 0; k < most_taps; ++k) {
            if (k == n - 1) seen[k] = now;
            sum += weights[k] * seen[k];
        }
        y.data[r * y.stride + channel] = sum * sigmoid(sum);
#pragma unroll
        for (int k = 0; k < most_taps - 1; ++k) seen[k] = seen[k + 1];
    }
#pragma unroll
    for (int k = 0; k < most_taps; ++k)
        if (k < n - 1) history[int64_t(k) * layer.channels] = seen[k];
}

__global__ void __launch_bounds__(threads)
    gates_kernel(View decay, View beta, const float* dt, const float* a) {
    const int i = int(blockIdx.x) * threads + int(threadIdx.x);
    if (i >= decay.rows * decay.width) return;
    const int64_t row = i / decay.width, head = i % decay.width;
    float& g = decay.data[row * decay.stride + head];
    float& b = beta.data[row * beta.stride + head];
    const float x = g + dt[head];
    g = (x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x))) * a[head];
    b = sigmoid(b);
}

// pieces: numbers of a row per lane, in fours.
template <int pieces>
__global__ void __launch_bounds__(threads) delta_kernel(DeltaWork w) {
    const StateLayer& l = w.layer;
    const int lane = int(threadIdx.x) & 7, o = int(blockIdx.x) * rows_of_block + int(threadIdx.x) / 8;
    const int head = int(blockIdx.y);
    const int key_head = w.tiled ? head % w.key_heads : head / (l.value_heads / w.key_heads);
    const SpanView& span = w.step.spans[blockIdx.z];
    if (span.rows >= w.fewest_chunked) return;
    const bool on = o < l.value_dim;
    float* stored = l.data + span.state * l.slot_floats + int64_t(l.taps - 1) * l.channels +
                    (int64_t(head) * l.value_dim + o) * l.key_dim;
    float s[pieces * 4];
#pragma unroll
    for (int p = 0; p < pieces * 4; ++p) {
        const int i = p * 8 + lane;
        s[p] = on && i < l.key_dim ? stored[i] : 0.0f;
    }
    for (int64_t r = span.first_row; r < span.first_row + span.rows; ++r) {
        const float factor = expf(w.decay.data[r * w.decay.stride + head]);
        const float beta = w.beta.data[r * w.beta.stride + head];
        const float* key = w.k.data + r * w.k.stride + int64_t(key_head) * l.key_dim;
        const float* query = w.q.data + r * w.q.stride + int64_t(key_head) * l.key_dim;
        float seen = 0, out = 0, keys[pieces * 4];
#pragma unroll
        for (int p = 0; p < pieces * 4; ++p) {
            const int i = p * 8 + lane;
            keys[p] = i < l.key_dim ? key[i] : 0.0f;
            s[p] *= factor;
            seen += s[p] * keys[p];
        }
        seen = lanes_sum(seen, 8);
        const float value = on ? w.v.data[r * w.v.stride + int64_t(head) * l.value_dim + o] : 0.0f;
        const float d = beta * (value - seen);
#pragma unroll
        for (int p = 0; p < pieces * 4; ++p) {
            const int i = p * 8 + lane;
            s[p] += d * keys[p];
            out += s[p] * (i < l.key_dim ? query[i] : 0.0f);
        }
        out = lanes_sum(out, 8) * w.query_scale;
        if (on && lane == 0) w.y.data[r * w.y.stride + int64_t(head) * l.value_dim + o] = out;
    }
#pragma unroll
    for (int p = 0; p < pieces * 4; ++p) {
        const int i = p * 8 + lane;
        if (on && i < l.key_dim) stored[i] = s[p];
    }
}

}  // namespace

cudaError_t convolve(View y, View x, const float* taps, const StateLayer& layer, const StepView& step,
                     int32_t spans, cudaStream_t stream) {
    if (spans == 0 || layer.channels == 0) return cudaSuccess;
    if (layer.taps > most_taps) return cudaErrorInvalidValue;
    return launch(
        {dim3(parts_of(layer.channels, threads), unsigned(spans)), dim3(threads), 0, stream, "convolve"},
        convolve_kernel, y, x, taps, layer, step);
}

cudaError_t delta_gates(View decay, View beta, const float* dt, const float* a, cudaStream_t stream) {
    const int64_t n = int64_t(decay.rows) * decay.width;
    if (n == 0) return cudaSuccess;
    return launch({dim3(parts_of(n, threads)), dim3(threads), 0, stream, "delta_gates"}, gates_kernel, decay,
                  beta, dt, a);
}

cudaError_t delta_rule(const DeltaWork& of, bool shorter, bool longer, cudaStream_t stream) {
    DeltaWork w = of;
    const StateLayer& l = w.layer;
    if (w.spans == 0 || l.value_heads == 0 || l.value_dim == 0) return cudaSuccess;
    w.fewest_chunked = l.key_dim <= most_chunked_key_dim ? fewest_chunked_tokens : INT32_MAX;
    if (longer && l.key_dim <= most_chunked_key_dim) {
        const cudaError_t error = chunked_delta_rule(w, stream);
        if (error != cudaSuccess || !shorter) return error;
    }
    const Launch at{dim3(parts_of(l.value_dim, rows_of_block), unsigned(l.value_heads), unsigned(w.spans)),
                    dim3(threads), 0, stream, "delta_rule"};
    return l.key_dim <= 64    ? launch(at, delta_kernel<2>, w)
           : l.key_dim <= 128 ? launch(at, delta_kernel<4>, w)
                              : launch(at, delta_kernel<8>, w);
}

}  // namespace coterie::cuda
