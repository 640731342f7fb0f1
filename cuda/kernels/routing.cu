// The router: scores of a row's logits, the best of them, their weights.
//
// A warp per row; scores lie in shared memory, each choice is a pass over a lane's share and five exchanges.
// Ties go to the lower number, NaN counts as -inf. Softmax without bias or groups chooses by the logits
// themselves: equal means equal. The other gatings are computed in double, as a sigmoid near 1 loses the
// order of its inputs in F32. Grid (rows). Bytes: 4 per expert, 8 per choice. Bound by latency: about 20
// instructions per choice.
#include "cuda/kernels/kernel_language.h"
#include "cuda/kernels/routing.h"

namespace coterie::cuda {

namespace {

constexpr double lowest = -INFINITY;

template <typename Number>
__device__ __forceinline__ Number warp_total(Number value) {
    for (int other = 16; other > 0; other >>= 1) value += __shfl_xor_sync(0xffffffffu, value, other);
    return value;
}

// The first largest of score[0, n), in every lane; -1 when none is above -inf and open. A closed one is -inf
// with its bit set.
template <typename Number>
__device__ int best(const Number* score, const uint32_t* closed, int n) {
    Number most = Number(lowest);
    int at = -1;
    for (int i = lane_index(); i < n; i += 32) {
        if (closed[i >> 5] >> (i & 31) & 1) continue;
        const Number value = score[i] == score[i] ? score[i] : Number(lowest);
        if (at < 0 || value > most) most = value, at = i;
    }
    for (int other = 16; other > 0; other >>= 1) {
        const Number theirs = __shfl_xor_sync(0xffffffffu, most, other);
        const int their_index = __shfl_xor_sync(0xffffffffu, at, other);
        if (their_index >= 0 && (at < 0 || theirs > most || (theirs == most && their_index < at)))
            most = theirs, at = their_index;
    }
    return at;
}

__device__ __forceinline__ double gated(double x, Gating gating) {
    if (gating == Gating::sigmoid) return 1.0 / (1.0 + exp(-x));
    return sqrt(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)));
}

template <typename Number>
__device__ void choose(const RouterWork& w, Number* score, uint32_t* closed, int* chosen,
                       double* probability) {
    const int lane = lane_index(), n = w.scores.width;
    const int64_t row = blockIdx.x;
    const float* logits = w.scores.data + row * w.scores.stride;
    const bool softmax = w.gating == Gating::softmax || w.gating == Gating::selected_softmax;
    float most = -INFINITY;
    double total = 1;
    for (int i = lane; i < n; i += 32) most = fmaxf(most, logits[i]);
    most = warp_max(most);
    if (w.gating == Gating::softmax) {
        float sum = 0;
        for (int i = lane; i < n; i += 32) sum += expf(logits[i] - most);
        total = double(warp_sum(sum));
    }
    const auto weight_of = [&](int i) -> double {
        if (w.gating == Gating::softmax) return double(expf(logits[i] - most)) / total;
        if (w.gating == Gating::selected_softmax) return double(logits[i]);
        return gated(double(logits[i]), w.gating);
    };
    const bool by_logits = softmax && !w.selection_bias && w.groups == 1;
    for (int i = lane; i < n; i += 32) {
        if (by_logits) {
            score[i] = Number(logits[i]);
            continue;
        }
        const double exact =
            w.gating == Gating::softmax ? exp(double(logits[i]) - double(most)) / total : weight_of(i);
        score[i] = Number(exact + (w.selection_bias ? double(w.selection_bias[i]) : 0.0));
    }
    for (int i = lane; i < (n + 31) / 32; i += 32) closed[i] = 0;
    __syncwarp();
    if (w.groups > 1) {
        const int size = n / w.groups;
        // A lane sums the two best of its groups; the groups' sums lie behind the scores.
        Number* sums = score + n;
        uint32_t* closed_groups = closed + most_experts / 32;
        for (int g = lane; g < w.groups; g += 32) {
            Number first = Number(lowest), second = Number(lowest);
            for (int i = g * size; i < (g + 1) * size; ++i) {
                const Number value = score[i] == score[i] ? score[i] : Number(lowest);
                if (value > first)
                    second = first, first = value;
                else if (value > second)
                    second = value;
            }
            sums[g] = size > 1 ? first + second : first;
        }
        for (int i = lane; i < (w.groups + 31) / 32; i += 32) closed_groups[i] = 0;
        __syncwarp();
        for (int j = 0; j < w.groups_used; ++j) {
            const int group = best(sums, closed_groups, w.groups);
            if (lane == 0) closed_groups[group >> 5] |= 1u << (group & 31);
            __syncwarp();
        }
        for (int word = lane; word < (n + 31) / 32; word += 32) {
            uint32_t bits = 0;
            for (int i = 0; i < 32 && word * 32 + i < n; ++i) {
                const int group = (word * 32 + i) / size;
                if (!(closed_groups[group >> 5] >> (group & 31) & 1)) bits |= 1u << i;
            }
            closed[word] = bits;
        }
        __syncwarp();
    }
    for (int j = 0; j < w.used; ++j) {
        const int i = best(score, closed, n);
        if (lane == 0) {
            closed[i >> 5] |= 1u << (i & 31);
            chosen[j] = i;
            probability[j] = weight_of(i);
        }
        __syncwarp();
    }
}

