#include "quant/scan.h"

#include <cstddef>
#include <cstring>

#include "quant/blocks.h"

namespace coterie::quant {
namespace {

// Values are looked at in runs, so that the loop over a run has no branch.
constexpr int64_t run = 1024;

template <typename Value, Value exponent>
bool bad_value(const std::byte* p) {
    Value bits;
    std::memcpy(&bits, p, sizeof bits);
    return (bits & exponent) == exponent;
}

bool bad_half(const std::byte* p) {
    return bad_value<uint16_t, 0x7c00>(p);
}

template <size_t stride, typename Test>
int64_t first(const std::byte* p, int64_t n, Test bad) {
    for (int64_t begin = 0; begin < n; begin += run) {
        const int64_t end = begin + run < n ? begin + run : n;
        unsigned any = 0;
        for (int64_t i = begin; i < end; ++i) any |= unsigned(bad(p + size_t(i) * stride));
        for (int64_t i = begin; any && i < end; ++i)
            if (bad(p + size_t(i) * stride)) return i;
    }
    return -1;
}

template <typename Block, size_t... scales>
int64_t first_with_halves(const std::byte* p, int64_t n) {
    return first<sizeof(Block)>(
        p, n, [](const std::byte* block) { return (unsigned(bad_half(block + scales)) | ...) != 0; });
}

}  // namespace

#define ONE_SCALE(Block) first_with_halves<Block, offsetof(Block, d)>(blocks, n_blocks)
#define TWO_SCALES(Block, second) \
    first_with_halves<Block, offsetof(Block, d), offsetof(Block, second)>(blocks, n_blocks)

int64_t first_bad_block(Type type, const std::byte* blocks, int64_t n_blocks) {
    switch (type) {
        case Type::F32:
            return first<4>(blocks, n_blocks, bad_value<uint32_t, 0x7f800000>);
        case Type::F64:
            return first<8>(blocks, n_blocks, bad_value<uint64_t, 0x7ff0000000000000>);
        case Type::F16:
            return first<2>(blocks, n_blocks, bad_half);
        case Type::BF16:
            return first<2>(blocks, n_blocks, bad_value<uint16_t, 0x7f80>);
        case Type::Q4_0:
            return ONE_SCALE(BlockQ4_0);
        case Type::Q4_1:
            return TWO_SCALES(BlockQ4_1, m);
        case Type::Q5_0:
            return ONE_SCALE(BlockQ5_0);
        case Type::Q5_1:
            return TWO_SCALES(BlockQ5_1, m);
        case Type::Q8_0:
            return ONE_SCALE(BlockQ8_0);
        case Type::Q8_1:
            return TWO_SCALES(BlockQ8_1, s);
        case Type::Q2_K:
            return TWO_SCALES(BlockQ2K, dmin);
        case Type::Q3_K:
            return ONE_SCALE(BlockQ3K);
        case Type::Q4_K:
            return TWO_SCALES(BlockQ4K, dmin);
        case Type::Q5_K:
            return TWO_SCALES(BlockQ5K, dmin);
        case Type::Q6_K:
            return ONE_SCALE(BlockQ6K);
        case Type::Q8_K:
            return first<sizeof(BlockQ8K)>(blocks, n_blocks, bad_value<uint32_t, 0x7f800000>);
        case Type::IQ2_XXS:
            return ONE_SCALE(BlockIQ2XXS);
        case Type::IQ2_XS:
            return ONE_SCALE(BlockIQ2XS);
        case Type::IQ2_S:
            return ONE_SCALE(BlockIQ2S);
        case Type::IQ3_XXS:
            return ONE_SCALE(BlockIQ3XXS);
        case Type::IQ3_S:
            return ONE_SCALE(BlockIQ3S);
        case Type::IQ1_S:
            return ONE_SCALE(BlockIQ1S);
        case Type::IQ4_NL:
            return ONE_SCALE(BlockIQ4NL);
        case Type::IQ4_XS:
            return ONE_SCALE(BlockIQ4XS);
        case Type::TQ1_0:
            return ONE_SCALE(BlockTQ1_0);
        case Type::TQ2_0:
            return ONE_SCALE(BlockTQ2_0);
        case Type::IQ1_M:
            return first<sizeof(BlockIQ1M)>(blocks, n_blocks, [](const std::byte* p) {
                BlockIQ1M block;
                std::memcpy(&block, p, sizeof block);
                return (iq1m_scale(block) & 0x7c00) == 0x7c00;
            });
        case Type::MXFP4:
            return first<sizeof(BlockMXFP4)>(blocks, n_blocks,
                                             [](const std::byte* p) { return *p == std::byte{255}; });
        case Type::I8:
        case Type::I16:
        case Type::I32:
        case Type::I64:
            return -1;
    }
    return -1;
}

#undef ONE_SCALE
#undef TWO_SCALES

}  // namespace coterie::quant
