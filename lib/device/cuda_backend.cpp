#include "device/cuda_backend.h"

#include "base/failure.h"
#include "device/plug_in.h"

namespace coterie {

namespace {

struct Opened {
    CudaBackend* backend = nullptr;
    std::string why;
};

Opened open() {
    constexpr PlugIn file{"libcoterie_cuda.so", "COTERIE_CUDA_LIBRARY", "coterie_cuda", cuda_interface};
    std::string reasons;
    using Backend = CudaBackend* (*)();
    if (const auto backend = reinterpret_cast<Backend>(open_plug_in(file, reasons))) return {backend(), {}};
    return {
        nullptr,
        fmt::format("the plug-in for NVIDIA GPUs could not be opened ({}); build it with -DCOTERIE_CUDA=on, "
                    "and keep {} beside the library",
                    reasons, file.file)};
}

}  // namespace

CudaBackend* cuda_backend(std::string* why) {
    static const Opened opened = open();
    if (why) *why = opened.why;
    return opened.backend;
}

}  // namespace coterie
