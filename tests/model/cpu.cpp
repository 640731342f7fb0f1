// Whole models on the CPU device, against logits that others computed.
#include <cstdio>

#include "catch.h"
#include "device/cpu/cpu_device.h"
#include "golden.h"

using namespace coterie;

namespace {

std::string isa = "auto";
int threads = 2;

std::unique_ptr<Device> make_cpu() {
    CpuOptions options;
    options.threads = threads;
    options.isa = isa;
    return std::make_unique<CpuDevice>(options);
}

std::vector<float> run(const std::string& path, const std::vector<int32_t>& prompt, int64_t chunk = 1 << 20) {
    const auto runner = golden::make_runner(path, make_cpu);
    golden::Sequence sequence(*runner);
    return sequence.append(prompt, chunk);
}

}  // namespace

TEST_CASE("golden logits on the CPU device") {
    for (const std::string folder : {"", "llamacpp"})
        for (const std::string& name : golden::names(folder)) {
            const golden::Case c = golden::load(name);
            for (cpu::Isa each : cpu::usable_isas()) {
                isa = cpu::isa_name(each);
                CAPTURE(name, isa);
                const auto logits = golden::rows_at(run(c.path, c.prompt), c.positions, c.vocabulary);
                if (c.truth.empty()) {  // F32 weights
                    CHECK(golden::nmse(logits, c.logits) <= 1e-9);
                    continue;
                }
                const double mine = golden::nmse(logits, c.truth);
                const std::vector<float> theirs(c.logits.begin(), c.logits.end());
                const double other = golden::nmse(theirs, c.truth);
                std::printf("%s %s: %.3g from the truth, llama.cpp %.3g\n", name.c_str(), isa.c_str(), mine,
                            other);
                CHECK(mine <= 1.3 * other);
            }
        }
}

TEST_CASE("chunks of a prompt on the CPU device give what the whole gives") {
    isa = "auto";
    for (const std::string name :
         {"llamacpp/tiny-qwen3moe-q4_k_m", "llamacpp/tiny-qwen35moe-q4_k_m", "llamacpp/nano-llama-f32"}) {
        const golden::Case c = golden::load(name);
        threads = 2;
        const auto whole = run(c.path, c.prompt);
        const std::vector<double> expected(whole.begin(), whole.end());
        CAPTURE(name);
        for (int64_t chunk : {1, 7, 64}) CHECK(golden::nmse(run(c.path, c.prompt, chunk), expected) <= 1e-9);
        threads = 1;
        CHECK(golden::nmse(run(c.path, c.prompt), expected) <= 1e-9);
        threads = 2;
    }
}
