// The CUDA device on emulated GPUs through the conformance suite of all devices: every operation, type and
// shape against the reference device.
#include "../device/conformance.h"

#include <fake_runtime.h>

#include "catch.h"
#include "cuda/cuda_device.h"

using namespace coterie;
using namespace coterie::test;

TEST_CASE("the CUDA device conforms", "[conformance][cuda]") {
    fake::Machine machine;
    machine.memory_bytes = size_t(1) << 30;
    fake::reset(machine);
    Bounds bounds;
    bounds.softcap = 1e-6;
    bounds.quantised = 2e-4;  // activations are rounded to 8 bits per 32 columns
    bounds.outliers = 5e-3;
    {
        cuda::CudaDevice device;
        conform(device, bounds);
    }
    for (const std::string& problem : fake::problems()) FAIL_CHECK(problem);
    CHECK(fake::leaks().none());
}
