// The CPU device with every instruction set of this machine, through the conformance suite.
#include "catch.h"
#include "conformance.h"
#include "device/cpu/cpu_device.h"

using namespace coterie;
using namespace coterie::test;

TEST_CASE("the CPU device conforms", "[conformance][cpu]") {
    Bounds bounds;
    bounds.softcap = 1e-6;
    bounds.quantised = 2e-4;  // activations are rounded to 8 bits per 32 columns
    bounds.outliers = 5e-3;
    for (const cpu::Isa isa : {cpu::Isa::portable, cpu::Isa::avx2, cpu::Isa::avx512}) {
        if (!cpu::isa_usable(isa)) {
            WARN("this machine has no " << cpu::isa_name(isa) << ": not tried");
            continue;
        }
        CpuOptions options;
        options.isa = cpu::isa_name(isa);
        options.threads = isa == cpu::best_isa() ? 3 : 1;
        CpuDevice device(options);
        INFO(device.description());
        conform(device, bounds);
    }
}
