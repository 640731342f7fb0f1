// The cost model's parts against arithmetic by hand and published figures.
#include "plan/cost.h"

#include "catch.h"

using namespace coterie;

TEST_CASE("whole experts are used unevenly at small batch") {
    CHECK(expert_imbalance(128, 8, 1) == 1.0);
    // With one expert drawn, one rank does everything.
    CHECK(expert_imbalance(128, 1, 4) == Approx(4.0));
    // Two of four experts on two ranks: 2 of 6 pairs share a rank; (2/6 * 2 + 4/6 * 1) / 1.
    CHECK(expert_imbalance(4, 2, 2) == Approx(4.0 / 3.0));
    // Eight of 128, by simulation elsewhere: 1.27, 1.74, 2.53.
    CHECK(expert_imbalance(128, 8, 2) == Approx(1.27).epsilon(0.01));
    CHECK(expert_imbalance(128, 8, 4) == Approx(1.74).epsilon(0.01));
    CHECK(expert_imbalance(128, 8, 8) == Approx(2.53).epsilon(0.01));
    CHECK(expert_imbalance(128, 128, 4) == Approx(1.0));
    // The counted and the approximated end meet.
    CHECK(expert_imbalance(512, 64, 4) == Approx(expert_imbalance(512, 65, 4)).epsilon(0.01));
    CHECK(expert_imbalance(256, 64, 8) == Approx(expert_imbalance(256, 65, 8)).epsilon(0.02));
}

TEST_CASE("a reduction takes the quicker way") {
    const MachineLink link{"x", 10.0, 1e9};
    CHECK(reduction_seconds(1000, 1, link) == 0.0);
    CHECK(reduction_seconds(1000, 4, link) == Approx(10e-6 + 3e-6));
    CHECK(reduction_seconds(1e6, 4, link) == Approx(20e-6 + 1.5e-3));
    CHECK(message_seconds(1e6, link) == Approx(1.01e-3));
}

TEST_CASE("a step is bound by reading, by multiplying, and by launches") {
    const MachineDevice device{"d", DeviceKind::cuda, 0, 0, 100e9, 1e12, 2.0};
    Work work;
    work.weight_bytes = 7'000'000'000;
    work.multiplications = 1'000'000;
    CHECK(work_seconds(work, device) == Approx(0.1));
    work.operations = 1000;
    CHECK(work_seconds(work, device) == Approx(0.102));
    work.expert_bytes = 3'500'000'000;
    CHECK(work_seconds(work, device, 2.0) == Approx(0.152));
    work.multiplications = 1'000'000'000'000;
    CHECK(work_seconds(work, device) == Approx(5.002));
}
