// What libcoterie_cuda.so exports: the devices there are, and one of them to work with.
#include <cuda_runtime.h>

#include "base/failure.h"
#include "cuda/cuda_device.h"
#include "cuda/nvml.h"
#include "device/cuda_backend.h"

namespace coterie::cuda {

namespace {

std::string version_text(int version) {
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// FP16 operations with FP32 sums per clock and multiprocessor, as the makers' figures imply.
double operations_per_clock(int major, int minor) {
    const int architecture = major * 10 + minor;
    return architecture >= 100 && architecture < 120 ? 8192
           : architecture == 90                      ? 4096
           : architecture == 80                      ? 2048
           : architecture < 75                       ? 1024
                                                     : 512;
}

CudaDeviceFacts facts_of(int number, int count) {
    CudaDeviceFacts facts;
    facts.number = number;
    cudaDeviceProp properties{};
    cudaError_t error = cudaGetDeviceProperties(&properties, number);
    size_t free = 0, total = 0;
    if (error == cudaSuccess) error = cudaSetDevice(number);
    if (error == cudaSuccess) error = cudaMemGetInfo(&free, &total);
    facts.name = properties.name;
    facts.major = properties.major;
    facts.minor = properties.minor;
    facts.multiprocessors = properties.multiProcessorCount;
    facts.total_bytes = total ? total : properties.totalGlobalMem;
    facts.free_bytes = free;
    facts.pci = pci_text(properties);
    const Nvml& nvml = Nvml::instance();
    facts.links = nvml.links(facts.pci);
    const CardHealth health = nvml.health(facts.pci);
    if (health.celsius) facts.celsius = int(*health.celsius);
    facts.complaint = health.complaint();
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        facts.why_not =
            fmt::format("it does not answer: {} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
        return facts;
    }
    const auto attribute = [&](cudaDeviceAttr which) {
        int value = 0;
        return cudaDeviceGetAttribute(&value, which, number) == cudaSuccess ? double(value) : 0.0;
    };
    // kHz at two transfers a clock, and bits.
    facts.bandwidth =
        attribute(cudaDevAttrMemoryClockRate) * 1e3 * 2 * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
    facts.matrix_rate = attribute(cudaDevAttrClockRate) * 1e3 * facts.multiprocessors *
                        operations_per_clock(facts.major, facts.minor);
    if (properties.major < oldest_major)
        facts.why_not =
            fmt::format("its compute capability is {}.{}, and {}.0 is the oldest that is supported",
                        properties.major, properties.minor, oldest_major);
    for (int peer = 0; peer < count; ++peer) {
        int can = 0;
        if (peer != number && cudaDeviceCanAccessPeer(&can, number, peer) == cudaSuccess && can)
            facts.peers.push_back(peer);
    }
    (void)cudaGetLastError();
    return facts;
}

class Backend final : public CudaBackend {
  public:
    CudaFacts facts() override {
        CudaFacts facts;
        int version = 0, count = 0;
        if (cudaRuntimeGetVersion(&version) == cudaSuccess) facts.runtime = version_text(version);
        if (cudaDriverGetVersion(&version) == cudaSuccess && version > 0)
            facts.driver = version_text(version);
        else
            facts.missing.push_back("there is no NVIDIA driver on this machine");
        const Nvml& nvml = Nvml::instance();
        facts.driver_version = nvml.driver();
        facts.nvml = nvml.version();
        if (!facts.driver.empty() && !nvml.why_not().empty())
            facts.missing.push_back(fmt::format(
                "NVIDIA's management library is not there, so that temperatures and links are not "
                "known: {}",
                nvml.why_not()));
        const cudaError_t error = cudaGetDeviceCount(&count);
        if (error != cudaSuccess) {
            (void)cudaGetLastError();
            if (!facts.driver.empty())
                facts.missing.push_back(fmt::format("the driver shows no device: {} ({})",
                                                    cudaGetErrorString(error), cudaGetErrorName(error)));
            return facts;
        }
        int chosen = 0;
        (void)cudaGetDevice(&chosen);
        for (int number = 0; number < count; ++number) facts.devices.push_back(facts_of(number, count));
        (void)cudaSetDevice(chosen);
        return facts;
    }
    std::unique_ptr<Device> open(const CudaRequest& request) override {
        CudaOptions options;
        options.device = request.device;
        options.graphs = request.graphs;
        options.deadline_s = request.deadline_s;
        return std::make_unique<CudaDevice>(options);
    }
};

}  // namespace

}  // namespace coterie::cuda

extern "C" {
__attribute__((visibility("default"))) const char* coterie_cuda_interface() {
    return coterie::cuda_interface;
}
__attribute__((visibility("default"))) coterie::CudaBackend* coterie_cuda_backend() {
    static coterie::cuda::Backend backend;
    return &backend;
}
}
