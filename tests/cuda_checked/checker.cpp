// Every kind of fault is found in one run, under any order of threads, and sound kernels are not blamed.
#include <access_checker.h>
#include <emulated_cuda.h>
#include <fake_runtime.h>

#include "catch.h"
#include "cuda/kernels/kernel_language.h"
#include "planted.h"

using namespace coterie::cuda;

namespace {

constexpr int n = 300;

std::vector<emulator::Report> reports_of(const PlantedFault& fault, bool faulty, emulator::Order order) {
    fake::Machine machine;
    machine.devices = 2;
    machine.mode = fake::Mode::eager;
    fake::reset(machine);
    emulator::options().order = order;
    emulator::reports().clear();
    float* y = static_cast<float*>(emulator::allocate(0, n * sizeof(float)));
    float* other = static_cast<float*>(emulator::allocate(0, n * sizeof(float)));
    (void)emulator::allocate(1, 2 * n * sizeof(float));
    (void)emulator::allocate(1, 2 * n * sizeof(float));
    std::fill_n(y, n, 0.0f);
    std::fill_n(other, n, 0.0f);
    (void)launch({dim3(fault.blocks), dim3(fault.threads), 0, nullptr, fault.name}, fault.kernel, y, other, n,
                 faulty);
    const std::vector<emulator::Report> found = emulator::reports();
    emulator::reports().clear();
    emulator::options().order = emulator::Order::random;
    return found;
}

}  // namespace

TEST_CASE("every planted fault is found in one run") {
    for (const PlantedFault& fault : planted_faults())
        for (const auto order :
             {emulator::Order::ascending, emulator::Order::descending, emulator::Order::random}) {
            CAPTURE(fault.name, int(order));
            for (const emulator::Report& r : reports_of(fault, false, order))
                FAIL_CHECK(r.kind + ": " + r.text);
            bool found = false;
            const auto reports = reports_of(fault, true, order);
            for (const emulator::Report& r : reports) found |= r.kind == fault.kind;
            CHECK(found);
            // The report says where: the file of the kernel and a line.
            if (found) CHECK(reports[0].text.find("planted.cpp:") != std::string::npos);
        }
}
