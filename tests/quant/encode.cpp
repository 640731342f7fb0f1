// Encoding against the reference quantiser's round-trip error (make_bounds.py), and what a block must never
// hold.
#include "quant/encode.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/half.h"
#include "catch.h"
#include "quant/decode.h"
#include "quant/scan.h"

using namespace coterie;

namespace {

const Type quantised[] = {Type::Q4_0, Type::Q4_1, Type::Q5_0, Type::Q5_1, Type::Q8_0,   Type::Q2_K,
                          Type::Q3_K, Type::Q4_K, Type::Q5_K, Type::Q6_K, Type::IQ4_NL, Type::MXFP4};

std::string read(const char* name) {
    std::ifstream file(std::string(TEST_DATA) + "/quant/" + name, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

std::vector<std::byte> encoded(Type type, const std::vector<float>& in) {
    std::vector<std::byte> blocks(row_bytes(type, in.size()));
    quant::encode(type, in.data(), blocks.data(), int64_t(in.size()));
    return blocks;
}

std::vector<float> round_trip(Type type, const std::vector<float>& in) {
    const std::vector<std::byte> blocks = encoded(type, in);
    std::vector<float> out(in.size(), NAN);
    quant::decode(type, blocks.data(), out.data(), int64_t(out.size()));
    return out;
}

}  // namespace

TEST_CASE("encoding loses no more than the reference quantiser") {
    const auto bounds = nlohmann::json::parse(read("encode.json"));
    const std::string bytes = read("encode.f32");
    const size_t length = bounds["length"], n_sets = bounds["sets"].size();
    REQUIRE(bytes.size() == n_sets * length * sizeof(float));
    for (const Type type : quantised) {
        REQUIRE(quant::can_encode(type));
        for (size_t s = 0; s < n_sets; ++s) {
            std::vector<float> in(length);
            std::memcpy(in.data(), bytes.data() + s * length * sizeof(float), length * sizeof(float));
            const std::vector<float> out = round_trip(type, in);
            double error = 0;
            for (size_t i = 0; i < length; ++i) error += (double(in[i]) - out[i]) * (double(in[i]) - out[i]);
            error /= double(length);
            const double reference = bounds["errors"][type_name(type)][s];
            INFO(type_name(type) << ", " << std::string(bounds["sets"][s]));
            CHECK(error <= 1.02 * reference);
            // An error far below what the bits allow would mean that the comparison is broken.
            CHECK(error >= 0.05 * reference);
        }
    }
}

TEST_CASE("zeros stay zeros, and what is too small for a scale becomes zero") {
    for (const Type type : quantised) {
        INFO(type_name(type));
        for (const float value : {0.0f, 1e-42f, -1e-30f})
            for (const float out : round_trip(type, std::vector<float>(256, value)))
                REQUIRE(std::abs(out) <= std::abs(value) * 1.5f);
    }
}

TEST_CASE("16-bit floats are rounded to nearest even, F32 kept") {
    const std::vector<float> in{1.0f + 0x1p-11f, -65519.0f, 1e-8f, 0.1f, -0.0f};
    const std::vector<float> halves = round_trip(Type::F16, in), bfloats = round_trip(Type::BF16, in);
    for (size_t i = 0; i < in.size(); ++i) {
        CHECK(halves[i] == half_to_float(float_to_half(in[i])));
        CHECK(bfloats[i] == bfloat_to_float(float_to_bfloat(in[i])));
    }
    CHECK(round_trip(Type::F32, in) == in);
}

TEST_CASE("scales stay finite whatever comes in") {
    const float infinity = std::numeric_limits<float>::infinity();
    for (const Type type : quantised)
        for (const float nasty : {NAN, infinity, -infinity, 3e38f, -3e38f, 1e20f, 7e6f})
            for (const size_t at : {size_t(0), size_t(3), size_t(255)}) {
                std::vector<float> in(256, 0.01f);
                in[at] = nasty;
                in[17] = -0.02f;
                INFO(type_name(type) << " with " << nasty << " at " << at);
                const std::vector<std::byte> blocks = encoded(type, in);
                CHECK(quant::first_bad_block(type, blocks.data(), 256 / traits(type).block_elements) == -1);
            }
}

TEST_CASE("a large but writable value survives beside small ones") {
    for (const Type type : quantised) {
        std::vector<float> in(256, 0.01f);
        in[40] = -100.0f;
        INFO(type_name(type));
        CHECK(std::abs(round_trip(type, in)[40] + 100.0f) < 35.0f);  // E2M1 rounds 100 to 96 or 128
    }
}

TEST_CASE("types without an encoder are refused") {
    std::byte out[512];
    const float in[256] = {};
    for (const Type type : {Type::IQ1_S, Type::IQ2_XXS, Type::IQ4_XS, Type::Q8_K, Type::I32, Type::TQ1_0}) {
        CHECK_FALSE(quant::can_encode(type));
        CHECK_THROWS_AS(quant::encode(type, in, out, 256), Failure);
    }
    CHECK_THROWS_AS(quant::encode(Type::Q6_K, in, out, 128), Failure);
}
