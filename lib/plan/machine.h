// What a plan needs to know of a machine: its devices, how pairs of them are linked, and the host. A
// description, not a machine: it may be of one that is elsewhere, built in or read from JSON. Only
// live_machine() looks at the computer it runs on, and even that allocates and measures nothing.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/numa.h"
#include "device/cuda_backend.h"

namespace coterie {

// Decides how weights are laid out, and so how many bytes a shard takes.
enum class DeviceKind { cuda, cpu, reference };
const char* kind_name(DeviceKind kind);

struct MachineDevice {
    std::string name;  // "cuda:0", "cpu:1"
    DeviceKind kind = DeviceKind::cuda;
    uint64_t total_bytes = 0;
    uint64_t free_bytes = 0;  // what Coterie may use, the driver's own share taken off
    double bandwidth = 0;     // bytes per second from its memory
    double matrix_rate = 0;   // floating-point operations per second in matrix products
    double launch_us = 0;     // what an operation costs apart from its work
};

// How two devices reach each other. Latency is that of a small message, seen by the waiting side.
struct MachineLink {
    std::string kind = "none";  // a class, for people: "nvlink", "pcie", "pcie without p2p", "memory"
    double latency_us = 0;
    double bandwidth = 0;  // bytes per second
};

struct MachineHost {
    uint64_t total_bytes = 0, free_bytes = 0;
    double bandwidth = 0, matrix_rate = 0;  // of its processors, for experts left there
    MachineLink link;                       // between a device and the host
};

struct Machine {
    std::string name;
    std::vector<MachineDevice> devices;
    std::vector<MachineLink> links;  // [devices][devices]
    MachineHost host;

    const MachineLink& link(size_t from, size_t to) const { return links[from * devices.size() + to]; }
};

std::vector<std::string> machine_names();
// A built-in name ("4x3090") or the path of a JSON file as docs/placement.md describes it. Throws not_found,
// listing the names there are; invalid_argument for a file with mistakes, naming the key.
Machine find_machine(const std::string& name_or_path);
// `where` names the text in messages.
Machine parse_machine(std::string_view json, const std::string& where);
std::string machine_json(const Machine& machine);

// This computer's processors as `ranks` equal devices of the given kind, sharing cores and memory. With
// nodes, rank r has the memory of node node_of(r, ranks, nodes).
Machine live_machine(int ranks, DeviceKind kind = DeviceKind::cpu, const std::vector<NumaNode>& nodes = {});
// Devices of processes, one each, on one machine or on several.
Machine machine_of_processes(std::vector<MachineDevice> devices, bool one_machine);
// The place of a rank's node in `nodes`: as many ranks on each, as nearly as may be. -1: it is bound to none.
int node_of(int rank, int ranks, const std::vector<NumaNode>& nodes);
// These GPUs of this computer; which: their numbers.
Machine live_cuda_machine(const CudaFacts& facts, const std::vector<int>& which);

}  // namespace coterie
