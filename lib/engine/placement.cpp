#include "engine/placement.h"

#include "base/failure.h"
#include "device/reference/reference_device.h"

namespace coterie {

std::vector<RankPlace> place(const Model& model, const DeviceRequest& request) {
    const std::string& devices = request.devices;
    std::vector<RankPlace> places;
    if (devices.empty() || devices == "cpu" || devices == "reference") {
        places.push_back({std::make_unique<ReferenceDevice>(), std::make_unique<SoloCommunicator>(),
                          whole_share(model.numbers())});
        return places;
    }
    fail(Status::invalid_argument, "devices '{}' are not known; use cpu or reference", devices);
}

}  // namespace coterie
