// The plug-in on a real GPU, where there is one: `build/bin/test_gpu` holds every device against the
// reference device. Elsewhere it says why it did not.
#include "../device/conformance.h"

#include "catch.h"
#include "device/cuda_backend.h"

using namespace coterie;
using namespace coterie::test;

TEST_CASE("every GPU of this machine conforms", "[gpu]") {
    std::string why;
    CudaBackend* backend = cuda_backend(&why);
    if (!backend) {
        WARN("not tried: " << why);
        return;
    }
    const CudaFacts facts = backend->facts();
    for (const std::string& missing : facts.missing) WARN("not tried: " << missing);
    Bounds bounds;
    bounds.softcap = 1e-6;
    bounds.quantised = 2e-4;
    bounds.outliers = 5e-3;
    for (const CudaDeviceFacts& facts_of_one : facts.devices) {
        CAPTURE(facts_of_one.name);
        if (!facts_of_one.why_not.empty()) {
            WARN("cuda:" << facts_of_one.number << " was not tried: " << facts_of_one.why_not);
            continue;
        }
        CudaRequest request;
        request.device = facts_of_one.number;
        const auto device = backend->open(request);
        conform(*device, bounds);
    }
}
