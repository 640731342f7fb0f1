// From a caller's words ("cpu", "cpu:4", "reference") to devices with their shares of a model.
#pragma once
#include <string>
#include <vector>

#include "execute/runner.h"

namespace coterie {

struct DeviceRequest {
    std::string devices;  // "" = "cpu"
    std::string isa;
    int32_t threads = 0;
};

// Throws invalid_argument for words it does not know, unsupported for a device that is not there: never
// another device.
std::vector<RankPlace> place(const Model& model, const DeviceRequest& request);

}  // namespace coterie
