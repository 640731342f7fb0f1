#include "base/half.h"

#include <cmath>

#include "catch.h"

using namespace coterie;

TEST_CASE("every half survives a round trip through float") {
    for (uint32_t h = 0; h < 0x10000; ++h) {
        const float value = half_to_float(uint16_t(h));
        if (std::isnan(value)) {
            CHECK(std::isnan(half_to_float(float_to_half(value))));
        } else if (float_to_half(value) != h) {
            CAPTURE(h, value);
            CHECK(float_to_half(value) == h);
        }
    }
}

TEST_CASE("rounding to half is to nearest even") {
    CHECK(float_to_half(1.0f + 0x1p-11f) == 0x3c00);      // tie to even: down
    CHECK(float_to_half(1.0f + 3 * 0x1p-11f) == 0x3c02);  // tie to even: up
    CHECK(float_to_half(65519.0f) == 0x7bff);
    CHECK(float_to_half(65520.0f) == 0x7c00);
    CHECK(float_to_half(0x1p-25f) == 0x0000);  // tie between 0 and the smallest subnormal
    CHECK(float_to_half(0x1.8p-25f) == 0x0001);
    CHECK(float_to_half(-0.0f) == 0x8000);
}

TEST_CASE("bfloat16 rounds to nearest even and keeps NaN") {
    CHECK(float_to_bfloat(1.0f + 0x1p-8f) == 0x3f80);
    CHECK(float_to_bfloat(1.0f + 3 * 0x1p-8f) == 0x3f82);
    CHECK(std::isnan(bfloat_to_float(float_to_bfloat(std::nanf("")))));
}
