// Checks a device against tests/data/device/vectors.json: numbers from PyTorch and the transformers package.
#pragma once
#include "device/device.h"

namespace coterie::test {

// bound: largest normalised mean square error of a result.
void check_vectors(Device& device, double bound);

}  // namespace coterie::test
