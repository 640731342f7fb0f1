// Whole tiny models of every architecture on an emulated GPU: the logits of others (tests/data/golden), and
// the CPU device's greedy tokens.
#include <fake_runtime.h>

#include "../model/golden.h"
#include "catch.h"
#include "cuda/cuda_device.h"
#include "device/cpu/cpu_device.h"

using namespace coterie;

namespace {

std::unique_ptr<Device> emulated() {
    return std::make_unique<cuda::CudaDevice>();
}
std::unique_ptr<Device> host() {
    CpuOptions options;
    options.threads = 1;
    options.fine = true;
    return std::make_unique<CpuDevice>(options);
}

std::vector<int32_t> greedy(const golden::Case& c, golden::DeviceMaker maker, size_t count) {
    const auto runner = golden::make_runner(c.path, maker);
    golden::Sequence sequence(*runner);
    std::vector<float> logits = sequence.append(c.prompt);
    std::vector<int32_t> tokens;
    while (tokens.size() < count) {
        const float* last = logits.data() + int64_t(logits.size()) - c.vocabulary;
        tokens.push_back(golden::argmax(last, c.vocabulary));
        logits = sequence.append({tokens.back()});
    }
    return tokens;
}

void check_no_problems() {
    for (const std::string& problem : fake::problems()) FAIL_CHECK(problem);
    CHECK(fake::leaks().none());
}

}  // namespace

TEST_CASE("transformers' logits on an emulated GPU", "[models]") {
    fake::reset({});
    for (const std::string& name : golden::names("")) {
        const golden::Case c = golden::load(name);
        CAPTURE(name);
        const auto runner = golden::make_runner(c.path, emulated);
        golden::Sequence sequence(*runner);
        const auto logits = sequence.append(c.prompt, 7);
        CHECK(golden::nmse(golden::rows_at(logits, c.positions, c.vocabulary), c.logits) <= 1e-9);
    }
    check_no_problems();
}

TEST_CASE("an emulated GPU says what the CPU says, with graphs", "[models]") {
    fake::reset({});
    for (const std::string folder : {"", "llamacpp"})
        for (const std::string& name : golden::names(folder)) {
            const golden::Case c = golden::load(name);
            CAPTURE(name);
            const uint64_t before = fake::calls("cudaGraphLaunch");
            CHECK(greedy(c, emulated, 6) == greedy(c, host, 6));
            CHECK(fake::calls("cudaGraphLaunch") > before);
        }
    check_no_problems();
}
