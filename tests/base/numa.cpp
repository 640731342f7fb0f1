// Memory nodes: what is read of a machine's description, and threads that stay on a node.
#include "base/numa.h"

#include <filesystem>
#include <fstream>
#include <thread>

#include "catch.h"

using namespace coterie;

namespace {

int count_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    return CPU_COUNT(&set);
}

int first_cpu() {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    int cpu = 0;
    while (cpu < CPU_SETSIZE && !CPU_ISSET(cpu, &set)) ++cpu;
    return cpu;
}

// Two nodes with memory, one with cores elsewhere, one without memory.
std::string fake_machine() {
    const auto root = std::filesystem::temp_directory_path() / ("coterie-nodes-" + std::to_string(getpid()));
    const int cpu = first_cpu();
    std::filesystem::create_directories(root);
    std::ofstream(root / "online") << "0-3\n";
    for (int node = 0; node < 4; ++node) {
        const auto folder = root / ("node" + std::to_string(node));
        std::filesystem::create_directories(folder);
        std::ofstream(folder / "cpulist") << (node == 2 ? "1022-1023" : std::to_string(cpu)) << "\n";
        if (node == 3) continue;
        std::ofstream(folder / "meminfo")
            << "Node " << node << " MemTotal:       1000 kB\nNode " << node
            << " MemFree:        100 kB\nNode " << node << " FilePages:      " << 50 * (node + 1) << " kB\n";
    }
    return root.string();
}

}  // namespace

TEST_CASE("lists of cores") {
    CHECK(parse_cpu_list("").empty());
    CHECK(parse_cpu_list("7") == std::vector<int>{7});
    CHECK(parse_cpu_list("0-2,5,8-9") == std::vector<int>{0, 1, 2, 5, 8, 9});
    CHECK(parse_cpu_list("x").empty());
    CHECK(parse_cpu_list("3-1").empty());
}

TEST_CASE("nodes with memory and with cores this process may use") {
    const std::string root = fake_machine();
    const std::vector<NumaNode> nodes = numa_nodes(root);
    REQUIRE(nodes.size() == 2);
    CHECK(nodes[0].number == 0);
    CHECK(nodes[1].number == 1);
    CHECK(nodes[0].cpus == std::vector<int>{first_cpu()});
    CHECK(nodes[0].total_bytes == 1000 * 1024);
    CHECK(nodes[0].free_bytes == 150 * 1024);
    CHECK(nodes[1].free_bytes == 200 * 1024);
    std::filesystem::remove_all(root);
    CHECK(numa_nodes(root).empty());
}

TEST_CASE("a thread stays on a node for a while, and those it starts there for good") {
    const int before = count_cpus();
    NumaNode node;
    node.cpus = {first_cpu()};
    int started_there = 0;
    {
        const NodeScope scope(&node);
        CHECK(count_cpus() == 1);
        std::thread([&] { started_there = count_cpus(); }).join();
    }
    CHECK(started_there == 1);
    CHECK(count_cpus() == before);
    {
        const NodeScope nowhere(nullptr);
        CHECK(count_cpus() == before);
    }
    node.cpus = {1023};  // not there
    const NodeScope refused(&node);
    CHECK(count_cpus() == before);
}
