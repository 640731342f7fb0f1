// The cost model: how long a step takes on a rank, what a meeting of ranks costs, and how unevenly whole
// experts are used. docs/placement.md has the formulas and worked examples. Predictions are for comparing
// placements; they are not measurements.
#pragma once
#include <cstdint>

#include "plan/dry_device.h"
#include "plan/machine.h"

namespace coterie {

// What is expected of the rates in a machine description: assumptions of the model, the same for every
// device.
constexpr double memory_efficiency = 0.70, matrix_efficiency = 0.40;

// Seconds of a rank's own work: the longer of reading and multiplying, and the launches. expert_factor is by
// how much the rank that decides the pace reads more experts than the average one.
double work_seconds(const Work& work, const MachineDevice& device, double expert_factor = 1.0);

// Seconds of an all-reduce of `bytes` among `ranks`: in one shot, everybody sending everything to everybody,
// or in two, each adding up its part; whichever is quicker.
double reduction_seconds(double bytes, int ranks, const MachineLink& link);
// Seconds of one message.
double message_seconds(double bytes, const MachineLink& link);

// Layer mode: into how many parts a step of so many rows is best split, so that ranks work side by side. With
// R ranks, m parts take (R + m - 1) (1 + row_cost rows / m) of what no rows would take on one rank; least at
// m = sqrt((R - 1) row_cost rows). row_cost: time of one more row over the time of a step without any.
int micro_batches(int64_t rows, int ranks, double row_cost);
constexpr int most_micro_batches(int ranks) {
    return 4 * ranks;
}

// With whole experts dealt out to ranks evenly: how many of `chosen` different experts, drawn at random from
// `experts`, the fullest rank holds on average, relative to an even share. 1 for one rank.
double expert_imbalance(int experts, int chosen, int ranks);

}  // namespace coterie
