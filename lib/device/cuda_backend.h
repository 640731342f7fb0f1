// The door to the plug-in for NVIDIA GPUs (libcoterie_cuda.so), which is opened at run time: one library runs
// with or without an NVIDIA driver, and says plainly what is missing.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"

namespace coterie {

struct CudaDeviceFacts {
    int number = 0;            // as in "cuda:0"
    std::string name;          // the card's
    int major = 0, minor = 0;  // compute capability
    uint64_t total_bytes = 0, free_bytes = 0;
    int multiprocessors = 0;
    double bandwidth = 0,
           matrix_rate = 0;  // by its clocks and widths: bytes and FP16 operations per second; 0: unknown
    std::string pci;         // "0000:65:00.0"
    std::vector<int> peers;  // numbers of the devices whose memory it can reach
    std::string links;       // "PCIe 3.0 x16, 6 NVLinks"; empty: not known
    int celsius = -1;        // -1: not known
    std::string complaint;   // what slows it now, or makes its results doubtful
    std::string why_not;     // empty: it can be used
};

struct CudaFacts {
    std::vector<CudaDeviceFacts> devices;
    std::string driver, runtime;       // versions of CUDA, "13.0"
    std::string driver_version, nvml;  // "570.86.15"; empty: not known
    std::vector<std::string> missing;  // sentences: what could be there and is not
};

struct CudaRequest {
    int device = 0;
    bool graphs = true;       // record and replay steps
    double deadline_s = 120;  // how long a wait may take before the device counts as lost
};

class CudaBackend {
  public:
    virtual ~CudaBackend() = default;
    virtual CudaFacts facts() = 0;  // looks each time; changes nothing
    virtual std::unique_ptr<Device> open(const CudaRequest& request) = 0;
};

// What a plug-in must answer to belong to this library; changes with every change of the seam.
constexpr char cuda_interface[] = "coterie cuda 3";

// The plug-in: $COTERIE_CUDA_LIBRARY, or libcoterie_cuda.so beside the library or program that this code is
// in, or where the loader finds it. Opened once and kept. Null, and why, when there is none that can be used.
CudaBackend* cuda_backend(std::string* why);

}  // namespace coterie
