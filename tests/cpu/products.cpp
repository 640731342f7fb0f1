// Every product kernel against float64 arithmetic, for every type, instruction set and odd shape.
//
// The bound: an activation a becomes scale * round(a / scale), off by at most scale / 2 where scale is the
// largest of its 32 over 127; so a product is off by at most sum |w| scale / 2 (all products of a test are
// held to it), plus F32 rounding of the sums, eps * sum |w a| * (terms).
#include "device/cpu/products.h"

#include <cmath>

#include "catch.h"
#include "weights.h"

using namespace coterie;
using namespace coterie::cpu;
using namespace coterie::cpu::testing;

namespace {

struct Activations {
    int64_t rows, columns;
    std::vector<float> values;
    std::vector<ActivationBlock> blocks;
    std::vector<const void*> quantised, floats;
    Activations(const Kernels& kernels, int64_t r, int64_t c, std::mt19937& random)
        : rows(r), columns(c), values(r * c) {
        std::normal_distribution<float> normal;
        for (int64_t m = 0; m < rows; ++m)
            for (int64_t k = 0; k < columns; ++k) {
                float v = normal(random);
                if (random() % 32 == 0) v *= 30;          // an outlier in most blocks
                if ((m + k / 32) % 7 == 0) v = 0;         // blocks of zeros
                if ((m + k / 32) % 11 == 0) v *= 1e-30f;  // and of almost nothing
                values[m * columns + k] = v;
            }
        blocks.resize(rows * (columns / 32));
        for (int64_t m = 0; m < rows; ++m) {
            if (columns % 32 == 0) {
                kernels.quantise(values.data() + m * columns, columns, blocks.data() + m * (columns / 32));
                quantised.push_back(blocks.data() + m * (columns / 32));
            }
            floats.push_back(values.data() + m * columns);
        }
    }
};

void check(Isa isa, Type type, int64_t weight_rows, int64_t source_columns, std::vector<Range> kept,
           int64_t rows) {
    std::mt19937 random(uint32_t(type) * 31 + uint32_t(rows) + uint32_t(source_columns));
    const Kernels& kernel = kernels(isa);
    const auto source = random_rows(type, weight_rows, source_columns, random);
    const Packed packed(type, weight_rows, kept, source.data(), source_columns);
    const int64_t columns = packed.shape.columns, stride = weight_rows + 3;
    const Activations x(kernel, rows, columns, random);
    const bool quantised = packed.shape.container == Container::blocks;

    const float untouched = 12345.0f;
    std::vector<float> y(rows * stride + 16, untouched);
    std::vector<float*> to;
    for (int64_t m = 0; m < rows; ++m) to.push_back(y.data() + m * stride);
    const int64_t cut = packed.shape.groups() / 3;  // as two threads would
    for (Range groups : {Range{0, cut}, Range{cut, packed.shape.groups()}})
        multiply(kernel, packed.shape, packed.data + groups.begin * packed.shape.group_bytes, groups,
                 quantised ? x.quantised.data() : x.floats.data(), rows, to.data());

    std::vector<float> w(columns);
    double worst = 0;
    int stray = 0;
    for (int64_t i = 0; i < weight_rows; ++i) {
        unpack_row(packed.shape, packed.data + i / group_rows * packed.shape.group_bytes, int(i % group_rows),
                   w.data());
        for (int64_t m = 0; m < rows; ++m) {
            double exact = 0, rounding = 0, magnitude = 0;
            for (int64_t k = 0; k < columns; ++k) {
                const double a = x.values[m * columns + k];
                exact += double(w[k]) * a;
                magnitude += std::fabs(double(w[k]) * a);
                if (quantised)
                    rounding += 0.5001 * std::fabs(w[k]) * x.blocks[m * (columns / 32) + k / 32].scale;
            }
            // u is unsigned: its products, up to 256 / 127 of the largest weight, cancel against the constant
            // part.
            const double bound =
                rounding + 4e-7 * magnitude * std::sqrt(double(columns)) + 4e-6 * rounding * 127 + 1e-25;
            worst = std::max(worst, std::fabs(double(y[m * stride + i]) - exact) / bound);
        }
    }
    for (int64_t m = 0; m < rows; ++m)
        for (int64_t i = weight_rows; i < stride; ++i) stray += y[m * stride + i] != untouched;
    INFO(isa_name(isa) << " " << type_name(type) << ": " << weight_rows << " x " << columns << ", " << rows
                       << " rows");
    CHECK(worst <= 1.0);
    CHECK(stray == 0);
}

}  // namespace

TEST_CASE("products of every type and instruction set", "[cpu]") {
    for (Isa isa : usable_isas())
        for (const auto* types : {&packed_types, &float_types, &native_types})
            for (Type type : *types) {
                check(isa, type, 16, 256, {{0, 256}}, 1);
                check(isa, type, 53, 512, {{0, 512}}, 1);
                check(isa, type, 33, 768, {{96, 288}, {736, 768}}, 2);
                check(isa, type, 1, 256, {{32, 64}}, 3);
            }
}

TEST_CASE("products of every number of rows", "[cpu]") {
    for (Isa isa : usable_isas())
        for (Type type : {Type::Q4_K, Type::Q6_K, Type::Q8_0, Type::MXFP4, Type::F16, Type::F32, Type::Q2_K})
            for (int64_t rows = 1; rows <= 70; rows += rows < 27 ? 1 : 11)
                check(isa, type, 21, 256, {{0, 256}}, rows);
}

TEST_CASE("products of every width", "[cpu]") {
    for (Isa isa : usable_isas()) {
        for (int64_t columns = 32; columns <= 608; columns += 32)
            for (Type type : {Type::Q5_0, Type::Q8_0, Type::MXFP4})
                check(isa, type, 19, columns, {{0, columns}}, 5);
        for (int64_t end = 32; end <= 512; end += 32)
            for (Type type : {Type::Q4_K, Type::Q6_K, Type::Q5_K})
                check(isa, type, 19, 512, {{end / 64 * 32, end}}, 3);
        for (int64_t columns : {1, 2, 7, 33}) check(isa, Type::F32, 5, columns, {{0, columns}}, 4);
    }
}

TEST_CASE("a row alone is bit for bit the row in a batch", "[cpu]") {
    std::mt19937 random(5);
    for (Isa isa : usable_isas())
        for (Type type : {Type::Q4_K, Type::Q6_K, Type::Q8_0, Type::IQ4_NL}) {
            const auto source = random_rows(type, 48, 512, random);
            const Range all[] = {{0, 512}};
            const Packed packed(type, 48, all, source.data(), 512);
            const Activations x(kernels(isa), 30, 512, random);
            const auto& rows = packed.shape.container == Container::blocks ? x.quantised : x.floats;
            std::vector<float> together(30 * 48), alone(48);
            std::vector<float*> to;
            for (int m = 0; m < 30; ++m) to.push_back(&together[m * 48]);
            float* one = alone.data();
            multiply(kernels(isa), packed.shape, packed.data, {0, 3}, rows.data(), 30, to.data());
            int different = 0;
            for (int m = 0; m < 30; ++m) {
                multiply(kernels(isa), packed.shape, packed.data, {0, 3}, rows.data() + m, 1, &one);
                for (int i = 0; i < 48; ++i) different += alone[i] != together[m * 48 + i];
            }
            INFO(isa_name(isa) << " " << type_name(type));
            CHECK(different == 0);
        }
}
