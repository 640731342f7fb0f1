// Built-in machines and the live one. Rates of built-in machines are the makers' figures, latencies what is
// commonly measured; the cost model's efficiencies (planner.h) say how much of a rate is expected.
#include "plan/machine.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/failure.h"
#include "base/host_memory.h"
#include "base/threads.h"

namespace coterie {
namespace {

constexpr uint64_t MiB = uint64_t(1) << 20, GiB = uint64_t(1) << 30;

const MachineLink nvlink{"nvlink", 3.2, 100e9};
const MachineLink pcie_without_p2p{"pcie without p2p", 15.2, 11e9};
const MachineLink shared_memory{"memory", 2.0, 30e9};
const MachineLink pcie_to_host{"pcie", 10.0, 12e9};

// n equal devices, every pair linked alike.
Machine equal(std::string name, int n, MachineDevice device, const MachineLink& link, MachineHost host) {
    Machine m;
    m.name = std::move(name);
    const std::string stem = device.name;
    for (int i = 0; i < n; ++i) {
        device.name = fmt::format("{}:{}", stem, i);
        m.devices.push_back(device);
    }
    m.links.assign(size_t(n) * size_t(n), link);
    for (int i = 0; i < n; ++i) m.links[size_t(i) * size_t(n + 1)] = MachineLink{};
    m.host = std::move(host);
    return m;
}

const std::vector<Machine>& built_in() {
    static const std::vector<Machine> all = [] {
        const MachineDevice v100{"cuda", DeviceKind::cuda, 32510 * MiB, 32128 * MiB, 900e9, 112e12, 3.0};
        const MachineDevice rtx3090{"cuda", DeviceKind::cuda, 24258 * MiB, 23910 * MiB, 936e9, 71e12, 2.5};
        const MachineDevice rtx4090{"cuda", DeviceKind::cuda, 24210 * MiB, 23850 * MiB, 1008e9, 165e12, 2.0};
        const MachineDevice h200{"cuda", DeviceKind::cuda, 143155 * MiB, 142600 * MiB, 4800e9, 990e12, 2.0};
        const MachineDevice socket{"cpu", DeviceKind::cpu, 256 * GiB, 250 * GiB, 200e9, 4e12, 5.0};
        const MachineHost server{256 * GiB, 240 * GiB, 150e9, 3e12, pcie_to_host};
        const MachineHost desktop{64 * GiB, 58 * GiB, 70e9, 1.5e12, {"pcie", 10.0, 24e9}};
        return std::vector<Machine>{
            equal("4xv100-32g", 4, v100, nvlink, server),
            equal("4x3090", 4, rtx3090, pcie_without_p2p, server),
            equal("2x3090", 2, rtx3090, pcie_without_p2p, desktop),
            equal("1xh200", 1, h200, {}, {512 * GiB, 480 * GiB, 300e9, 6e12, {"pcie", 8.0, 50e9}}),
            equal("1x4090-64g", 1, rtx4090, {}, desktop),
            equal("2-socket-cpu", 2, socket, shared_memory,
                  {512 * GiB, 500 * GiB, 400e9, 8e12, shared_memory}),
        };
    }();
    return all;
}

// A cgroup's memory limit less what it uses; a large number when there is none.
uint64_t cgroup_free() {
    const auto number = [](const char* path) -> uint64_t {
        uint64_t value = 0;
        return std::ifstream(path) >> value ? value : 0;
    };
    const uint64_t limit = number("/sys/fs/cgroup/memory.max");
    if (limit == 0) return ~uint64_t(0);
    // Pages of mapped files count as used but give way.
    uint64_t used = number("/sys/fs/cgroup/memory.current"), files = 0;
    std::ifstream stat("/sys/fs/cgroup/memory.stat");
    std::string word;
    while (stat >> word)
        if (word == "file" && stat >> files) break;
    used -= std::min(used, files);
    return limit - std::min(limit, used);
}

// What this computer's host has, for ranks on it and beside GPUs.
MachineHost live_host() {
    uint64_t total = meminfo("MemTotal:"), free = std::min(meminfo("MemAvailable:"), cgroup_free());
    if (total == 0) total = free = 4 * GiB;  // no /proc: a guess that lets small models run
    // Some stays for everything else on the machine.
    free -= std::min(free, std::min(2 * GiB, total / 16));
    const int cores = usable_cores();
    // Assumed, not measured: what a core of a server draws, and its multiply-adds at 8 bits.
    return {total, free, std::min(10e9 * cores, 100e9), 60e9 * cores, shared_memory};
}

}  // namespace

const char* kind_name(DeviceKind kind) {
    switch (kind) {
        case DeviceKind::cuda:
            return "cuda";
        case DeviceKind::cpu:
            return "cpu";
        case DeviceKind::reference:
            return "reference";
    }
    return "unknown";
}

std::vector<std::string> machine_names() {
    std::vector<std::string> names;
    for (const Machine& m : built_in()) names.push_back(m.name);
    return names;
}

Machine find_machine(const std::string& name_or_path) {
    for (const Machine& m : built_in())
        if (m.name == name_or_path) return m;
    std::ifstream file(name_or_path);
    if (!file)
        fail(Status::not_found, "'{}' is neither a file that can be read nor a machine that is built in ({})",
             name_or_path, fmt::join(machine_names(), ", "));
    std::ostringstream text;
    text << file.rdbuf();
    return parse_machine(text.str(), name_or_path);
}

Machine machine_of_processes(std::vector<MachineDevice> devices, bool one_machine) {
    // Between machines: assumed, as of a 100 Gbit/s network.
    const MachineLink network{"network", 20.0, 10e9};
    Machine m = live_machine(1, DeviceKind::cpu);
    m.name = one_machine ? "processes on this machine" : "processes on several machines";
    m.links.assign(devices.size() * devices.size(), one_machine ? shared_memory : network);
    for (size_t i = 0; i < devices.size(); ++i) {
        devices[i].name = fmt::format("process:{}", i);
        m.links[i * (devices.size() + 1)] = MachineLink{};
    }
    m.devices = std::move(devices);
    return m;
}

int node_of(int rank, int ranks, const std::vector<NumaNode>& nodes) {
    if (nodes.size() < 2 || size_t(ranks) < nodes.size()) return -1;
    return int(size_t(rank) * nodes.size() / size_t(ranks));
}

Machine live_machine(int ranks, DeviceKind kind, const std::vector<NumaNode>& nodes) {
    if (ranks < 1 || ranks > 64)
        fail(Status::invalid_argument, "{} ranks were asked for; 1 to 64 can be had", ranks);
    const MachineHost host = live_host();
    MachineDevice device{kind_name(kind),
                         kind,
                         host.total_bytes / uint64_t(ranks),
                         host.free_bytes / uint64_t(ranks),
                         host.bandwidth / ranks,
                         host.matrix_rate / ranks,
                         5.0};
    Machine m = equal("this machine", ranks, device, shared_memory, host);
    if (ranks == 1) m.devices[0].name = kind_name(kind);
    for (int rank = 0; rank < ranks; ++rank) {
        const int node = node_of(rank, ranks, nodes);
        if (node < 0) break;
        int here = 0;
        for (int other = 0; other < ranks; ++other) here += node_of(other, ranks, nodes) == node ? 1 : 0;
        const NumaNode& n = nodes[size_t(node)];
        MachineDevice& d = m.devices[size_t(rank)];
        d.total_bytes = n.total_bytes / uint64_t(here);
        // Not more than there is in all: a cgroup may allow less than the nodes have.
        d.free_bytes = std::min(d.free_bytes, (n.free_bytes - n.free_bytes / 16) / uint64_t(here));
    }
    return m;
}

Machine live_cuda_machine(const CudaFacts& facts, const std::vector<int>& which) {
    Machine m;
    m.name = "this machine";
    for (const int number : which) {
        const auto found = std::find_if(facts.devices.begin(), facts.devices.end(),
                                        [&](const CudaDeviceFacts& d) { return d.number == number; });
        if (found == facts.devices.end())
            fail(Status::unsupported, "there is no cuda:{}; `coterie devices` lists what this machine has",
                 number);
        if (!found->why_not.empty())
            fail(Status::unsupported, "cuda:{} ({}) cannot be used: {}", number, found->name, found->why_not);
        // What the driver and the libraries take when a context is first used.
        const uint64_t own = std::min(found->free_bytes, 300 * MiB);
        m.devices.push_back({fmt::format("cuda:{}", number), DeviceKind::cuda, found->total_bytes,
                             found->free_bytes - own, found->bandwidth > 0 ? found->bandwidth : 500e9,
                             found->matrix_rate > 0 ? found->matrix_rate : 50e12, 3.0});
    }
    m.links.assign(m.devices.size() * m.devices.size(), pcie_without_p2p);
    for (size_t i = 0; i < m.devices.size(); ++i) m.links[i * (m.devices.size() + 1)] = MachineLink{};
    m.host = live_host();
    m.host.link = pcie_to_host;
    return m;
}

}  // namespace coterie