template <typename Number>
__global__ void __launch_bounds__(32) choose_kernel(RouterWork w) {
    SHARED(Number, score, [2 * most_experts]);
    SHARED(uint32_t, closed, [most_experts / 16]);
    SHARED(int, chosen, [most_experts_used]);
    SHARED(double, probability, [most_experts_used]);
    choose<Number>(w, score, closed, chosen, probability);
    const int lane = lane_index();
    const int64_t row = blockIdx.x;
    double mine = lane < w.used ? probability[lane] : 0.0;
    if (w.gating == Gating::selected_softmax) {
        double most = lowest;
        for (int j = 0; j < w.used; ++j) most = fmax(most, probability[j]);
        mine = lane < w.used ? exp(mine - most) : 0.0;
        mine /= warp_total(mine);
    }
    const double sum = warp_total(mine);
    const double divisor = w.normalise ? fmax(sum, 0.00006103515625) : 1.0;
    if (lane < w.used) {
        w.experts[row * w.used + lane] = chosen[lane];
        w.weights[row * w.used + lane] = float(mine / divisor * double(w.scale));
    }
}

constexpr int combine_threads = 128;

__global__ void __launch_bounds__(combine_threads)
    combine_kernel(View y, View e, const float* weights, int32_t used) {
    const int i = int(blockIdx.x) * combine_threads + int(threadIdx.x);
    const int64_t row = blockIdx.y;
    if (i >= y.width) return;
    float sum = 0;
    for (int j = 0; j < used; ++j) sum += weights[row * used + j] * e.data[(row * used + j) * e.stride + i];
    y.data[row * y.stride + i] = sum;
}

}  // namespace

cudaError_t choose_experts(const RouterWork& w, cudaStream_t stream) {
    if (w.scores.rows == 0) return cudaSuccess;
    if (w.scores.width > most_experts || w.used > most_experts_used) return cudaErrorInvalidValue;
    const bool by_logits = (w.gating == Gating::softmax || w.gating == Gating::selected_softmax) &&
                           !w.selection_bias && w.groups == 1;
    const Launch l{dim3(unsigned(w.scores.rows)), dim3(32), 0, stream, "choose_experts"};
    return by_logits ? launch(l, choose_kernel<float>, w) : launch(l, choose_kernel<double>, w);
}

cudaError_t combine_experts(View y, View e, const float* weights, int32_t used, cudaStream_t stream) {
    if (y.rows == 0 || y.width == 0) return cudaSuccess;
    return launch({dim3(parts_of(y.width, combine_threads), unsigned(y.rows)), dim3(combine_threads), 0,
                   stream, "combine"},
                  combine_kernel, y, e, weights, used);
}

}  // namespace coterie::cuda
