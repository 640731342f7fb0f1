#include "engine/placement.h"

#include "base/failure.h"
#include "device/cpu/cpu_device.h"
#include "device/reference/reference_device.h"

namespace coterie {

// Up to this size a model's activations keep 16 bits on the CPU: small models feel the rounding to 8 and are
// fast anyway (docs/decisions/0004-fine-activations.md).
constexpr uint64_t fine_weight_bytes = uint64_t(512) << 20;

std::vector<RankPlace> place(const Model& model, const DeviceRequest& request) {
    const std::string& devices = request.devices;
    std::vector<RankPlace> places;
    std::unique_ptr<Device> device;
    if (devices == "reference") {
        device = std::make_unique<ReferenceDevice>();
    } else if (devices.empty() || devices == "cpu") {
        CpuOptions options;
        options.threads = request.threads;
        options.fine = model.weight_bytes() <= fine_weight_bytes;
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
