// Norms and activations round what they make for the products to come. The rounded rows are used while they
// are what lies there, and not after anything has written over them.
#include <emulated_cuda.h>
#include <fake_runtime.h>

#include <functional>

#include "../device/workbench.h"
#include "catch.h"
#include "cuda/cuda_device.h"

using namespace coterie;
using namespace coterie::test;

namespace {

constexpr int64_t rows = 2, width = 64, out = 24;

struct Written {
    const char* name;
    std::function<void(Bench&, Rows h, Rows other)> write;
};

}  // namespace

TEST_CASE("rounded rows are forgotten when something is written over them") {
    fake::reset({});
    cuda::CudaDevice device;
    const TestWeight matrix(Type::Q8_0, width, out), square(Type::Q8_0, width, width);
    const auto weight = device.prepare(matrix.source), to_itself = device.prepare(square.source);
    const Step step = step_of({{0, 0, 2}});
    device.begin(step);
    const Written all[] = {
        {"nothing", [](Bench&, Rows, Rows) {}},
        {"add", [](Bench& b, Rows h, Rows other) { b.device.add(h, other); }},
        {"one row", [](Bench& b, Rows h, Rows) { b.device.clear(Rows(h.row(1), 1, 32)); }},
        {"activate", [](Bench& b, Rows h, Rows o) { b.device.activate(h, h, o, Activation::silu); }},
        {"gate", [](Bench& b, Rows h, Rows other) { b.device.sigmoid_gate(h, other); }},
        {"cap", [](Bench& b, Rows h, Rows) { b.device.softcap(h, 0.5f); }},
        {"norm", [](Bench& b, Rows h, Rows other) { b.device.rms_norm(h, other, nullptr, 1e-6f); }},
        {"another norm", [](Bench& b, Rows, Rows other) { b.device.rms_norm(other, other, nullptr, 1); }},
        {"l2", [](Bench& b, Rows h, Rows) { b.device.l2_norm(h, 2, 1e-6f); }},
        {"product", [&](Bench& b, Rows h, Rows other) { b.device.linear(h, *to_itself, other, nullptr); }},
        {"products",
         [&](Bench& b, Rows h, Rows other) {
             const Projection both[] = {{b.blank(rows, width), to_itself.get(), nullptr},
                                        {h, to_itself.get(), nullptr}};
             b.device.linear_many(both, other);
         }},
        {"host",
         [](Bench& b, Rows h, Rows) {
             const Floats values(size_t(width), 2.0f);
             b.device.write(h.row(1), values.data(), values.size() * sizeof(float));
         }},
        {"combination",
         [](Bench& b, Rows h, Rows other) {
             b.device.expert_combine(h, other, b.routing({0, 0}, {0.5f, 2.0f}, 1));
         }},
    };
    for (const Written& way : all) {
        CAPTURE(way.name);
        Bench b(device);
        Random random(1);
        const Rows x = b.rows(numbers(random, rows * width), rows, width),
                   other = b.rows(numbers(random, rows * width), rows, width), h = b.blank(rows, width),
                   y = b.blank(rows, out), again = b.blank(rows, out), one = b.blank(1, out);
        device.rms_norm(h, x, nullptr, 1e-6f);
        way.write(b, h, other);
        device.linear(y, *weight, h, nullptr);
        device.linear(one, *weight, Rows(h.data, 1, width), nullptr);
        // The same rows elsewhere, where nothing was rounded before.
        const Rows copy = b.rows(b.read(h), rows, width);
        device.linear(again, *weight, copy, nullptr);
        const Floats expected = b.read(again), first = b.read(one);
        CHECK(b.read(y) == expected);
        CHECK(first == Floats(expected.begin(), expected.begin() + out));
    }
    // And they are used: one launch less.
    Bench b(device);
    Random random(2);
    const Rows x = b.rows(numbers(random, rows * width), rows, width), h = b.blank(rows, width),
               y = b.blank(rows, out);
    device.wait();
    const uint64_t before = emulator::counts().launches;
    device.rms_norm(h, x, nullptr, 1e-6f);
    device.linear(y, *weight, h, nullptr);
    device.wait();
    CHECK(emulator::counts().launches - before == 2);
    for (const std::string& problem : fake::problems()) FAIL_CHECK(problem);
}
