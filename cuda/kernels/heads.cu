// Per head of q, k and v: RMS norm, rotation, storing into the cache.
//
// A block of one warp per head and row; the head lies in shared memory meanwhile. Grid (heads + 2 kv heads,
// rows). Bytes per number: 4 read, 4 written (q, k), the cache's type written (k, v). Bound by latency.
// Rotation: angle = position * frequency, formed in two parts and reduced by 2 pi before cos and sin, so that
// 10^5 radians keep their digits.
#include "cuda/kernels/attention.h"
#include "cuda/kernels/cache_access.h"
#include "cuda/kernels/kernel_language.h"

namespace coterie::cuda {

namespace {

// position * frequency, reduced to [-pi, pi].
__device__ __forceinline__ float reduced_angle(float position, float frequency) {
    const float high = position * frequency, low = fmaf(position, frequency, -high);
    const float turns = rintf(high * 0.15915494309189535f);
    float angle = fmaf(-turns, 6.28318548202514648f, high);
    angle = fmaf(-turns, -1.74845553146e-7f, angle);
    return angle + low;
}

__device__ __forceinline__ void store_vector(Type type, uint8_t* numbers, uint8_t* scales, int64_t vector,
                                             int32_t dim, const float* x) {
    const int lane = lane_index();
    for (int begin = 0; begin < dim; begin += 32) {
        const int i = begin + lane;
        const float value = i < dim ? x[i] : 0.0f;
        const int64_t at = vector * dim + i;
        if (type == Type::Q8_0) {
            const float most = warp_max(fabsf(value)), d = most / 127.0f;
            if (i < dim) {
                numbers[at] =
                    uint8_t(int8_t(d > 0 ? fminf(fmaxf(roundf(value / d), -127.0f), 127.0f) : 0.0f));
                if (lane == 0)
                    reinterpret_cast<uint16_t*>(scales)[vector * (dim / 32) + begin / 32] = half_bits(d);
            }
        } else if (i < dim) {
            if (type == Type::F16)
                reinterpret_cast<uint16_t*>(numbers)[at] = half_bits(value);
            else
                reinterpret_cast<float*>(numbers)[at] = value;
        }
    }
}

__global__ void __launch_bounds__(32) head_kernel(HeadWork w) {
    SHARED(float, x, [most_rope_width]);
    const int64_t row = blockIdx.y;
    const int lane = lane_index(), q_heads = w.q.data ? w.heads : 0,
              k_heads = w.k.data ? w.cache.kv_heads : 0;
    int head = int(blockIdx.x);
    const bool is_q = head < q_heads, is_k = !is_q && head < q_heads + k_heads;
    head -= is_q ? 0 : is_k ? q_heads : q_heads + k_heads;
    const View& view = is_q ? w.q : is_k ? w.k : w.v;
    const int dim = is_q || is_k ? w.cache.key_dim : w.cache.value_dim;
    float* data = view.data + row * view.stride + int64_t(head) * dim;
    for (int i = lane; i < dim; i += 32) x[i] = data[i];
    __syncwarp();
    const float* gain = is_q ? w.q_gain : is_k ? w.k_gain : nullptr;
    if (gain) {
        float sum = 0;
        for (int i = lane; i < dim; i += 32) sum += x[i] * x[i];
        const float factor = 1.0f / sqrtf(warp_sum(sum) / float(dim) + w.eps);
        for (int i = lane; i < dim; i += 32) x[i] *= factor * gain[i];
        __syncwarp();
    }
    if (w.rotate && (is_q || is_k)) {
        const int half = w.rotation.dimensions / 2;
        const float position = float(w.step.positions[row]);
        for (int i = lane; i < half; i += 32) {
            const float angle = reduced_angle(position, w.rotation.frequencies[i]);
            const float c = cosf(angle) * w.rotation.magnitude, s = sinf(angle) * w.rotation.magnitude;
            const int first = w.rotation.adjacent ? 2 * i : i,
                      second = w.rotation.adjacent ? 2 * i + 1 : i + half;
            const float a = x[first], b = x[second];
            x[first] = a * c - b * s;
            x[second] = a * s + b * c;
        }
        __syncwarp();
    }
    if (gain || (w.rotate && (is_q || is_k)))
        for (int i = lane; i < dim; i += 32) data[i] = x[i];
    if (!w.store || is_q) return;
    const SpanView& span = w.step.spans[w.step.span_of[row]];
    const int32_t position = w.step.positions[row];
    uint8_t* page = page_of(w.cache, w.step, span.sequence, position);
    const int64_t vector = int64_t(position % w.cache.page_tokens) * w.cache.kv_heads + head;
    if (is_k)
        store_vector(w.cache.key_type, page + w.cache.keys, page + w.cache.key_scales, vector, dim, x);
    else
        store_vector(w.cache.value_type, page + w.cache.values, page + w.cache.value_scales, vector, dim, x);
}

}  // namespace

cudaError_t head_work(const HeadWork& w, cudaStream_t stream) {
    const int rows = w.q.data ? w.q.rows : w.k.data ? w.k.rows : w.v.rows;
    const int heads =
        (w.q.data ? w.heads : 0) + (w.k.data ? w.cache.kv_heads : 0) + (w.v.data ? w.cache.kv_heads : 0);
    if (rows == 0 || heads == 0) return cudaSuccess;
    return launch({dim3(unsigned(heads), unsigned(rows)), dim3(32), 0, stream, "head_work"}, head_kernel, w);
}

}  // namespace coterie::cuda
