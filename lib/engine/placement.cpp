#include "engine/placement.h"

#include "base/failure.h"
#include "device/cpu/cpu_device.h"
#include "device/reference/reference_device.h"

namespace coterie {

std::vector<RankPlace> place(const Model& model, const DeviceRequest& request) {
    const std::string& devices = request.devices;
    std::vector<RankPlace> places;
    std::unique_ptr<Device> device;
    if (devices == "reference") {
        device = std::make_unique<ReferenceDevice>();
    } else if (devices.empty() || devices == "cpu") {
        CpuOptions options;
        options.threads = request.threads;
        if (!request.isa.empty()) options.isa = request.isa;
        device = std::make_unique<CpuDevice>(options);
    }
    if (device) {
        places.push_back(
            {std::move(device), std::make_unique<SoloCommunicator>(), whole_share(model.numbers())});
        return places;
    }
    fail(Status::invalid_argument, "devices '{}' are not known; use cpu or reference", devices);
}

}  // namespace coterie
