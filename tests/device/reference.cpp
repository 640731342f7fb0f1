// The reference device against truths that are not ours, and against cases small enough to see.
#include <cmath>
#include <limits>

#include "base/failure.h"
#include "catch.h"
#include "device/reference/reference_device.h"
#include "vectors.h"
#include "workbench.h"

using namespace coterie;
using namespace coterie::test;

TEST_CASE("the reference device gives what PyTorch and transformers give", "[reference]") {
    ReferenceDevice device;
    check_vectors(device, 1e-12);
}

TEST_CASE("equal scores choose the lower expert, and nothing chooses twice", "[reference]") {
    ReferenceDevice device;
    Bench b(device);
    Router router;
    router.experts = 6;
    router.used = 3;
    const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
    const Rows scores = b.rows({1,    2,    2,    2,   2,    0,     //
                                0,    0,    0,    0,   0,    0,     //
                                -inf, -inf, -inf, 3,   -inf, -inf,  //
                                nan,  nan,  nan,  nan, nan,  nan},  //
                               4, 6);
    const Routing routing = b.routing(4, 3);
    device.choose_experts(routing, scores, router);
    CHECK(b.read(routing.experts, 12) == std::vector<int32_t>{1, 2, 3, 0, 1, 2, 3, 0, 1, 0, 1, 2});
    const Floats weights = b.read(Rows(routing.weights, 4, 3));
    CHECK(Floats(weights.begin() + 6, weights.begin() + 9) == Floats{1, 0, 0});
    CHECK(weights[3] == Approx(1.0 / 3));

    SECTION("equal groups too") {
        router.groups = 3;
        router.groups_used = 1;
        router.used = 2;
        const Routing grouped = b.routing(2, 2);
        // Group sums 3, 4, 2 and then 1, 1, 1.
        router.gating = Router::Gating::selected_softmax;
        device.choose_experts(grouped, b.rows({3, 0, 2, 2, 2, 0, 1, 0, 0, 1, 0.5f, 0.5f}, 2, 6), router);
        CHECK(b.read(grouped.experts, 4) == std::vector<int32_t>{2, 3, 0, 1});
    }
    SECTION("a sum near nothing is divided by the smallest normal half") {
        router.gating = Router::Gating::sigmoid;
        router.used = 1;
        const Routing faint = b.routing(1, 1);
        device.choose_experts(faint, b.rows(Floats(6, -20.0f), 1, 6), router);
        CHECK(b.read(Rows(faint.weights, 1, 1))[0] == Approx(std::exp(-20.0) / 6.1035e-5).epsilon(1e-4));
    }
    SECTION("square root of softplus") {
        router.gating = Router::Gating::sqrt_softplus;
        router.used = 1;
        router.normalise = false;
        router.scale = 2;
        const Routing one = b.routing(1, 1);
        device.choose_experts(one, b.rows({0, 0, -1, -1, -1, -1}, 1, 6), router);
        CHECK(b.read(Rows(one.weights, 1, 1))[0] == Approx(2 * std::sqrt(std::log(2.0))));
    }
}

TEST_CASE("a weight keeps the rows and columns asked for, in that order", "[reference]") {
    ReferenceDevice device;
    Bench b(device);
    // Two matrices of 3 rows by 4 columns; the value tells where it comes from: expert, row, column.
    Floats values[2];
    for (int e = 0; e < 2; ++e)
        for (int r = 0; r < 3; ++r)
            for (int c = 0; c < 4; ++c) values[e].push_back(float(100 * (e + 1) + 10 * r + c));
    WeightSource source;
    source.name = "w";
    source.file_in = 4;
    source.file_out = 3;
    for (const Floats& matrix : values)
        source.matrices.push_back(reinterpret_cast<const std::byte*>(matrix.data()));
    source.rows = {{2, 3}, {0, 1}};
    source.columns = {{1, 2}, {3, 4}};
    uint64_t released = 0;
    source.release = [&](const std::byte*, uint64_t bytes) { released += bytes; };
    const auto weight = device.prepare(source);
    CHECK(weight->in == 2);
    CHECK(weight->out == 2);
    CHECK(weight->experts == 2);
    CHECK(released == 2 * 12 * sizeof(float));
    const Rows y = b.blank(2, 2);
    device.expert_linear(y, {weight.get(), nullptr, 5}, b.rows({1, 1000}, 1, 2),
                         b.routing({6, 5}, {1, 1}, 2));
    CHECK(b.read(y) == Floats{221 + 223000, 201 + 203000, 121 + 123000, 101 + 103000});

    source.rows = {{2, 4}};
    std::string why;
    CHECK_FALSE(device.supports(source, &why));
    CHECK(why.find("rows 2 to 4") != std::string::npos);
    source.rows = {{0, 1}};
    source.type = Type::I32;
    CHECK_THROWS_AS(device.prepare(source), Failure);
}

