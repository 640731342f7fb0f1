// Makes a mixture of experts out of a dense model, exactly: every expert is a copy of the dense FFN, so that
// whatever the router chooses, weights that sum to one give the dense model's output. A real, small,
// known-good model for testing experts, their placement and every way of splitting them. Bytes are copied,
// nothing is quantised again; streams.
#pragma once
#include <cstdint>
#include <string>

#include "base/progress.h"

namespace coterie::convert {

struct UpcycleOptions {
    int experts = 8;
    int used = 2;
    uint64_t seed = 1;  // of the router's random weights
};

// llama stays llama (its mixture-of-experts form, Mixtral), qwen3 becomes qwen3moe. qwen2 becomes qwen2moe
// with a shared expert of zeros; that architecture does not make the weights of chosen experts sum to one, so
// it is exact, and allowed, only with used == experts. Throws unsupported for other architectures and for
// models that have experts.
void upcycle(const std::string& dense_path, const std::string& out_path, const UpcycleOptions& options = {},
             const ProgressCallback& progress = {});

}  // namespace coterie::convert
