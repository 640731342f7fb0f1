// The models in the box on an emulated GPU: a text predicted as well as transformers does with the same
// weights, and the words that it finds. Few tokens: the emulator is slow.
#include <fake_runtime.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../model/golden.h"
#include "catch.h"
#include "cuda/cuda_device.h"

using namespace coterie;

namespace {

std::unique_ptr<Device> emulated() {
    return std::make_unique<cuda::CudaDevice>();
}

}  // namespace

TEST_CASE("the models in the box predict a text on an emulated GPU", "[box]") {
    // On Volta products of a prompt go by dp4a, later by int8 tensor cores.
    struct Case {
        std::string architecture;
        int major, minor;
    };
    for (const auto& [architecture, major, minor] :
         {Case{"qwen3moe", 7, 0}, {"qwen3moe", 7, 5}, {"qwen3moe", 8, 0}, {"qwen35moe", 7, 0}}) {
        CAPTURE(architecture, major, minor);
        fake::Machine machine;
        machine.major = major;
        machine.minor = minor;
        fake::reset(machine);
        std::ifstream file(TEST_DATA "/box/" + architecture + ".json");
        const auto expected = nlohmann::json::parse(file);
        const auto tokens = expected["first"]["tokens"].get<std::vector<int32_t>>();
        const auto runner = golden::make_runner(
            SOURCE_ROOT "/share/models/coterie-box-" + architecture + ".Q4_K_M.gguf", emulated);
        golden::Sequence sequence(*runner);
        const std::vector<float> logits = sequence.append(tokens);
        const size_t vocabulary = logits.size() / tokens.size();
        double sum = 0;
        for (size_t i = 0; i + 1 < tokens.size(); ++i) {
            const float* row = &logits[i * vocabulary];
            double total = 0;
            for (size_t v = 0; v < vocabulary; ++v) total += std::exp(double(row[v]));
            sum += std::log(total) - double(row[size_t(tokens[i + 1])]);
        }
        const double nll = sum / double(tokens.size() - 1);
        CHECK(std::abs(nll - expected["first"]["nll"].get<double>()) < 0.005);
        for (const std::string& problem : fake::problems()) FAIL_CHECK(problem);
    }
    fake::reset({});
}
