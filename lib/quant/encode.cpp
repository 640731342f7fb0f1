#include "quant/encode.h"

#include <cstring>

#include "base/failure.h"
#include "base/half.h"
#include "quant/encoders.h"

namespace coterie::quant {
namespace {

template <typename Block, int weights>
void encode_blocks(const float* in, std::byte* out, int64_t n) {
    for (; n > 0; n -= weights, in += weights, out += sizeof(Block)) {
        Block block;
        pack(in, block);
        std::memcpy(out, &block, sizeof block);
    }
}

void encode_f32(const float* in, std::byte* out, int64_t n) {
    std::memcpy(out, in, size_t(n) * sizeof(float));
}

template <uint16_t (*convert)(float)>
void encode_16(const float* in, std::byte* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        const uint16_t bits = convert(in[i]);
        std::memcpy(out + 2 * i, &bits, sizeof bits);
    }
}

using Encoder = void (*)(const float*, std::byte*, int64_t);

Encoder encoder(Type type) {
    switch (type) {
        case Type::F32:
            return encode_f32;
        case Type::F16:
            return encode_16<float_to_half>;
        case Type::BF16:
            return encode_16<float_to_bfloat>;
        case Type::Q4_0:
            return encode_blocks<BlockQ4_0, small_block>;
        case Type::Q4_1:
            return encode_blocks<BlockQ4_1, small_block>;
        case Type::Q5_0:
            return encode_blocks<BlockQ5_0, small_block>;
        case Type::Q5_1:
            return encode_blocks<BlockQ5_1, small_block>;
        case Type::Q8_0:
            return encode_blocks<BlockQ8_0, small_block>;
        case Type::IQ4_NL:
            return encode_blocks<BlockIQ4NL, small_block>;
        case Type::MXFP4:
            return encode_blocks<BlockMXFP4, small_block>;
        case Type::Q2_K:
            return encode_blocks<BlockQ2K, super_block>;
        case Type::Q3_K:
            return encode_blocks<BlockQ3K, super_block>;
        case Type::Q4_K:
            return encode_blocks<BlockQ4K, super_block>;
        case Type::Q5_K:
            return encode_blocks<BlockQ5K, super_block>;
        case Type::Q6_K:
            return encode_blocks<BlockQ6K, super_block>;
        default:
            return nullptr;
    }
}

}  // namespace

bool can_encode(Type type) {
    return encoder(type) != nullptr;
}

void encode(Type type, const float* in, std::byte* out, int64_t n) {
    const Encoder run = encoder(type);
    if (!run)
        fail(Status::unsupported, "Coterie doesn't write weights of type {}; it reads them where it can",
             type_name(type));
    if (n < 0 || n % traits(type).block_elements != 0)
        fail(Status::invalid_argument, "encoding {}: {} weights are not a multiple of its block of {}",
             type_name(type), n, traits(type).block_elements);
    run(in, out, n);
}

}  // namespace coterie::quant
