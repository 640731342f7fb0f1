// The search behind encode: the scale (and offset) with which n floats are best written as small integers. A
// candidate scale rounds the floats, least squares then gives the best scale for those integers, and the best
// candidate wins. For the encoders only. Vectors of four floats keep this quick on any machine without an
// instruction set to choose.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/half.h"

namespace coterie::quant {

using Lane = float __attribute__((vector_size(16)));

inline Lane load(const float* p) {
    Lane v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline Lane all(float v) {
    return Lane{v, v, v, v};
}
inline float sum(Lane v) {
    return (v[0] + v[1]) + (v[2] + v[3]);
}

// Nearest integer within [low, high]; NaN becomes low. Adding 1.5 * 2^23 leaves no bits for a fraction.
inline Lane nearest(Lane v, float low, float high) {
    v = v > all(low) ? v : all(low);
    v = v < all(high) ? v : all(high);
    return (v + 12582912.0f) - 12582912.0f;
}

// Below this a block is written as zeros: no F16 scale can tell it from zero.
constexpr float tiny = 1e-15f;

// An F16 scale that is never infinite.
inline uint16_t finite_half(float value) {
    const float bounded = value > -65504.0f ? (value < 65504.0f ? value : 65504.0f) : -65504.0f;
    return float_to_half(bounded);
}

inline float inverse(float scale) {
    return scale != 0 ? 1.0f / scale : 0.0f;
}

// The value of largest magnitude, with its sign.
template <int n>
float peak_of(const float* x) {
    Lane low = load(x), high = low;
    for (int i = 4; i < n; i += 4) {
        const Lane v = load(x + i);
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    float least = low[0], most = high[0];
    for (int i = 1; i < 4; ++i) {
        least = low[i] < least ? low[i] : least;
        most = high[i] > most ? high[i] : most;
    }
    return most > -least ? most : least;
}

// The squared error of writing x as offset + scale * q with q in [low, high].
template <int n>
float error_of(const float* x, float scale, float offset, float low, float high) {
    const float reciprocal = inverse(scale);
    Lane error = all(0);
    for (int i = 0; i < n; i += 4) {
        const Lane v = load(x + i) - offset;
        const Lane residual = v - scale * nearest(v * reciprocal, low, high);
        error += residual * residual;
    }
    return sum(error);
}

// The integers themselves, minus low: 0 ... high - low.
template <int n>
void codes_of(const float* x, float scale, float offset, float low, float high, uint8_t* codes) {
    const float reciprocal = inverse(scale);
    for (int i = 0; i < n; i += 4) {
        const Lane q = nearest((load(x + i) - offset) * reciprocal, low, high) - low;
        for (int k = 0; k < 4; ++k) codes[i + k] = uint8_t(int(q[k]));
    }
}

// x ~ scale * q, q in [-levels, levels - 1]. The scale's sign puts the peak on the longer side.
template <int n>
float symmetric_scale(const float* x, int levels) {
    const float peak = peak_of<n>(x);
    if (!(std::abs(peak) > tiny)) return 0;
    const float low = float(-levels), high = float(levels - 1);
    float best = -1, best_scale = 0;
    const auto consider = [&](float reciprocal) {
        Lane xq = all(0), qq = all(0);
        for (int i = 0; i < n; i += 4) {
            const Lane v = load(x + i), q = nearest(v * reciprocal, low, high);
            xq += v * q;
            qq += q * q;
        }
        // The error is sum(x^2) - xq^2 / qq at the best scale xq / qq.
        const float along = sum(xq), norm = sum(qq);
        // A tie (all x equal) goes to the first candidate, whose scale is the peak over a power of two.
        if (norm > 0 && along * along > best * norm * 1.000002f) {
            best = along * along / norm;
            best_scale = along / norm;
        }
    };
    consider(low / peak);
    for (int step = -9; step <= 9; ++step) consider((low - 0.1f * float(step)) / peak);
    for (int i = 0; i < 2; ++i) consider(inverse(best_scale));
    return best_scale;
}

struct Affine {
    float scale, offset;
};

// x ~ offset + scale * q, q in [0, levels], scale >= 0. With `below`, the offset may not be positive.
template <int n>
Affine affine_scale(const float* x, int levels, bool below) {
    Lane least = load(x), most = least, total = least;
    for (int i = 4; i < n; i += 4) {
        const Lane v = load(x + i);
        least = v < least ? v : least;
        most = v > most ? v : most;
        total += v;
    }
    float low = least[0], high = most[0];
    for (int i = 1; i < 4; ++i) {
        low = least[i] < low ? least[i] : low;
        high = most[i] > high ? most[i] : high;
    }
    if (below && low > 0) low = 0;
    const float range = high - low, sum_x = sum(total);
    if (!(range > tiny)) return {0, low};
    Affine best{range / float(levels), low};
    float best_gain = -1;
    const auto consider = [&](float reciprocal, float offset) {
        Lane q_sum = all(0), qq = all(0), xq = all(0);
        for (int i = 0; i < n; i += 4) {
            const Lane v = load(x + i), q = nearest((v - offset) * reciprocal, 0, float(levels));
            q_sum += q;
            qq += q * q;
            xq += v * q;
        }
        const float sq = sum(q_sum), sqq = sum(qq), sxq = sum(xq);
        const float determinant = n * sqq - sq * sq;
        if (!(determinant > 0)) return;
        float scale = (n * sxq - sum_x * sq) / determinant, b = (sqq * sum_x - sq * sxq) / determinant;
        if (below && b > 0) {
            b = 0;
            scale = sxq / sqq;
        }
        // What the fit takes from sum(x^2).
        const float gain = 2 * (scale * sxq + b * sum_x - scale * b * sq) - scale * scale * sqq - n * b * b;
        if (scale > 0 && gain > best_gain) {
            best_gain = gain;
            best = {scale, b};
        }
    };
    for (int step = -10; step <= 10; ++step) consider((float(levels) + 0.1f * float(step)) / range, low);
    for (int i = 0; i < 3; ++i) consider(inverse(best.scale), best.offset);
    return best;
}

}  // namespace coterie::quant
