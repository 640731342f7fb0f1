// The memory nodes of a machine, and threads that stay on one. A rank per node keeps its weights in the
// memory next to the cores that read them. Reads Linux's description of the machine; elsewhere there is one
// node.
#pragma once
#include <sched.h>

#include <cstdint>
#include <string>
#include <vector>

namespace coterie {

struct NumaNode {
    int number = 0;
    std::vector<int> cpus;  // that this process may use
    uint64_t total_bytes = 0, free_bytes = 0;
};

// Nodes with memory and with cores this process may use; empty where nothing is known. root is for tests.
std::vector<NumaNode> numa_nodes(const std::string& root = "/sys/devices/system/node");

// "0-3,8" -> 0 1 2 3 8
std::vector<int> parse_cpu_list(const std::string& list);

// For as long as it lives the calling thread runs on the node's cores and takes new memory from the node (as
// far as there is any left); so do the threads it starts meanwhile, and they go on doing so. Nothing for
// null.
class NodeScope {
  public:
    explicit NodeScope(const NumaNode* node);
    ~NodeScope();
    NodeScope(const NodeScope&) = delete;
    NodeScope& operator=(const NodeScope&) = delete;

  private:
    static constexpr int most_nodes = 1024;
    bool bound_ = false, policy_known_ = false;
    cpu_set_t before_;
    int policy_before_ = 0;
    unsigned long nodes_before_[most_nodes / (8 * sizeof(unsigned long))] = {};
};

}  // namespace coterie
