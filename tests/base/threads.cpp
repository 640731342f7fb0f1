#include "base/threads.h"

#include <stdexcept>

#include "base/failure.h"
#include "catch.h"

using namespace coterie;

TEST_CASE("every member runs once and the barrier holds") {
    for (int n : {1, 2, 3, 5}) {
        ThreadTeam team(n);
        REQUIRE(team.size() == n);
        std::vector<int> first(size_t(n), 0), sums(size_t(n), 0);
        for (int round = 1; round <= 200; ++round) {
            team.run([&](int member) {
                first[size_t(member)] = round;
                team.barrier();
                int sum = 0;
                for (int value : first) sum += value;
                sums[size_t(member)] = sum;
            });
            for (int sum : sums) REQUIRE(sum == n * round);
        }
    }
}

TEST_CASE("an exception in a member reaches the caller and the team lives on") {
    ThreadTeam team(3);
    CHECK_THROWS_AS(team.run([](int member) {
        if (member == 2) fail(Status::internal, "planted");
    }),
                    Failure);
    int ran[3] = {};
    team.run([&](int member) { ran[member] = 1; });
    CHECK(ran[0] + ran[1] + ran[2] == 3);
}

TEST_CASE("parts cover the whole without overlap") {
    for (int64_t total : {0, 1, 7, 64, 1000})
        for (int n : {1, 2, 3, 7})
            for (int64_t grain : {1, 4, 16}) {
                int64_t at = 0;
                for (int i = 0; i < n; ++i) {
                    const Range r = part_of(total, i, n, grain);
                    REQUIRE(r.begin == at);
                    at = r.end;
                }
                REQUIRE(at == total);
            }
}
