// A CPU rank for each memory node, on a machine that is made up: its nodes are this machine's cores.
#include "catch.h"
#include "engine/placement.h"
#include "model/golden.h"
#include "ranks.h"

using namespace coterie;

namespace {

// Two nodes with as many cores as there are, which may be one.
std::vector<NumaNode> two_nodes() {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    std::vector<int> cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    return {{0, {cpus.front()}, uint64_t(8) << 30, uint64_t(4) << 30},
            {1, {cpus.back()}, uint64_t(8) << 30, uint64_t(2) << 30}};
}

}  // namespace

TEST_CASE("ranks and their nodes") {
    DeviceRequest request;
    request.nodes = two_nodes();
    Machine m = machine_for(request);
    REQUIRE(m.devices.size() == 2);
    CHECK(m.devices[0].total_bytes == uint64_t(8) << 30);
    CHECK(m.devices[1].free_bytes <= uint64_t(2) << 30);
    request.devices = "cpu:4";
    m = machine_for(request);
    REQUIRE(m.devices.size() == 4);
    CHECK(m.devices[3].total_bytes == uint64_t(4) << 30);
    const std::vector<NumaNode>& nodes = *request.nodes;
    CHECK(node_of(0, 4, nodes) == 0);
    CHECK(node_of(1, 4, nodes) == 0);
    CHECK(node_of(2, 4, nodes) == 1);
    CHECK(node_of(1, 3, nodes) == 0);
    CHECK(node_of(2, 3, nodes) == 1);
    CHECK(node_of(0, 1, nodes) == -1);
    CHECK(node_of(0, 4, {}) == -1);
    request.devices = "cpu:1";
    CHECK(machine_for(request).devices.size() == 1);
    request.nodes->pop_back();
    request.devices = "cpu";
    CHECK(machine_for(request).devices.size() == 1);
    request.devices = "reference";
    request.nodes = two_nodes();
    CHECK(machine_for(request).devices.size() == 1);
}

TEST_CASE("a model on two nodes answers as on one") {
    const golden::Case c = golden::load("qwen35moe-a");
    const auto model = Model::open(c.path);
    DeviceRequest request;
    request.nodes = two_nodes();
    request.threads = 2;
    std::vector<RankPlace> places = place(*model, request);
    REQUIRE(places.size() == 2);
    for (size_t r = 0; r < 2; ++r) {
        REQUIRE(places[r].node);
        CHECK(places[r].node->number == int(r));
    }
    RunnerShape shape;
    shape.step_rows = shape.step_outputs = 64;
    shape.page_tokens = 32;
    shape.pages = 2;
    shape.state_slots = 1;
    shape.key_type = shape.value_type = Type::F32;
    shape.context_tokens = 64;
    Runner runner(model, std::move(places), shape);
    const ranks::Answer a = ranks::answer(runner, c.prompt, 12);
    CHECK(std::equal(a.tokens.begin(), a.tokens.end(), c.greedy.begin()));
}
