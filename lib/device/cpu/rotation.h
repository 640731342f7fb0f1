// Cosines and sines of a step's positions, computed once for all layers that rotate alike.
#pragma once
#include <vector>

#include "device/cpu/cpu_device.h"

namespace coterie {

struct CpuDevice::Rotation {
    std::vector<int32_t> positions;
    std::vector<float> frequencies;
    float magnitude = 0;
    std::vector<float> cosine, sine;  // [rows][dimensions / 2]
};

}  // namespace coterie
