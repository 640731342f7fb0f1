// Packing loses nothing: a packed row unpacks to exactly the floats the file's format says, however it is
// cut.
#include "base/failure.h"
#include "catch.h"
#include "weights.h"

using namespace coterie;
using namespace coterie::cpu;
using namespace coterie::cpu::testing;

namespace {

void check_exact(Type type, int64_t rows, int64_t columns, std::vector<Range> kept) {
    std::mt19937 random(uint32_t(type) * 7 + uint32_t(rows));
    const auto source = random_rows(type, rows, columns, random);
    const Packed packed(type, rows, kept, source.data(), columns);
    std::vector<float> whole(columns), mine(packed.shape.columns);
    int wrong = 0;
    for (int64_t row = 0; row < rows; ++row) {
        quant::decode(type, source.data() + row * row_bytes(type, columns), whole.data(), columns);
        unpack_row(packed.shape, packed.data + row / group_rows * packed.shape.group_bytes,
                   int(row % group_rows), mine.data());
        int64_t at = 0;
        for (const Range& range : kept)
            for (int64_t c = range.begin; c < range.end; ++c) wrong += mine[at++] != whole[c];
    }
    INFO(type_name(type) << ", " << rows << " rows of " << columns);
    CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("packed rows unpack to the file's values", "[cpu]") {
    for (const auto* types : {&packed_types, &float_types, &native_types})
        for (Type type : *types) {
            check_exact(type, 16, 512, {{0, 512}});
            check_exact(type, 37, 768, {{0, 768}});
            check_exact(type, 5, 512, {{32, 480}});
            check_exact(type, 18, 1024, {{96, 288}, {512, 544}, {736, 1024}});
        }
}

TEST_CASE("small formats pack rows of any multiple of 32", "[cpu]") {
    for (Type type : packed_types)
        if (traits(type).block_elements == 32)
            for (int64_t columns : {32, 64, 160, 288, 640}) check_exact(type, 17, columns, {{0, columns}});
    for (Type type : float_types) check_exact(type, 3, 77, {{1, 6}, {40, 77}});
}

TEST_CASE("a packed matrix is at most 3 % larger than the file's", "[cpu]") {
    for (Type type : packed_types) {
        if (type == Type::Q3_K) continue;  // its 6-bit scales take 8: 3.7 %
        const Range all[] = {{0, 2048}};
        const PackedShape shape(type, 2048, all);
        INFO(type_name(type) << " " << double(shape.bytes()) / double(2048 * row_bytes(type, 2048)));
        CHECK(double(shape.bytes()) <= 1.03 * double(2048 * row_bytes(type, 2048)));
    }
}

TEST_CASE("a cut inside 32 columns is refused", "[cpu]") {
    const Range odd[] = {{0, 48}};
    CHECK_THROWS_AS(PackedShape(Type::Q4_K, 16, odd), Failure);
    const Range whole[] = {{0, 256}};
    CHECK_THROWS_AS(PackedShape(Type::I32, 16, whole), Failure);
}
