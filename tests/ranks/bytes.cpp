// What a plan says of bytes is what the executor takes: weights, cache, states and scratch of every rank.
#include "../convert/files.h"
#include "catch.h"
#include "convert/synth.h"
#include "engine/placement.h"
#include "model/golden.h"

using namespace coterie;

namespace {

void check_bytes(const std::shared_ptr<const Model>& model, const std::string& devices, Mode mode,
                 int parallel) {
    DeviceRequest request;
    request.devices = devices;
    request.threads = 1;
    PlanRequest wanted;
    wanted.mode = mode;
    wanted.parallel = parallel;
    wanted.context_tokens = 200;
    const Plan plan = make_plan(*model, machine_for(request), wanted);
    RunnerShape shape;
    shape.step_rows = plan.step_rows;
    shape.step_outputs = plan.step_outputs;
    shape.page_tokens = plan_page_tokens;
    shape.pages = plan.pages;
    shape.state_slots = plan.state_slots;
    shape.context_tokens = plan.context_tokens;
    const Runner runner(model, place(*model, plan, request), shape);
    const std::vector<RankMemory> memory = runner.memory();
    REQUIRE(memory.size() == plan.ranks.size());
    for (size_t r = 0; r < memory.size(); ++r) {
        CAPTURE(model->file().path(), devices, mode_name(mode), r);
        const RankPlan& rank = plan.ranks[r];
        const auto within = [](uint64_t taken, uint64_t planned) {
            return double(taken) == Approx(double(planned)).epsilon(0.01).margin(0.5);
        };
        CHECK(within(memory[r].weights, rank.weights_bytes));
        CHECK(within(memory[r].cache, rank.kv_bytes));
        CHECK(within(memory[r].states, rank.state_bytes));
        CHECK(within(memory[r].scratch, rank.scratch_bytes));
        CHECK(within(memory[r].comm, rank.comm_bytes));
        CHECK(rank.total_bytes() <= rank.capacity_bytes);
    }
}

}  // namespace

TEST_CASE("the executor takes what the plan says") {
    for (const char* name :
         {"llama", "gemma3", "qwen35moe-b", "gpt-oss-a", "llamacpp/tiny-qwen35moe-q4_k_m"}) {
        const auto model = Model::open(golden::load(name).path);
        for (const Mode mode : {Mode::tensor, Mode::expert, Mode::layer}) {
            if (mode == Mode::expert && !model->numbers().has_experts()) continue;
            check_bytes(model, "reference:3", mode, 2);
            check_bytes(model, "cpu:3", mode, 2);
        }
        check_bytes(model, "cpu", Mode::automatic, 1);
    }
}

TEST_CASE("words for devices") {
    const auto machine = [](const char* words) {
        DeviceRequest request;
        request.devices = words;
        return machine_for(request);
    };
    CHECK(machine("").devices.size() == 1);
    CHECK(machine("cpu:4").devices.size() == 4);
    CHECK(machine("reference").devices[0].kind == DeviceKind::reference);
    for (const char* words :
         {"gpu", "cpu:", "cpu:0", "cpu:17", "cpu:-1", "cpu:2x", "cuda:x", "cuda:0,0", ":", "cpu 2"}) {
        CAPTURE(words);
        CHECK_THROWS_AS(machine(words), Failure);
    }
    CHECK(mode_named("layer") == Mode::layer);
    CHECK_THROWS_AS(mode_named("single"), Failure);
}

TEST_CASE("a plan that does not fit is refused with what would") {
    const auto model = Model::open(golden::load("llama").path);
    DeviceRequest request;
    PlanRequest wanted;
    wanted.limits = {1000};
    const Plan plan = make_plan(*model, machine_for(request), wanted);
    CHECK(!plan.fits);
    try {
        place(*model, plan, request);
        CHECK(false);
    } catch (const Failure& failure) {
        CHECK(failure.status() == Status::out_of_memory);
        CHECK(failure.message().find("bytes too many") != std::string::npos);
    }
}
