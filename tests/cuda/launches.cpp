// Launches of a decoded token, counted on whole tiny models: few enough per layer. Recorded or not, each
// costs a GPU a microsecond or two in which it does nothing.
#include <emulated_cuda.h>
#include <fake_runtime.h>

#include "../model/golden.h"
#include "catch.h"
#include "cuda/cuda_device.h"

using namespace coterie;

namespace {

std::unique_ptr<Device> emulated() {
    return std::make_unique<cuda::CudaDevice>();
}

// Of a token after a prompt, which grows what has to.
uint64_t launches_of_a_token(const std::string& path) {
    const auto runner = golden::make_runner(path, emulated);
    golden::Sequence sequence(*runner);
    sequence.append({1, 2, 3});
    const uint64_t before = emulator::counts().launches;
    sequence.append({4});
    return emulator::counts().launches - before;
}

}  // namespace

TEST_CASE("a token takes few launches", "[models]") {
    fake::reset({});
    // Lookup of the token, first norm, choice of its row, last norm, logits.
    constexpr uint64_t around = 5;
    // Parts of layers, each with the norm before it (of the first layer: above) and the sum.
    struct Model {
        std::string name;
        uint64_t attention, delta, experts, shared, dense;
    };
    // F32 models, in which nothing is rounded: one launch less than the bounds of attention and experts.
    for (const Model& m :
         {Model{"qwen3", 3, 0, 0, 0, 3}, Model{"qwen3moe", 2, 0, 2, 0, 0}, Model{"qwen35-a", 2, 6, 0, 0, 8},
          Model{"qwen35moe-a", 1, 3, 4, 4, 0}, Model{"gpt-oss-a", 4, 0, 4, 0, 0}}) {
        CAPTURE(m.name);
        CHECK(launches_of_a_token(golden::load(m.name).path) <=
              around + 8 * m.attention + 9 * m.delta + 5 * m.experts + 5 * m.shared + 3 * m.dense);
    }
    // Q4_K_M: 9 for attention, 5 for experts and the norm before them.
    const uint64_t layers = 6;
    CHECK(launches_of_a_token(SOURCE_ROOT "/share/models/coterie-box-qwen3moe.Q4_K_M.gguf") <=
          around + 1 + (9 + 6) * layers);
    for (const std::string& problem : fake::problems()) FAIL_CHECK(problem);
}
