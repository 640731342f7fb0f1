// Decoding against the `gguf` package, bit for bit, on blocks of random bits with nasty scales.
#include "quant/decode.h"

#include <algorithm>
#include <bit>

#include "base/failure.h"
#include "catch.h"
#include "vectors.h"

using namespace coterie;

namespace {

const Type decodable[] = {Type::F32,     Type::F16,    Type::BF16,  Type::Q4_0,    Type::Q4_1,
                          Type::Q5_0,    Type::Q5_1,   Type::Q8_0,  Type::Q2_K,    Type::Q3_K,
                          Type::Q4_K,    Type::Q5_K,   Type::Q6_K,  Type::IQ1_S,   Type::IQ1_M,
                          Type::IQ2_XXS, Type::IQ2_XS, Type::IQ2_S, Type::IQ3_XXS, Type::IQ3_S,
                          Type::IQ4_NL,  Type::IQ4_XS, Type::MXFP4, Type::TQ1_0,   Type::TQ2_0};

}  // namespace

TEST_CASE("every weight format decodes to the reference's bits") {
    for (const Type type : decodable) {
        std::string name = type_name(type);
        std::transform(name.begin(), name.end(), name.begin(),
                       [](unsigned char c) { return char(std::tolower(c)); });
        const Vectors v = read_vectors(name);
        INFO(name);
        REQUIRE(!v.floats.empty());
        REQUIRE(row_bytes(type, v.floats.size()) == v.blocks.size());
        REQUIRE(quant::can_decode(type));
        std::vector<float> out(v.floats.size(), -1.0f);
        quant::decode(type, v.blocks.data(), out.data(), int64_t(out.size()));
        size_t different = out.size();
        for (size_t i = out.size(); i-- > 0;)
            if (std::bit_cast<uint32_t>(out[i]) != std::bit_cast<uint32_t>(v.floats[i])) different = i;
        INFO("first different weight: " << different);
        CHECK(different == out.size());
    }
}

TEST_CASE("blocks may lie at odd addresses") {
    for (const char* name : {"q4_k", "iq2_xs", "mxfp4", "f16"}) {
        const Vectors v = read_vectors(name);
        REQUIRE(!v.floats.empty());
        std::vector<std::byte> shifted(v.blocks.size() + 1);
        std::copy(v.blocks.begin(), v.blocks.end(), shifted.begin() + 1);
        std::vector<float> out(v.floats.size());
        quant::decode(*type_named(name), shifted.data() + 1, out.data(), int64_t(out.size()));
        CHECK(std::memcmp(out.data(), v.floats.data(), out.size() * sizeof(float)) == 0);
    }
}

TEST_CASE("what can't be decoded is refused with a reason") {
    float out[256];
    std::byte in[512] = {};
    for (const Type type : {Type::Q8_1, Type::Q8_K, Type::F64, Type::I8, Type::I16, Type::I32, Type::I64}) {
        CHECK_FALSE(quant::can_decode(type));
        try {
            quant::decode(type, in, out, 0);
            FAIL("decoded " << type_name(type));
        } catch (const Failure& failure) {
            CHECK(failure.status() == Status::unsupported);
        }
    }
    try {
        quant::decode(Type::Q4_K, in, out, 255);
        FAIL("decoded part of a block");
    } catch (const Failure& failure) {
        CHECK(failure.status() == Status::invalid_argument);
    }
}
