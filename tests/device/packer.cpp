// Experts that are packed in the background: right as they are in the file and whoever packs them, the idle
// thread or a step, and safe to drop meanwhile.
#include <chrono>
#include <thread>

#include "catch.h"
#include "device/cpu/cpu_device.h"
#include "device/reference/reference_device.h"
#include "quant/encode.h"
#include "workbench.h"

using namespace coterie;
using namespace coterie::test;

namespace {

constexpr int64_t experts = 48, width = 256, rows = 24, used = 2;

struct File {
    std::vector<std::byte> bytes;
    WeightSource source;
    File() : bytes(row_bytes(Type::Q8_0, width) * width * experts) {
        Random random(5);
        const Floats values = numbers(random, width * width * experts, Data::normal, 0.05f);
        quant::encode(Type::Q8_0, values.data(), bytes.data(), width * width * experts);
        source.name = "experts";
        source.type = Type::Q8_0;
        source.file_in = source.file_out = width;
        for (int64_t e = 0; e < experts; ++e)
            source.matrices.push_back(&bytes[size_t(e) * row_bytes(Type::Q8_0, width) * width]);
        source.rows = source.columns = {{0, width}};
    }
};

Floats product(Device& device, const Weight& weight) {
    Bench b(device);
    Random random(6);
    std::vector<int32_t> chosen;
    for (int64_t c = 0; c < rows * used; ++c) chosen.push_back(int32_t(c * 7 % experts));
    const Routing routing = b.routing(chosen, Floats(size_t(rows * used), 0.5f), used);
    const Rows y = b.blank(rows * used, width);
    device.expert_linear(y, {&weight, nullptr, 0}, b.rows(numbers(random, rows * width), rows, width),
                         routing);
    return b.read(y);
}

CpuOptions two_threads() {
    CpuOptions o;
    o.threads = 2;
    return o;
}

}  // namespace

TEST_CASE("experts packed while idle, on second use, by both and not at all give the reference's products",
          "[cpu]") {
    const File file;
    ReferenceDevice reference;
    const Floats expected = product(reference, *reference.prepare(file.source));
    for (int round = 0; round < 12; ++round) {
        CpuDevice device(two_threads());
        const auto weight = device.prepare(file.source);
        if (round % 3 == 0) {
            const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
            while (device.pending_bytes() > 0 && std::chrono::steady_clock::now() < deadline)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            CHECK(device.pending_bytes() == 0);
        } else if (round % 3 == 1) {
            std::this_thread::sleep_for(std::chrono::microseconds(200 * round));
        }
        const Floats first = product(device, *weight);
        CHECK(nmse(first, expected) < 2e-4);
        for (int use = 2; use < 4; ++use) CHECK(product(device, *weight) == first);
        CHECK(device.pending_bytes() <= weight->bytes());
    }
}

TEST_CASE("a weight may go while its experts are being packed", "[cpu]") {
    const File file;
    CpuDevice device(two_threads());
    for (int round = 0; round < 40; ++round) {
        auto first = device.prepare(file.source), second = device.prepare(file.source);
        std::this_thread::sleep_for(std::chrono::microseconds(50 * round));
        (round % 2 ? first : second).reset();
    }
    CHECK(device.pending_bytes() == 0);
}
