// The CPU device on whole models: against others' logits, against chunks of itself, and against itself in a
// batch.
#include <cmath>

#include "catch.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/isa.h"
#include "device/reference/reference_device.h"
#include "golden.h"

using namespace coterie;

namespace {

template <cpu::Isa isa, bool fine>
std::unique_ptr<Device> cpu_of() {
    CpuOptions options;
    options.threads = 2;
    options.isa = cpu::isa_name(isa);
    options.fine = fine;
    return std::make_unique<CpuDevice>(options);
}

// fine: activations of 16 bits instead of 8.
golden::DeviceMaker maker(cpu::Isa isa, bool fine = false) {
    switch (isa) {
        case cpu::Isa::portable:
            return fine ? cpu_of<cpu::Isa::portable, true> : cpu_of<cpu::Isa::portable, false>;
        case cpu::Isa::avx2:
            return fine ? cpu_of<cpu::Isa::avx2, true> : cpu_of<cpu::Isa::avx2, false>;
        case cpu::Isa::avx512:
            return fine ? cpu_of<cpu::Isa::avx512, true> : cpu_of<cpu::Isa::avx512, false>;
    }
    return nullptr;
}

golden::DeviceMaker best() {
    return maker(cpu::best_isa());
}

golden::DeviceMaker reference_device() {
    return [] { return std::unique_ptr<Device>(new ReferenceDevice); };
}

double nmse(const std::vector<float>& got, const std::vector<float>& want) {
    return golden::nmse(got, std::vector<double>(want.begin(), want.end()));
}

}  // namespace

TEST_CASE("transformers' logits on the CPU device, every instruction set") {
    for (const cpu::Isa isa : cpu::usable_isas())
        for (const std::string& name : golden::names("")) {
            const golden::Case c = golden::load(name);
            CAPTURE(name, cpu::isa_name(isa));
            const auto runner = golden::make_runner(c.path, maker(isa));
            golden::Sequence sequence(*runner);
            const auto logits = sequence.append(c.prompt);
            CHECK(golden::nmse(golden::rows_at(logits, c.positions, c.vocabulary), c.logits) <= 1e-9);
            golden::Sequence again(*runner);
            const auto longer = again.append(c.long_prompt);
            CHECK(golden::nmse(golden::rows_at(longer, c.long_positions, c.vocabulary), c.long_logits) <=
                  1e-9);
        }
}

TEST_CASE("llama.cpp's logits on the CPU device") {
    for (const cpu::Isa isa : cpu::usable_isas())
        for (const std::string& name : golden::names("llamacpp")) {
            const golden::Case c = golden::load(name);
            CAPTURE(name, cpu::isa_name(isa));
            const auto runner = golden::make_runner(c.path, maker(isa));
            golden::Sequence sequence(*runner);
            const auto logits = golden::rows_at(sequence.append(c.prompt), c.positions, c.vocabulary);
            if (name.ends_with("-f32")) {
                CHECK(golden::nmse(logits, c.logits) <= 1e-9);
            } else if (name.ends_with("-f16")) {
                CHECK(golden::nmse(logits, c.logits) <= 1e-4);
            } else {
                // No further from exact arithmetic than 1.3 times llama.cpp (distances, so squared here).
                const double theirs =
                    golden::nmse(std::vector<float>(c.logits.begin(), c.logits.end()), c.truth);
                CHECK(golden::nmse(logits, c.truth) <= 1.3 * 1.3 * theirs);
            }
        }
}

TEST_CASE("16-bit activations bring quantised models to exact arithmetic") {
    for (const char* name :
         {"llamacpp/tiny-llama-q4_k_m", "llamacpp/tiny-qwen3moe-q4_k_m", "llamacpp/nano-qwen3-q8_0"}) {
        const golden::Case c = golden::load(name);
        CAPTURE(name);
        const auto runner = golden::make_runner(c.path, []() -> std::unique_ptr<Device> {
            CpuOptions options;
            options.threads = 2;
            options.fine = true;
            return std::make_unique<CpuDevice>(options);
        });
        golden::Sequence sequence(*runner);
        const auto logits = golden::rows_at(sequence.append(c.prompt), c.positions, c.vocabulary);
        CHECK(golden::nmse(logits, c.truth) <= 1e-7);
    }
}

