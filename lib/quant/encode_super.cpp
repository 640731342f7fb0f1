// Encoders of the 256-weight K formats. Sub-blocks are fitted apart, the scales then rounded to integers
// against one F16 scale a super-block (and one for the minimums), and each sub-block's integers chosen again
// with what is left.
#include "quant/blocks.h"
#include "quant/encoders.h"
#include "quant/scale_search.h"

namespace coterie::quant {
namespace {

// A super-block of 256 / n sub-blocks: weight = d * scale[j] * q - dmin * min[j], q in [0, levels].
template <int n>
struct AffineBlock {
    static constexpr int parts = super_block / n;
    uint16_t d = 0, dmin = 0;
    uint8_t scale[parts] = {}, min[parts] = {};
    uint8_t codes[super_block] = {};
};

// Chooses the integers of sub-block j for fixed d and dmin; `limit` is the largest of them.
template <int n>
float choose_affine(const float* x, Affine fit, float d, float dmin, int levels, int limit, uint8_t& scale,
                    uint8_t& min) {
    const float reach = float(limit);
    const auto rounded = [&](float ratio) {
        return int(ratio > 0 ? (ratio < reach ? ratio + 0.5f : reach) : 0);
    };
    const int scale0 = rounded(fit.scale * inverse(d)), min0 = rounded(-fit.offset * inverse(dmin));
    float least = INFINITY;
    for (int m = min0 - 1; m <= min0 + 1; ++m)
        for (int s = scale0 - 1; s <= scale0 + 1; ++s) {
            if (m < 0 || m > limit || s < 0 || s > limit) continue;
            const float error = error_of<n>(x, d * float(s), -dmin * float(m), 0, float(levels));
            if (error < least) {
                least = error;
                scale = uint8_t(s);
                min = uint8_t(m);
            }
        }
    return least;
}

template <int n>
void fit_affine(const float* x, int levels, int limit, AffineBlock<n>& b) {
    constexpr int parts = AffineBlock<n>::parts;
    Affine fit[parts];
    float most_scale = 0, most_min = 0;
    for (int j = 0; j < parts; ++j) {
        fit[j] = affine_scale<n>(x + j * n, levels, true);
        most_scale = fit[j].scale > most_scale ? fit[j].scale : most_scale;
        most_min = -fit[j].offset > most_min ? -fit[j].offset : most_min;
    }
    b.d = finite_half(most_scale / float(limit));
    b.dmin = finite_half(most_min / float(limit));
    const float d = half_to_float(b.d), dmin = half_to_float(b.dmin);
    for (int j = 0; j < parts; ++j) {
        choose_affine<n>(x + j * n, fit[j], d, dmin, levels, limit, b.scale[j], b.min[j]);
        codes_of<n>(x + j * n, d * float(b.scale[j]), -dmin * float(b.min[j]), 0, float(levels),
                    b.codes + j * n);
    }
}

// The 16 signed scales of Q3_K and Q6_K: weight = d * scale[j] * q, q in [-levels, levels - 1].
struct SymmetricBlock {
    uint16_t d = 0;
    int scale[16] = {};
    uint8_t codes[super_block] = {};  // q + levels
};

void fit_symmetric(const float* x, int levels, int limit, SymmetricBlock& b) {
    constexpr int n = 16;
    const float low = float(-levels), high = float(levels - 1);
    float fit[16], most = 0;
    for (int j = 0; j < 16; ++j) {
        fit[j] = symmetric_scale<n>(x + j * n, levels);
        if (std::abs(fit[j]) > std::abs(most)) most = fit[j];
    }
    b.d = finite_half(most / float(-limit));
    const float d = half_to_float(b.d), reciprocal = inverse(d);
    for (int j = 0; j < 16; ++j) {
        const float ratio = fit[j] * reciprocal;
        const int scale0 = int(std::lround(
            ratio > float(-limit) ? (ratio < float(limit) ? ratio : float(limit)) : -float(limit)));
        float least = INFINITY;
        for (int s = scale0 - 1; s <= scale0 + 1; ++s) {
            if (s < -limit || s >= limit) continue;
            const float error = error_of<n>(x + j * n, d * float(s), 0, low, high);
            if (error < least) {
                least = error;
                b.scale[j] = s;
            }
        }
        codes_of<n>(x + j * n, d * float(b.scale[j]), 0, low, high, b.codes + j * n);
    }
}

void pack_k_scales(const uint8_t* scale, const uint8_t* min, uint8_t* packed) {
    for (int j = 0; j < 4; ++j) {
        packed[j] = uint8_t(scale[j] | ((scale[j + 4] >> 4) << 6));
        packed[j + 4] = uint8_t(min[j] | ((min[j + 4] >> 4) << 6));
        packed[j + 8] = uint8_t((scale[j + 4] & 15) | ((min[j + 4] & 15) << 4));
    }
}

}  // namespace

void pack(const float* x, BlockQ2K& b) {
    AffineBlock<16> a;
    fit_affine<16>(x, 3, 15, a);
    b = {};
    b.d = a.d;
    b.dmin = a.dmin;
    for (int j = 0; j < 16; ++j) b.scales[j] = uint8_t(a.scale[j] | (a.min[j] << 4));
    for (int i = 0; i < super_block; ++i)
        b.qs[32 * (i / 128) + i % 32] |= uint8_t(a.codes[i] << (2 * (i / 32 % 4)));
}

void pack(const float* x, BlockQ3K& b) {
    SymmetricBlock s;
    fit_symmetric(x, 4, 32, s);
    b = {};
    b.d = s.d;
    for (int i = 0; i < 16; ++i) {
        const int code = s.scale[i] + 32;
        b.scales[i % 8] |= uint8_t((code & 15) << (i < 8 ? 0 : 4));
        b.scales[8 + i % 4] |= uint8_t((code >> 4) << (2 * (i / 4)));
    }
    for (int i = 0; i < super_block; ++i) {
        b.qs[32 * (i / 128) + i % 32] |= uint8_t((s.codes[i] & 3) << (2 * (i / 32 % 4)));
        b.hmask[i % 32] |= uint8_t((s.codes[i] >> 2) << (i / 32));
    }
}

void pack(const float* x, BlockQ4K& b) {
    AffineBlock<32> a;
    fit_affine<32>(x, 15, 63, a);
    b.d = a.d;
    b.dmin = a.dmin;
    pack_k_scales(a.scale, a.min, b.scales);
    for (int c = 0; c < 4; ++c)
        for (int l = 0; l < 32; ++l)
            b.qs[32 * c + l] = uint8_t(a.codes[64 * c + l] | (a.codes[64 * c + 32 + l] << 4));
}

void pack(const float* x, BlockQ5K& b) {
    AffineBlock<32> a;
    fit_affine<32>(x, 31, 63, a);
    b = {};
    b.d = a.d;
    b.dmin = a.dmin;
    pack_k_scales(a.scale, a.min, b.scales);
    for (int c = 0; c < 4; ++c)
        for (int l = 0; l < 32; ++l)
            b.qs[32 * c + l] = uint8_t((a.codes[64 * c + l] & 15) | (a.codes[64 * c + 32 + l] << 4));
    for (int i = 0; i < super_block; ++i) b.qh[i % 32] |= uint8_t((a.codes[i] >> 4) << (i / 32));
}

void pack(const float* x, BlockQ6K& b) {
    SymmetricBlock s;
    fit_symmetric(x, 32, 128, s);
    b = {};
    b.d = s.d;
    for (int i = 0; i < 16; ++i) b.scales[i] = int8_t(s.scale[i]);
    for (int i = 0; i < super_block; ++i) {
        const int half = i / 128, row = i / 32 % 4, l = i % 32;
        b.ql[64 * half + 32 * (row % 2) + l] |= uint8_t((s.codes[i] & 15) << (4 * (row / 2)));
        b.qh[32 * half + l] |= uint8_t((s.codes[i] >> 4) << (2 * row));
    }
}

}  // namespace coterie::quant
