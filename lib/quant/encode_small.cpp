// Encoders of the 32-weight formats. Each keeps the better of the searched scale and the plain one from the
// extremes.
#include <initializer_list>

#include "quant/blocks.h"
#include "quant/encoders.h"
#include "quant/scale_search.h"

namespace coterie::quant {
namespace {

constexpr int n = small_block;

float better_symmetric(const float* x, int levels) {
    const float low = float(-levels), high = float(levels - 1);
    const float searched = half_to_float(finite_half(symmetric_scale<n>(x, levels)));
    const float plain = half_to_float(finite_half(peak_of<n>(x) / low));
    return error_of<n>(x, plain, 0, low, high) <= error_of<n>(x, searched, 0, low, high) ? plain : searched;
}

Affine rounded(Affine fit) {
    return {half_to_float(finite_half(fit.scale)), half_to_float(finite_half(fit.offset))};
}

Affine better_affine(const float* x, int levels) {
    float low = x[0], high = x[0];
    for (int i = 1; i < n; ++i) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    const Affine searched = rounded(affine_scale<n>(x, levels, false));
    const Affine plain = rounded({(high - low) / float(levels), low});
    const auto error = [&](const Affine& a) { return error_of<n>(x, a.scale, a.offset, 0, float(levels)); };
    return error(plain) <= error(searched) ? plain : searched;
}

void pack_nibbles(const uint8_t* codes, uint8_t* qs) {
    for (int i = 0; i < 16; ++i) qs[i] = uint8_t((codes[i] & 15) | (codes[i + 16] << 4));
}

void pack_fifth_bits(const uint8_t* codes, uint8_t* qh) {
    uint32_t bits = 0;
    for (int i = 0; i < n; ++i) bits |= uint32_t(codes[i] >> 4) << i;
    std::memcpy(qh, &bits, sizeof bits);
}

}  // namespace

void pack(const float* x, BlockQ4_0& b) {
    const float d = better_symmetric(x, 8);
    uint8_t codes[n];
    codes_of<n>(x, d, 0, -8, 7, codes);
    b.d = float_to_half(d);
    pack_nibbles(codes, b.qs);
}

void pack(const float* x, BlockQ5_0& b) {
    const float d = better_symmetric(x, 16);
    uint8_t codes[n];
    codes_of<n>(x, d, 0, -16, 15, codes);
    b.d = float_to_half(d);
    pack_nibbles(codes, b.qs);
    pack_fifth_bits(codes, b.qh);
}

void pack(const float* x, BlockQ4_1& b) {
    const Affine a = better_affine(x, 15);
    uint8_t codes[n];
    codes_of<n>(x, a.scale, a.offset, 0, 15, codes);
    b.d = float_to_half(a.scale);
    b.m = float_to_half(a.offset);
    pack_nibbles(codes, b.qs);
}

void pack(const float* x, BlockQ5_1& b) {
    const Affine a = better_affine(x, 31);
    uint8_t codes[n];
    codes_of<n>(x, a.scale, a.offset, 0, 31, codes);
    b.d = float_to_half(a.scale);
    b.m = float_to_half(a.offset);
    pack_nibbles(codes, b.qs);
    pack_fifth_bits(codes, b.qh);
}

void pack(const float* x, BlockQ8_0& b) {
    b.d = finite_half(std::abs(peak_of<n>(x)) / 127);
    uint8_t codes[n];
    codes_of<n>(x, half_to_float(b.d), 0, -127, 127, codes);
    for (int i = 0; i < n; ++i) b.qs[i] = int8_t(codes[i] - 127);
}

namespace {

// The nearest of sixteen rising levels, by halving.
int nearest_level(const int8_t* levels, float value) {
    int low = 0, high = 15;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        (value < float(levels[middle]) ? high : low) = middle;
    }
    return value - float(levels[low]) <= float(levels[high]) - value ? low : high;
}

// The nearest IQ4_NL level to each integer in [-128, 127]: exact but at midpoints, good enough to search
// with.
struct NearestIQ4 {
    int8_t code[256];
    NearestIQ4() {
        for (int v = -128; v < 128; ++v) code[v + 128] = int8_t(nearest_level(iq4_values, float(v)));
    }
};

}  // namespace

void pack(const float* x, BlockIQ4NL& b) {
    static const NearestIQ4 table;
    b = {};
    const float peak = peak_of<n>(x);
    if (!(std::abs(peak) > tiny)) {
        for (uint8_t& q : b.qs) q = 0x88;
        return;
    }
    float best = -1, best_scale = 0;
    const auto consider = [&](float reciprocal) {
        float xq = 0, qq = 0;
        for (int i = 0; i < n; i += 4) {
            const Lane v = nearest(load(x + i) * reciprocal, -128, 127);
            for (int k = 0; k < 4; ++k) {
                const float q = iq4_values[table.code[int(v[k]) + 128]];
                xq += x[i + k] * q;
                qq += q * q;
            }
        }
        if (qq > 0 && xq * xq > best * qq) {
            best = xq * xq / qq;
            best_scale = xq / qq;
        }
    };
    // The peak goes to either end of the levels, or a little beyond.
    for (int step = -9; step <= 9; ++step) consider((-127.0f + 2.0f * float(step)) / peak);
    for (int step = -4; step <= 9; ++step) consider((113.0f + 2.0f * float(step)) / peak);
    for (int i = 0; i < 2; ++i) consider(inverse(best_scale));
    float scale = 0, least = INFINITY;
    uint8_t codes[n] = {};
    for (const float candidate : {best_scale, peak / -127, peak / 113}) {
        const float d = half_to_float(finite_half(candidate)), reciprocal = inverse(d);
        uint8_t tried[n];
        float error = 0;
        for (int i = 0; i < n; ++i) {
            tried[i] = uint8_t(nearest_level(iq4_values, x[i] * reciprocal));
            const float residual = x[i] - d * float(iq4_values[tried[i]]);
            error += residual * residual;
        }
        if (error < least) {
            least = error;
            scale = d;
            std::memcpy(codes, tried, sizeof codes);
        }
    }
    b.d = float_to_half(scale);
    pack_nibbles(codes, b.qs);
}

void pack(const float* x, BlockMXFP4& b) {
    b = {};
    const float peak = std::abs(peak_of<n>(x));
    if (!(peak > 0)) return;
    int exponent;
    std::frexp(peak < 1e38f ? peak : 1e38f, &exponent);  // peak in [2^(exponent-1), 2^exponent)
    float least = INFINITY;
    // The peak over the scale lies in [4, 8) of values up to 6, in [2, 4) one exponent up.
    for (int e = exponent - 3 + 127; e <= exponent - 2 + 127; ++e) {
        if (e < 1 || e > 254) continue;  // below, the reciprocal overflows
        const float d = e8m0_half(uint8_t(e)), reciprocal = 1 / d;
        uint8_t tried[n];
        float error = 0;
        for (int i = 0; i < n; ++i) {
            const float v = std::abs(x[i]) * reciprocal;
            // Thresholds are the midpoints of 0 1 2 3 4 6 8 12.
            const int code = (v > 0.5f) + (v > 1.5f) + (v > 2.5f) + (v > 3.5f) + (v > 5) + (v > 7) + (v > 10);
            const float residual = std::abs(x[i]) - d * float(mxfp4_values[code]);
            error += residual * residual;
            tried[i] = uint8_t(code | (x[i] < 0 && code ? 8 : 0));
        }
        if (error < least) {
            least = error;
            b.e = uint8_t(e);
            pack_nibbles(tried, b.qs);
        }
    }
}

}  // namespace coterie::quant
