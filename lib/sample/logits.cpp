// See logits.h.
#include "sample/logits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace coterie {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
constexpr size_t lanes = 16;
constexpr size_t block = 1024;  // floats are summed over so many, then doubles

// exp(x) for lowest <= x <= 0: 2^n times the Taylor series of the rest, which is at most ln(2) / 2 in size. 0
// below -87.7.
constexpr float lowest = -88.0f;  // gives the exponent -127, and so 0
inline float exp_of_negative(float x) {
    constexpr float rounder =
        12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
    const float shifted = x * 1.44269504f + rounder;
    const float n = shifted - rounder;
    const float r = x - n * 0.693359375f + n * 2.12194440e-4f;  // ln(2) in two parts
    const float sum =
        ((((((r / 5040 + 1.0f / 720) * r + 1.0f / 120) * r + 1.0f / 24) * r + 1.0f / 6) * r + 1.0f / 2) * r +
         1) *
            r +
        1;
    const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(rounder);
    const float power = std::bit_cast<float>((exponent + 127) << 23);
    return sum * power;
}

float merge(const float (&best)[lanes]) {
    return *std::max_element(best, best + lanes);
}

}  // namespace

float scrub(std::span<float> logits) {
    float best[lanes];
    std::fill(best, best + lanes, minus_infinity);
    size_t i = 0;
    for (; i + lanes <= logits.size(); i += lanes)
        for (size_t lane = 0; lane < lanes; ++lane) {
            const float raw = logits[i + lane];
            const float logit = raw == raw ? raw : minus_infinity;
            logits[i + lane] = logit;
            best[lane] = logit > best[lane] ? logit : best[lane];
        }
    for (; i < logits.size(); ++i) {
        if (std::isnan(logits[i])) logits[i] = minus_infinity;
        best[0] = std::max(best[0], logits[i]);
    }
    return merge(best);
}

float greatest(std::span<const float> logits) {
    float best[lanes];
    std::fill(best, best + lanes, minus_infinity);
    size_t i = 0;
    for (; i + lanes <= logits.size(); i += lanes)
        for (size_t lane = 0; lane < lanes; ++lane)
            best[lane] = logits[i + lane] > best[lane] ? logits[i + lane] : best[lane];
    for (; i < logits.size(); ++i) best[0] = std::max(best[0], logits[i]);
    return merge(best);
}

void forbid(std::span<float> logits, std::span<const uint32_t> allowed) {
    for (size_t i = 0; i < logits.size(); i += 32) {
        const uint32_t bits = i / 32 < allowed.size() ? allowed[i / 32] : 0;
        if (bits == UINT32_MAX) continue;
        const size_t end = std::min(i + 32, logits.size());
        if (bits == 0) {
            std::fill(logits.begin() + std::ptrdiff_t(i), logits.begin() + std::ptrdiff_t(end),
                      minus_infinity);
            continue;
        }
        for (size_t j = i; j < end; ++j)
            if (!(bits >> (j - i) & 1)) logits[j] = minus_infinity;
    }
}

double exponentials(std::span<const float> logits, float best, float scale, std::span<float> weights) {
    float scratch[block];
    double total = 0;
    for (size_t begin = 0; begin < logits.size(); begin += block) {
        const size_t n = std::min(block, logits.size() - begin);
        const float* const in = logits.data() + begin;
        float* const out = weights.empty() ? scratch : weights.data() + begin;
        if (std::isinf(best)) {
            for (size_t i = 0; i < n; ++i) out[i] = in[i] == best ? 1.0f : 0.0f;
        } else {
            // Two loops: in one, compilers make a branch of the bound and don't vectorise.
            for (size_t i = 0; i < n; ++i) {
                const float x = (in[i] - best) * scale;
                out[i] = x > lowest ? x : lowest;
            }
            for (size_t i = 0; i < n; ++i) out[i] = exp_of_negative(out[i]);
        }
        float sums[lanes] = {};
        size_t i = 0;
        for (; i + lanes <= n; i += lanes)
            for (size_t lane = 0; lane < lanes; ++lane) sums[lane] += out[i + lane];
        for (; i < n; ++i) sums[0] += out[i];
        for (const float sum : sums) total += double(sum);
    }
    return total;
}

void best_tokens(std::span<const float> logits, size_t k, std::vector<Candidate>& best) {
    best.clear();
    if (k == 0) return;
    if (k > 4096) {  // many: selecting among all is faster than the heap
        for (size_t i = 0; i < logits.size(); ++i)
            if (logits[i] > minus_infinity) best.push_back({int32_t(i), logits[i]});
        if (k < best.size()) {
            std::nth_element(best.begin(), best.begin() + std::ptrdiff_t(k), best.end());
            best.resize(k);
        }
        std::sort(best.begin(), best.end());
        return;
    }
    // A heap with the worst of the best on top. Tokens come in order, so one that equals the worst is no
    // better.
    float worst = minus_infinity;
    const auto offer = [&](size_t i) {
        if (!(logits[i] > worst)) return;
        if (best.size() == k) {
            std::pop_heap(best.begin(), best.end());
            best.pop_back();
        }
        best.push_back({int32_t(i), logits[i]});
        std::push_heap(best.begin(), best.end());
        if (best.size() == k) worst = best.front().logit;
    };
    size_t i = 0;
    for (; i + lanes <= logits.size(); i += lanes) {
        uint32_t any = 0;
        for (size_t lane = 0; lane < lanes; ++lane) any |= uint32_t(logits[i + lane] > worst);
        if (any)
            for (size_t lane = 0; lane < lanes; ++lane) offer(i + lane);
    }
    for (; i < logits.size(); ++i) offer(i);
    std::sort_heap(best.begin(), best.end());
}

}  // namespace coterie
