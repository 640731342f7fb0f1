// Scales set to NaN or infinity in blocks of otherwise random bits must be found at their index, and nothing
// else.
#include "quant/scan.h"

#include <random>
#include <utility>
#include <vector>

#include "catch.h"

using namespace coterie;

namespace {

// Where the F16 scales of a block lie, from the format's definition.
const std::vector<std::pair<Type, std::vector<size_t>>> halves = {
    {Type::F16, {0}},     {Type::Q4_0, {0}},    {Type::Q4_1, {0, 2}}, {Type::Q5_0, {0}},
    {Type::Q5_1, {0, 2}}, {Type::Q8_0, {0}},    {Type::Q8_1, {0, 2}}, {Type::Q2_K, {80, 82}},
    {Type::Q3_K, {108}},  {Type::Q4_K, {0, 2}}, {Type::Q5_K, {0, 2}}, {Type::Q6_K, {208}},
    {Type::IQ2_XXS, {0}}, {Type::IQ2_XS, {0}},  {Type::IQ2_S, {0}},   {Type::IQ3_XXS, {0}},
    {Type::IQ3_S, {0}},   {Type::IQ1_S, {0}},   {Type::IQ4_NL, {0}},  {Type::IQ4_XS, {0}},
    {Type::TQ1_0, {52}},  {Type::TQ2_0, {64}},
};

// Random bits with every scale finite.
std::vector<std::byte> blocks_of(Type type, const std::vector<size_t>& scales, int64_t n) {
    std::mt19937 random(3);
    const size_t size = size_t(traits(type).block_bytes);
    std::vector<std::byte> bytes(size_t(n) * size);
    for (std::byte& b : bytes) b = std::byte(random());
    for (size_t i = 0; i < size_t(n); ++i)
        for (const size_t at : scales) bytes[i * size + at + 1] &= std::byte{0xbf};
    return bytes;
}

}  // namespace

TEST_CASE("a scale that isn't finite is found wherever it lies") {
    const int64_t n = 3001;
    for (const auto& [type, scales] : halves) {
        INFO(type_name(type));
        const std::vector<std::byte> good = blocks_of(type, scales, n);
        REQUIRE(quant::first_bad_block(type, good.data(), n) == -1);
        const size_t size = size_t(traits(type).block_bytes);
        for (const size_t at : scales)
            for (const int64_t block : {int64_t(0), int64_t(1023), int64_t(1024), n - 1})
                for (const uint16_t bits : {0x7c00, 0xfc00, 0x7e01}) {
                    std::vector<std::byte> bad = good;
                    bad[size_t(block) * size + at] = std::byte(bits & 255);
                    bad[size_t(block) * size + at + 1] = std::byte(bits >> 8);
                    CHECK(quant::first_bad_block(type, bad.data(), n) == block);
                    CHECK(quant::first_bad_block(type, bad.data(), block) == -1);
                }
    }
}

TEST_CASE("floats, E8M0 exponents and split scales are scanned too") {
    std::vector<uint32_t> floats(2000, 0x3f800000);
    const auto* bytes = reinterpret_cast<const std::byte*>(floats.data());
    CHECK(quant::first_bad_block(Type::F32, bytes, 2000) == -1);
    floats[1500] = 0xff800000;
    CHECK(quant::first_bad_block(Type::F32, bytes, 2000) == 1500);
    CHECK(quant::first_bad_block(Type::I32, bytes, 2000) == -1);
    floats[1500] = 0x3f80ff80;  // as BF16: low half infinite
    CHECK(quant::first_bad_block(Type::BF16, bytes, 4000) == 3000);
    CHECK(quant::first_bad_block(Type::F64, bytes, 1000) == -1);
    floats[1501] = 0x7ff80000;
    CHECK(quant::first_bad_block(Type::F64, bytes, 1000) == 750);

    std::vector<std::byte> mxfp4(17 * 100, std::byte{254});
    CHECK(quant::first_bad_block(Type::MXFP4, mxfp4.data(), 100) == -1);
    mxfp4[17 * 42] = std::byte{255};
    CHECK(quant::first_bad_block(Type::MXFP4, mxfp4.data(), 100) == 42);

    std::vector<std::byte> iq1m(56 * 10, std::byte{0x0f});
    CHECK(quant::first_bad_block(Type::IQ1_M, iq1m.data(), 10) == -1);
    // The scale's nibbles are the tops of bytes 49, 51, 53, 55: 0x7c00 = 0, 0, c, 7 from the lowest.
    iq1m[56 * 7 + 53] = std::byte{0xc0};
    iq1m[56 * 7 + 55] = std::byte{0x70};
    CHECK(quant::first_bad_block(Type::IQ1_M, iq1m.data(), 10) == 7);

    std::vector<std::byte> q8k(292 * 4, std::byte{0x7f});
    for (size_t i = 0; i < 4; ++i) q8k[292 * i + 3] = std::byte{0x3f};
    CHECK(quant::first_bad_block(Type::Q8_K, q8k.data(), 4) == -1);
    q8k[292 * 2 + 2] = std::byte{0x80};
    q8k[292 * 2 + 3] = std::byte{0x7f};
    CHECK(quant::first_bad_block(Type::Q8_K, q8k.data(), 4) == 2);
}