TEST_CASE("MXFP4 experts on the CPU device, against transformers on the same numbers") {
    for (const cpu::Isa isa : cpu::usable_isas())
        for (const std::string& name : golden::names("mxfp4"))
            for (const bool fine : {true, false}) {
                CAPTURE(name, cpu::isa_name(isa), fine);
                const golden::Case c = golden::load(name);
                const auto runner = golden::make_runner(c.path, maker(isa, fine));
                golden::Sequence sequence(*runner), again(*runner);
                const auto logits = sequence.append(c.prompt);
                // Activations of 16 and of 8 bits.
                CHECK(golden::nmse(golden::rows_at(logits, c.positions, c.vocabulary), c.logits) <=
                      (fine ? 1e-7 : 1e-3));
                const auto longer = again.append(c.long_prompt);
                CHECK(golden::nmse(golden::rows_at(longer, c.long_positions, c.vocabulary), c.long_logits) <=
                      (fine ? 1e-7 : 1e-3));
            }
}

TEST_CASE("a prompt in one chunk equals chunks, and interleaved sequences equal each alone") {
    for (const char* name :
         {"llama", "qwen2moe", "qwen3moe", "gemma3", "qwen35moe-a", "qwen35-b", "qwen3next-b", "gpt-oss-a"}) {
        const golden::Case c = golden::load(name);
        CAPTURE(name);
        const auto runner = golden::make_runner(c.path, best());
        golden::Sequence whole(*runner);
        const auto at_once = whole.append(c.long_prompt);
        for (const int64_t chunk : {1, 7, 63, 64, 65}) {
            CAPTURE(chunk);
            golden::Sequence sequence(*runner);  // reuses the slot
            CHECK(nmse(sequence.append(c.long_prompt, chunk), at_once) <= 1e-10);
        }
        golden::Sequence a(*runner, 0, 2), b(*runner, 1, 2);
        std::vector<float> from_a, from_b;
        for (size_t at = 0; at < c.long_prompt.size(); at += 5) {
            const std::vector<int32_t> piece(
                c.long_prompt.begin() + long(at),
                c.long_prompt.begin() + long(std::min(at + 5, c.long_prompt.size())));
            const auto more_a = a.append(piece), more_b = b.append(piece);
            from_a.insert(from_a.end(), more_a.begin(), more_a.end());
            from_b.insert(from_b.end(), more_b.begin(), more_b.end());
        }
        CHECK(nmse(from_a, at_once) <= 1e-10);
        CHECK(nmse(from_b, at_once) <= 1e-10);
    }
}

TEST_CASE("a state that was kept and put back continues as if nothing had happened") {
    for (const char* name : {"qwen35moe-a", "qwen35-b", "qwen3next-b"})
        for (const golden::DeviceMaker device : {best(), reference_device()}) {
            CAPTURE(name);
            const golden::Case c = golden::load(name);
            const auto runner = golden::make_runner(c.path, device);
            const std::vector<int32_t> first(c.long_prompt.begin(), c.long_prompt.begin() + 70),
                rest(c.long_prompt.begin() + 70, c.long_prompt.end()), other(9, 3);
            golden::Sequence sequence(*runner);
            sequence.append(first);
            runner->copy_state(0, 2);
            const auto want = sequence.append(rest);
            std::vector<std::byte> kept(runner->state_bytes());
            runner->read_state(2, kept.data());
            for (const bool from_memory : {false, true}) {
                sequence.rewind(70);
                sequence.append(other);  // what must leave no trace
                sequence.rewind(70);
                if (from_memory)
                    runner->write_state(0, kept.data());
                else
                    runner->copy_state(2, 0);
                CHECK(sequence.append(rest) == want);
            }
        }
}
