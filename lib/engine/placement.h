// From a caller's words ("cpu", "cpu:4", "reference") to the machine they name, and from a plan for it to
// devices with their shares of a model.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "execute/runner.h"
#include "plan/planner.h"

namespace coterie {

struct DeviceRequest {
    std::string devices;  // "" = "cpu": a rank for each memory node; "cpu:4": four; "reference",
                          // "reference:4"; "cuda": every GPU; "cuda:0,2": these
    std::string isa;
    int32_t threads = 0;  // of all CPU ranks together; 0: all usable cores
    Mode mode = Mode::automatic;
    std::optional<std::vector<NumaNode>> nodes = {};  // of memory; absent: this machine's
};

// Throws invalid_argument for words it does not know, unsupported for a device that is not there: never
// another device.
Machine machine_for(const DeviceRequest& request);
// Devices for the plan's ranks. Throws out_of_memory, with what would fit, for a plan that does not.
std::vector<RankPlace> place(const Model& model, const Plan& plan, const DeviceRequest& request);
// The CPU device as engines use it; threads: of this rank.
std::unique_ptr<Device> make_cpu_device(const Model& model, const std::string& isa, int threads,
                                        bool pin = false);
// With a plan of its own, for a short context.
std::vector<RankPlace> place(const Model& model, const DeviceRequest& request);

// "auto", "tensor", "expert", "layer"; throws invalid_argument for others.
Mode mode_named(const std::string& name);

}  // namespace coterie
