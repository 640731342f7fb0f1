// How much of a weight was read.
#pragma once
#include <access_checker.h>

#include "../device/workbench.h"
#include "cuda/weight.h"

namespace coterie::test {

// Bytes of a weight's planes that a kernel reads, over those there are; of `experts` of them when given.
inline double read_share(const Weight& weight, int64_t experts) {
    const auto& own = dynamic_cast<const cuda::CudaWeight&>(weight);
    uint64_t planes = 0;
    for (int plane = 0; plane < cuda::Packing::planes; ++plane)
        planes += uint64_t(own.packing.row_bytes(plane) * own.out * experts);
    return double(emulator::bytes_read(own.memory.data(), own.memory.bytes())) / double(planes);
}

}  // namespace coterie::test