TEST_CASE("columns may begin inside a super-block", "[reference]") {
    // Q6_K with d = 1, scales 1 and the low nibble of every weight l in sub-block s: decoded by hand below.
    ReferenceDevice device;
    Bench b(device);
    std::vector<std::byte> block(210);
    for (int i = 0; i < 128; ++i) block[size_t(i)] = std::byte(i % 16 | ((i % 3) << 4));
    for (int i = 0; i < 16; ++i) block[size_t(192 + i)] = std::byte(i + 1);  // scales
    block[208] = std::byte(0x00), block[209] = std::byte(0x3c);              // d = 1 as a half
    WeightSource source;
    source.type = Type::Q6_K;
    source.file_in = 256;
    source.file_out = 1;
    source.matrices = {block.data()};
    source.rows = {{0, 1}};
    source.columns = {{96, 128}, {32, 64}};
    source.gather = true;
    const auto weight = device.prepare(source);
    const Rows y = b.blank(1, 64);
    Step step = step_of({{0, 0, 1}});
    step.tokens = {9};
    device.embed(y, *weight, step, 1.0f, 9);
    const Floats found = b.read(y);
    for (int i = 0; i < 32; ++i) {
        // Sub-block 3 of half 0: high nibbles of ql[32 + i]; sub-block 1: its low nibbles; scales 7, 8 and
        // 3, 4.
        CHECK(found[size_t(i)] == float(((32 + i) % 3 - 32) * (i < 16 ? 7 : 8)));
        CHECK(found[size_t(32 + i)] == float(((32 + i) % 16 - 32) * (i < 16 ? 3 : 4)));
    }
    source.columns = {{16, 48}};
    CHECK_FALSE(device.supports(source, nullptr));
}

TEST_CASE("embedding: rows held elsewhere are zero", "[reference]") {
    ReferenceDevice device;
    Bench b(device);
    const Floats values{1, 2, 3, 4};
    const auto table = b.weight(values, 2, 2, 1, true);
    Step step = step_of({{0, 0, 4}});
    step.tokens = {10, 11, 12, 9};
    const Rows y = b.blank(4, 2);
    device.embed(y, *table, step, 2.0f, 10);
    CHECK(b.read(y) == Floats{2, 4, 6, 8, 0, 0, 0, 0});
    step.outputs = {1, 3};
    const Rows picked = b.blank(2, 2);
    device.select_rows(picked, y, step);
    CHECK(b.read(picked) == Floats{6, 8, 0, 0});
}

TEST_CASE("storing keys and values rounds to the cache's type", "[reference]") {
    ReferenceDevice device;
    Bench b(device);
    CacheShape shape;
    shape.layers = {{1, 32, 32}};
    shape.page_tokens = 4;
    shape.pages = 2;
    Floats v(32, 0.0f), expected(32, 0.0f);
    SECTION("F16") {
        v[0] = 1.0f + 0x1p-12f, v[1] = 65520.0f, v[2] = -0x1p-25f;
        expected[0] = 1.0f, expected[1] = std::numeric_limits<float>::infinity();
    }
    SECTION("Q8_0") {
        shape.key_type = shape.value_type = Type::Q8_0;
        v[0] = 127.0f, v[1] = -1.4f, v[2] = 2.6f, v[3] = -127.0f;
        expected[0] = 127.0f, expected[1] = -1.0f, expected[2] = 3.0f, expected[3] = -127.0f;
    }
    const auto cache = device.make_cache(shape);
    const Step step = step_of({{0, 0, 1}}, 1, 2);
    device.store_kv(*cache, 0, b.rows(Floats(32, 0.0f), 1, 32), b.rows(v, 1, 32), step);
    Attention attention;
    attention.heads = attention.kv_heads = 1;
    attention.key_dim = attention.value_dim = 32;
    const Rows y = b.blank(1, 32);
    device.attend(y, b.rows(Floats(32, 1.0f), 1, 32), *cache, 0, attention, step);
    CHECK(b.read(y) == expected);
}

