// Several emulated GPUs: every way to cut a model says what one CPU says; and the bytes that a plan promises.
#include "../ranks/ranks.h"

#include <fake_runtime.h>

#include "../model/golden.h"
#include "catch.h"
#include "cuda/cuda_device.h"
#include "cuda/weight.h"
#include "device/cpu/cpu_device.h"
#include "device/staged_communicator.h"
#include "device/thread_communicator.h"
#include "plan/shard_bytes.h"

using namespace coterie;

namespace {

std::unique_ptr<Device> host() {
    CpuOptions options;
    options.threads = 1;
    options.fine = true;
    return std::make_unique<CpuDevice>(options);
}

std::unique_ptr<Runner> on_gpus(const std::shared_ptr<const Model>& model, const ranks::Way& way,
                                double deadline_s = 60) {
    std::vector<Share> shares = ranks::shares_of(model->numbers(), way);
    auto communicators = make_thread_communicators(int(shares.size()), std::chrono::seconds(60));
    std::vector<RankPlace> places;
    for (size_t r = 0; r < shares.size(); ++r) {
        cuda::CudaOptions options;
        options.device = int(r);
        options.deadline_s = deadline_s;
        auto device = std::make_unique<cuda::CudaDevice>(options);
        auto communicator = make_staged_communicator(std::move(communicators[r]), *device);
        places.push_back({std::move(device), std::move(communicator), std::move(shares[r])});
    }
    RunnerShape shape;
    shape.step_rows = shape.step_outputs = 64;
    shape.page_tokens = 32;
    shape.pages = 3;
    shape.state_slots = 1;
    shape.key_type = shape.value_type = Type::F32;
    shape.context_tokens = 96;
    return std::make_unique<Runner>(model, std::move(places), shape);
}

fake::Machine three(uint64_t seed) {
    fake::Machine machine;
    machine.devices = 3;
    machine.seed = seed;
    return machine;
}

}  // namespace

TEST_CASE("several emulated GPUs say what the CPU says", "[ranks]") {
    uint64_t seed = 1;
    for (const char* name : {"qwen3moe", "qwen35moe-a", "gpt-oss-a", "llamacpp/tiny-qwen3moe-q4_k_m"}) {
        const golden::Case c = golden::load(name);
        const auto model = Model::open(c.path);
        const std::vector<int32_t> prompt(c.prompt.begin(), c.prompt.begin() + 9);
        const ranks::Answer expected = ranks::answer(*ranks::make_runner(model, {}, host, 64), prompt, 4);
        for (const Mode mode : {Mode::tensor, Mode::expert, Mode::layer})
            for (const int count : {2, 3}) {
                if (mode == Mode::layer && count > model->numbers().layers) continue;
                CAPTURE(name, mode_name(mode), count);
                fake::reset(three(++seed));
                {
                    const auto runner = on_gpus(model, {mode, count});
                    const ranks::Answer found = ranks::answer(*runner, prompt, 4);
                    CHECK(found.tokens == expected.tokens);
                    CHECK(ranks::nmse(found.logits, expected.logits) <= 2e-3);
                }
                for (const std::string& problem : fake::problems()) FAIL_CHECK(problem);
                CHECK(fake::leaks().none());
            }
    }
}

TEST_CASE("weights take the bytes that the plan says, to the byte", "[ranks]") {
    fake::reset(three(1));
    for (const char* name : {"gpt-oss-a", "qwen35moe-b", "llamacpp/tiny-qwen35moe-q4_k_m"}) {
        const auto model = Model::open(golden::load(name).path);
        const auto runner = on_gpus(model, {Mode::tensor, 3});
        const std::vector<Share> shares = ranks::shares_of(model->numbers(), {Mode::tensor, 3});
        for (size_t r = 0; r < shares.size(); ++r) {
            CAPTURE(name, r);
            uint64_t planned = 0;
            for (const TensorEntry& entry : model->table().entries())
                if (holds(entry, shares[r]))
                    planned +=
                        shard_bytes(entry, shard_shape(entry, model->numbers(), shares[r]), DeviceKind::cuda);
            CHECK(runner->memory()[r].weights == planned);
        }
    }
}

TEST_CASE("a lost or hanging GPU ends a run of several, and nobody hangs", "[ranks]") {
    const golden::Case c = golden::load("qwen3moe");
    const auto model = Model::open(c.path);
    for (const bool hangs : {false, true}) {
        CAPTURE(hangs);
        fake::reset(three(5));
        const auto runner = on_gpus(model, {Mode::tensor, 2}, 4);
        golden::Sequence sequence(*runner);
        (void)sequence.append({1, 2, 3});
        if (hangs)
            fake::hang_device(1);
        else
            fake::lose_device(1);
        Status status = Status::ok;
        for (int turn = 0; turn < 2; ++turn) try {
                (void)sequence.append({4});
            } catch (const Failure& failure) {
                status = failure.status();
            }
        CHECK(status == Status::device_lost);
        if (hangs) fake::hang_device(1, false);
    }
    fake::reset({});
}
