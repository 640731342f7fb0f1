#include "base/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

namespace coterie {
namespace {

std::string first_line(const std::string& path) {
    std::string line;
    std::ifstream file(path);
    std::getline(file, line);
    return line;
}

// "Node 0 MemFree:  123 kB" in bytes.
uint64_t node_memory(const std::string& path, const std::string& key) {
    std::ifstream file(path);
    std::string node, number, word;
    uint64_t kib = 0;
    while (file >> node >> number >> word >> kib) {
        if (word == key) return kib * 1024;
        file.ignore(1 << 16, '\n');
    }
    return 0;
}

}  // namespace

std::vector<int> parse_cpu_list(const std::string& list) {
    std::vector<int> cpus;
    const char *at = list.data(), *end = at + list.size();
    while (at < end) {
        int first = 0;
        auto [next, error] = std::from_chars(at, end, first);
        if (error != std::errc{}) break;
        int last = first;
        if (next < end && *next == '-') next = std::from_chars(next + 1, end, last).ptr;
        for (int cpu = first; cpu <= last && cpu - first < CPU_SETSIZE; ++cpu) cpus.push_back(cpu);
        at = next < end && *next == ',' ? next + 1 : end;
    }
    return cpus;
}

std::vector<NumaNode> numa_nodes(const std::string& root) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
    std::vector<NumaNode> nodes;
    for (const int number : parse_cpu_list(first_line(root + "/online"))) {
        const std::string folder = root + "/node" + std::to_string(number);
        NumaNode node;
        node.number = number;
        for (const int cpu : parse_cpu_list(first_line(folder + "/cpulist")))
            if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed)) node.cpus.push_back(cpu);
        node.total_bytes = node_memory(folder + "/meminfo", "MemTotal:");
        // Pages of files give way to a program's own.
        node.free_bytes =
            node_memory(folder + "/meminfo", "MemFree:") + node_memory(folder + "/meminfo", "FilePages:");
        node.free_bytes = std::min(node.free_bytes, node.total_bytes);
        if (!node.cpus.empty() && node.total_bytes > 0) nodes.push_back(std::move(node));
    }
    return nodes;
}

NodeScope::NodeScope(const NumaNode* node) {
    if (!node || node->cpus.empty()) return;
    CPU_ZERO(&before_);
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int cpu : node->cpus) CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) return;
    bound_ = true;
    // Where a policy can't be set, in containers that forbid it, memory still comes from where the thread
    // runs.
    constexpr size_t bits = 8 * sizeof(unsigned long);
    unsigned long mask[most_nodes / bits] = {};
    if (node->number < 0 || node->number >= most_nodes) return;
    mask[size_t(node->number) / bits] |= 1ul << (size_t(node->number) % bits);
    policy_known_ = syscall(SYS_get_mempolicy, &policy_before_, nodes_before_, most_nodes, nullptr, 0) == 0;
    if (policy_known_) syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask, most_nodes);
}

NodeScope::~NodeScope() {
    if (!bound_) return;
    sched_setaffinity(0, sizeof before_, &before_);
    if (!policy_known_) return;
    const bool no_nodes = policy_before_ == MPOL_DEFAULT || policy_before_ == MPOL_LOCAL;
    syscall(SYS_set_mempolicy, policy_before_, no_nodes ? nullptr : nodes_before_, no_nodes ? 0 : most_nodes);
}

}  // namespace coterie
