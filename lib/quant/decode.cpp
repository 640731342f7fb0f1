#include "quant/decode.h"

#include <cstring>

#include "base/failure.h"
#include "base/half.h"
#include "quant/blocks.h"
#include "quant/grids.h"

// The order of float operations is the reference decoders'; a contraction to fused multiply-add would break
// it.
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

namespace coterie::quant {
namespace {

void unpack(const BlockQ4_0& b, float* y) {
    const float d = half_to_float(b.d);
    for (int i = 0; i < 16; ++i) {
        y[i] = d * float((b.qs[i] & 15) - 8);
        y[i + 16] = d * float((b.qs[i] >> 4) - 8);
    }
}

void unpack(const BlockQ4_1& b, float* y) {
    const float d = half_to_float(b.d), m = half_to_float(b.m);
    for (int i = 0; i < 16; ++i) {
        y[i] = d * float(b.qs[i] & 15) + m;
        y[i + 16] = d * float(b.qs[i] >> 4) + m;
    }
}

uint32_t word(const void* bytes) {
    uint32_t value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

void unpack(const BlockQ5_0& b, float* y) {
    const float d = half_to_float(b.d);
    const uint32_t high = word(b.qh);
    for (int i = 0; i < 16; ++i) {
        y[i] = d * float(int((b.qs[i] & 15) | (((high >> i) & 1) << 4)) - 16);
        y[i + 16] = d * float(int((b.qs[i] >> 4) | (((high >> (i + 16)) & 1) << 4)) - 16);
    }
}

void unpack(const BlockQ5_1& b, float* y) {
    const float d = half_to_float(b.d), m = half_to_float(b.m);
    const uint32_t high = word(b.qh);
    for (int i = 0; i < 16; ++i) {
        y[i] = d * float((b.qs[i] & 15) | (((high >> i) & 1) << 4)) + m;
        y[i + 16] = d * float((b.qs[i] >> 4) | (((high >> (i + 16)) & 1) << 4)) + m;
    }
}

void unpack(const BlockQ8_0& b, float* y) {
    const float d = half_to_float(b.d);
    for (int i = 0; i < 32; ++i) y[i] = float(b.qs[i]) * d;
}

void unpack(const BlockMXFP4& b, float* y) {
    const float d = e8m0_half(b.e);
    for (int i = 0; i < 16; ++i) {
        y[i] = d * float(mxfp4_values[b.qs[i] & 15]);
        y[i + 16] = d * float(mxfp4_values[b.qs[i] >> 4]);
    }
}

void unpack(const BlockIQ4NL& b, float* y) {
    const float d = half_to_float(b.d);
    for (int i = 0; i < 16; ++i) {
        y[i] = d * float(iq4_values[b.qs[i] & 15]);
        y[i + 16] = d * float(iq4_values[b.qs[i] >> 4]);
    }
}

void unpack(const BlockIQ4XS& b, float* y) {
    const float d = half_to_float(b.d);
    for (int j = 0; j < 8; ++j, y += 32) {
        const int low = (b.scales_l[j / 2] >> (4 * (j % 2))) & 15, high = (b.scales_h >> (2 * j)) & 3;
        const float scale = d * float((low | (high << 4)) - 32);
        const uint8_t* qs = b.qs + 16 * j;
        for (int i = 0; i < 16; ++i) {
            y[i] = scale * float(iq4_values[qs[i] & 15]);
            y[i + 16] = scale * float(iq4_values[qs[i] >> 4]);
        }
    }
}

void unpack(const BlockQ2K& b, float* y) {
    const float d = half_to_float(b.d), dmin = half_to_float(b.dmin);
    for (int i = 0; i < 16; ++i, y += 16) {
        const float scale = d * float(b.scales[i] & 15), min = dmin * float(b.scales[i] >> 4);
        const uint8_t* qs = b.qs + 32 * (i / 8) + 16 * (i % 2);
        const int shift = 2 * (i / 2 % 4);
        for (int l = 0; l < 16; ++l) y[l] = scale * float((qs[l] >> shift) & 3) - min;
    }
}

void unpack(const BlockQ3K& b, float* y) {
    const float d = half_to_float(b.d);
    for (int i = 0; i < 16; ++i, y += 16) {
        const float scale = d * float(q3k_scale(b.scales, i));
        const uint8_t* qs = b.qs + 32 * (i / 8) + 16 * (i % 2);
        const uint8_t* mask = b.hmask + 16 * (i % 2);
        const int shift = 2 * (i / 2 % 4), bit = i / 2;
        for (int l = 0; l < 16; ++l)
            y[l] = scale * float(((qs[l] >> shift) & 3) - 4 * (((mask[l] >> bit) & 1) ^ 1));
    }
}

void unpack(const BlockQ4K& b, float* y) {
    const float d = half_to_float(b.d), dmin = half_to_float(b.dmin);
    for (int j = 0; j < 8; ++j, y += 32) {
        const ScaleMin s = k_scale(b.scales, j);
        const float scale = d * float(s.scale), min = dmin * float(s.min);
        const uint8_t* qs = b.qs + 32 * (j / 2);
        const int shift = 4 * (j % 2);
        for (int l = 0; l < 32; ++l) y[l] = scale * float((qs[l] >> shift) & 15) - min;
    }
}

void unpack(const BlockQ5K& b, float* y) {
    const float d = half_to_float(b.d), dmin = half_to_float(b.dmin);
    for (int j = 0; j < 8; ++j, y += 32) {
        const ScaleMin s = k_scale(b.scales, j);
        const float scale = d * float(s.scale), min = dmin * float(s.min);
        const uint8_t* qs = b.qs + 32 * (j / 2);
        const int shift = 4 * (j % 2);
        for (int l = 0; l < 32; ++l)
            y[l] = scale * float(((qs[l] >> shift) & 15) | (((b.qh[l] >> j) & 1) << 4)) - min;
    }
}

void unpack(const BlockQ6K& b, float* y) {
    const float d = half_to_float(b.d);
    for (int i = 0; i < 16; ++i, y += 16) {
        const float scale = d * float(b.scales[i]);
        const int half = i / 8, row = i / 2 % 4;
        const uint8_t* ql = b.ql + 64 * half + 32 * (row % 2) + 16 * (i % 2);
        const uint8_t* qh = b.qh + 32 * half + 16 * (i % 2);
        for (int l = 0; l < 16; ++l)
            y[l] =
                scale * float((((ql[l] >> (4 * (row / 2))) & 15) | (((qh[l] >> (2 * row)) & 3) << 4)) - 32);
    }
}

// Eight weights (four for IQ3): scale * magnitude, then the sign.
template <typename Entry>
void signed_entry(float scale, Entry entry, uint32_t signs, float* y) {
    for (int i = 0; i < int(sizeof(Entry)); ++i)
        y[i] = scale * float((entry >> (8 * i)) & 255) * ((signs >> i) & 1 ? -1.0f : 1.0f);
}

void unpack(const BlockIQ2XXS& b, float* y) {
    const float d = half_to_float(b.d);
    for (int j = 0; j < 8; ++j) {
        const uint32_t indices = word(b.qs + 4 * j), signs = word(b.qs + 4 * j + 2);
        const float scale = d * (0.5f + float(signs >> 28)) * 0.25f;
        for (int k = 0; k < 4; ++k, y += 8)
            signed_entry(scale, iq2xxs_grid[(indices >> (8 * k)) & 255], even_signs((signs >> (7 * k)) & 127),
                         y);
    }
}

void unpack(const BlockIQ2XS& b, float* y) {
    const float d = half_to_float(b.d);
    for (int k = 0; k < 32; ++k, y += 8) {
        const float scale = d * (0.5f + float((b.scales[k / 4] >> (4 * (k / 2 % 2))) & 15)) * 0.25f;
        signed_entry(scale, iq2xs_grid[b.qs[k] & 511], even_signs(b.qs[k] >> 9), y);
    }
}

void unpack(const BlockIQ2S& b, float* y) {
    const float d = half_to_float(b.d);
    for (int k = 0; k < 32; ++k, y += 8) {
        const float scale = d * (0.5f + float((b.scales[k / 4] >> (4 * (k / 2 % 2))) & 15)) * 0.25f;
        signed_entry(scale, iq2s_grid[b.qs[k] | (((b.qh[k / 4] >> (2 * (k % 4))) & 3) << 8)], b.signs[k], y);
    }
}

void unpack(const BlockIQ3XXS& b, float* y) {
    const float d = half_to_float(b.d);
    for (int j = 0; j < 8; ++j) {
        const uint32_t signs = word(b.scales + 4 * j);
        const float scale = d * (0.5f + float(signs >> 28)) * 0.5f;
        for (int k = 0; k < 4; ++k, y += 8) {
            const uint8_t* qs = b.qs + 8 * j + 2 * k;
            const uint32_t bits = even_signs((signs >> (7 * k)) & 127);
            signed_entry(scale, iq3xxs_grid[qs[0]], bits, y);
            signed_entry(scale, iq3xxs_grid[qs[1]], bits >> 4, y + 4);
        }
    }
}

void unpack(const BlockIQ3S& b, float* y) {
    const float d = half_to_float(b.d);
    for (int k = 0; k < 64; ++k, y += 4) {
        const float scale = d * float(1 + 2 * ((b.scales[k / 16] >> (4 * (k / 8 % 2))) & 15));
        const int index = b.qs[k] | (((b.qh[k / 8] >> (k % 8)) & 1) << 8);
        signed_entry(scale, iq3s_grid[size_t(index)], uint32_t(b.signs[k / 2] >> (4 * (k % 2))), y);
    }
}

void ternary_entry(float scale, uint64_t entry, float delta, float* y) {
    for (int i = 0; i < 8; ++i) y[i] = scale * (float(int8_t(entry >> (8 * i))) + delta);
}

void unpack(const BlockIQ1S& b, float* y) {
    const float d = half_to_float(b.d);
    for (int k = 0; k < 32; ++k, y += 8) {
        const uint32_t high = b.qh[k / 4];
        const float scale = d * float(2 * ((high >> 12) & 7) + 1);
        const uint32_t index = b.qs[k] | (((high >> (3 * (k % 4))) & 7) << 8);
        ternary_entry(scale, iq1_grid[index], high & 0x8000 ? -0.125f : 0.125f, y);
    }
}

void unpack(const BlockIQ1M& b, float* y) {
    const float d = half_to_float(iq1m_scale(b));
    for (int k = 0; k < 32; ++k, y += 8) {
        const float scale = d * float(2 * ((b.scales[k / 8] >> (3 * (k / 2 % 4))) & 7) + 1);
        const uint32_t high = uint32_t(b.qh[k / 2]) >> (4 * (k % 2));
        ternary_entry(scale, iq1_grid[b.qs[k] | ((high & 7) << 8)], high & 8 ? -0.125f : 0.125f, y);
    }
}

// A byte holds base-3 digits as a fraction of 256: multiplying by 3^i (mod 256) brings digit i to the top.
float ternary_digit(uint8_t byte, int power) {
    return float(((uint8_t(byte * power) * 3) >> 8) - 1);
}

void unpack(const BlockTQ1_0& b, float* y) {
    static constexpr int powers[5] = {1, 3, 9, 27, 81};
    const float d = half_to_float(b.d);
    for (const int power : powers)
        for (int l = 0; l < 32; ++l) *y++ = d * ternary_digit(b.qs[l], power);
    for (const int power : powers)
        for (int l = 32; l < 48; ++l) *y++ = d * ternary_digit(b.qs[l], power);
    for (int i = 0; i < 4; ++i)
        for (const uint8_t byte : b.qh) *y++ = d * ternary_digit(byte, powers[i]);
}

void unpack(const BlockTQ2_0& b, float* y) {
    const float d = half_to_float(b.d);
    for (int i = 0; i < 8; ++i)
        for (int l = 0; l < 32; ++l) *y++ = d * float(((b.qs[32 * (i / 4) + l] >> (2 * (i % 4))) & 3) - 1);
}

template <typename Block, int weights>
void decode_blocks(const std::byte* blocks, float* out, int64_t n) {
    for (; n > 0; n -= weights, blocks += sizeof(Block), out += weights) {
        Block block;
        std::memcpy(&block, blocks, sizeof block);
        unpack(block, out);
    }
}

void decode_f32(const std::byte* in, float* out, int64_t n) {
    std::memcpy(out, in, size_t(n) * sizeof(float));
}

template <float (*convert)(uint16_t)>
void decode_16(const std::byte* in, float* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        uint16_t bits;
        std::memcpy(&bits, in + 2 * i, sizeof bits);
        out[i] = convert(bits);
    }
}

using Decoder = void (*)(const std::byte*, float*, int64_t);

Decoder decoder(Type type) {
    switch (type) {
        case Type::F32:
            return decode_f32;
        case Type::F16:
            return decode_16<half_to_float>;
        case Type::BF16:
            return decode_16<bfloat_to_float>;
        case Type::Q4_0:
            return decode_blocks<BlockQ4_0, small_block>;
        case Type::Q4_1:
            return decode_blocks<BlockQ4_1, small_block>;
        case Type::Q5_0:
            return decode_blocks<BlockQ5_0, small_block>;
        case Type::Q5_1:
            return decode_blocks<BlockQ5_1, small_block>;
        case Type::Q8_0:
            return decode_blocks<BlockQ8_0, small_block>;
        case Type::MXFP4:
            return decode_blocks<BlockMXFP4, small_block>;
        case Type::IQ4_NL:
            return decode_blocks<BlockIQ4NL, small_block>;
        case Type::Q2_K:
            return decode_blocks<BlockQ2K, super_block>;
        case Type::Q3_K:
            return decode_blocks<BlockQ3K, super_block>;
        case Type::Q4_K:
            return decode_blocks<BlockQ4K, super_block>;
        case Type::Q5_K:
            return decode_blocks<BlockQ5K, super_block>;
        case Type::Q6_K:
            return decode_blocks<BlockQ6K, super_block>;
        case Type::IQ2_XXS:
            return decode_blocks<BlockIQ2XXS, super_block>;
        case Type::IQ2_XS:
            return decode_blocks<BlockIQ2XS, super_block>;
        case Type::IQ2_S:
            return decode_blocks<BlockIQ2S, super_block>;
        case Type::IQ3_XXS:
            return decode_blocks<BlockIQ3XXS, super_block>;
        case Type::IQ3_S:
            return decode_blocks<BlockIQ3S, super_block>;
        case Type::IQ1_S:
            return decode_blocks<BlockIQ1S, super_block>;
        case Type::IQ1_M:
            return decode_blocks<BlockIQ1M, super_block>;
        case Type::IQ4_XS:
            return decode_blocks<BlockIQ4XS, super_block>;
        case Type::TQ1_0:
            return decode_blocks<BlockTQ1_0, super_block>;
        case Type::TQ2_0:
            return decode_blocks<BlockTQ2_0, super_block>;
        default:
            return nullptr;
    }
}

}  // namespace

bool can_decode(Type type) {
    return decoder(type) != nullptr;
}

void decode(Type type, const std::byte* blocks, float* out, int64_t n) {
    const Decoder run = decoder(type);
    if (!run) fail(Status::unsupported, "weights of type {} can't be decoded to floats", type_name(type));
    if (n < 0 || n % traits(type).block_elements != 0)
        fail(Status::invalid_argument, "decoding {}: {} weights are not a multiple of its block of {}",
             type_name(type), n, traits(type).block_elements);
    run(blocks, out, n);
}

}  // namespace coterie::quant
