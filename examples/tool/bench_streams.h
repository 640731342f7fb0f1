// Many streams at once: what each waits for its tokens, and what all get together; and what a repeated prompt
// saves.
#pragma once
#include <string>
#include <vector>

#include "coterie/coterie.hpp"

namespace tool {

// The model and the engine to measure.
struct BenchEngine {
    std::string model, devices, isa, key_type, value_type, mode;
    int threads = 0;
    bool host_experts = false;
    uint64_t device_memory = 0;
    coterie_engine_options options() const;  // its texts are this object's
};

// Waits until the engine has its weights as it wants them, so that what follows measures the steady state.
// Returns the seconds it took; gives up when nothing moves.
double settle(const coterie::Engine& engine);

int bench_streams(const BenchEngine& engine, const std::vector<int64_t>& streams, int64_t prompt,
                  int64_t answer, int64_t warm_prefix, int repeat, bool json);

}  // namespace tool