TEST_CASE("pages and slots are copied, saved and restored", "[reference]") {
    ReferenceDevice device;
    Bench b(device);
    CacheShape shape;
    shape.layers = {{1, 4, 2}, {2, 2, 2}};
    shape.page_tokens = 4;
    shape.pages = 3;
    const auto cache = device.make_cache(shape);
    std::vector<std::byte> page(shape.page_bytes()), other(page.size());
    CHECK(page.size() == 4 * (6 + 8) * 2);
    for (size_t i = 0; i < page.size(); ++i) page[i] = std::byte(i);
    device.write_page(*cache, 1, page.data());
    device.copy_page(*cache, 1, 2);
    device.read_page(*cache, 2, other.data());
    CHECK(other == page);
    device.read_page(*cache, 0, other.data());
    CHECK(other == std::vector<std::byte>(page.size()));
    CHECK_THROWS_AS(device.copy_page(*cache, 1, 3), Failure);

    StateShape states_shape;
    states_shape.layers = {{5, 4, 2, 3, 2}};
    states_shape.slots = 2;
    const auto states = device.make_states(states_shape);
    Floats slot(15 + 12), found(slot.size());
    REQUIRE(states_shape.slot_bytes() == slot.size() * sizeof(float));
    for (size_t i = 0; i < slot.size(); ++i) slot[i] = float(i);
    device.write_state(*states, 0, reinterpret_cast<const std::byte*>(slot.data()));
    device.copy_state(*states, 0, 1);
    device.clear_state(*states, 0);
    device.read_state(*states, 1, reinterpret_cast<std::byte*>(found.data()));
    CHECK(found == slot);
    device.read_state(*states, 0, reinterpret_cast<std::byte*>(found.data()));
    CHECK(found == Floats(slot.size()));
    CHECK_THROWS_AS(device.clear_state(*states, -1), Failure);
}

TEST_CASE("a step that doesn't fit its memory is a failure", "[reference]") {
    ReferenceDevice device;
    Bench b(device);
    CacheShape shape;
    shape.layers = {{1, 2, 2}};
    shape.page_tokens = 4;
    shape.pages = 3;
    const auto cache = device.make_cache(shape);
    const auto store = [&](const Step& step) {
        const Rows x = b.rows(Floats(size_t(2 * step.rows())), step.rows(), 2);
        device.store_kv(*cache, 0, x, x, step);
    };
    CHECK_NOTHROW(store(step_of({{0, 10, 2}}, 1, 3)));
    CHECK(message_of([&] { store(step_of({{0, 10, 3}}, 1, 3)); }).find("need 4 pages") != std::string::npos);
    CHECK(message_of([&] {
              store(step_of({{0, 0, 1}}, 1, 4));
          }).find("the cache has 3 pages") != std::string::npos);
    Step step = step_of({{0, 0, 3}, {1, 4, 2}}, 2, 1);
    step.positions[4] = 7;
    CHECK_THROWS_AS(device.begin(step), Failure);
    step = step_of({{0, 0, 3}});
    step.outputs = {3};
    CHECK_THROWS_AS(device.begin(step), Failure);
    const Floats square(9);
    const auto weight = b.weight(square, 3, 3);
    CHECK_THROWS_AS(device.linear(b.blank(2, 3), *weight, b.blank(2, 4), nullptr), Failure);
}
