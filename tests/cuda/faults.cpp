// Calls of the driver that fail, one after the other: each ends in a sentence or in success, never in a
// crash, a hang or a leak.
#include <fake_runtime.h>

#include "../model/golden.h"
#include "catch.h"
#include "cuda/cuda_device.h"

using namespace coterie;

namespace {

std::unique_ptr<Device> emulated() {
    cuda::CudaOptions options;
    options.deadline_s = 4;
    return std::make_unique<cuda::CudaDevice>(options);
}

// What a short conversation ends in.
Status talk(const std::string& path) {
    try {
        const auto runner = golden::make_runner(path, emulated, Type::F16, 64);
        golden::Sequence sequence(*runner);
        (void)sequence.append({1, 2, 3, 4, 5});
        for (int i = 0; i < 4; ++i) (void)sequence.append({6});
        return Status::ok;
    } catch (const Failure& failure) {
        CHECK(failure.message().size() > 20);
        return failure.status();
    }
}

}  // namespace

TEST_CASE("a device that is not there or too old is refused with a sentence", "[faults]") {
    const auto refusal = [](int devices, int major) {
        fake::Machine machine;
        machine.devices = devices;
        machine.major = major;
        fake::reset(machine);
        try {
            cuda::CudaOptions options;
            options.device = 1;
            cuda::CudaDevice device(options);
        } catch (const Failure& failure) {
            CHECK(failure.status() == Status::unsupported);
            return failure.message();
        }
        return std::string();
    };
    CHECK(refusal(0, 8).find("no CUDA device") != std::string::npos);
    CHECK(refusal(1, 8).find("there is no cuda:1") != std::string::npos);
    CHECK(refusal(2, 6).find("compute capability 6.0") != std::string::npos);
    CHECK(refusal(2, 7).empty());
    fake::reset({});
}

TEST_CASE("every call of the driver may fail", "[faults]") {
    const std::string path = golden::load("qwen3moe").path;
    struct Fault {
        const char* call;
        int error;
        Status status;
    };
    for (const Fault& fault : {Fault{"cudaMalloc", cudaErrorMemoryAllocation, Status::out_of_memory},
                               {"cudaHostAlloc", cudaErrorMemoryAllocation, Status::out_of_memory},
                               {"cudaMemcpyAsync", cudaErrorIllegalAddress, Status::device_lost},
                               {"cudaMemsetAsync", cudaErrorInvalidValue, Status::internal},
                               {"cudaEventRecord", cudaErrorLaunchFailure, Status::device_lost},
                               {"cudaEventQuery", cudaErrorECCUncorrectable, Status::device_lost},
                               {"cudaStreamBeginCapture", cudaErrorUnknown, Status::device_lost},
                               {"cudaStreamEndCapture", cudaErrorInvalidValue, Status::internal},
                               {"cudaGraphInstantiate", cudaErrorMemoryAllocation, Status::out_of_memory},
                               {"cudaGraphLaunch", cudaErrorLaunchFailure, Status::device_lost},
                               {"launch", cudaErrorIllegalAddress, Status::device_lost}})
        for (int nth = 1;; nth = nth < 8 ? nth + 1 : nth * 2) {
            CAPTURE(fault.call, nth);
            fake::reset({});
            fake::fail_call(fault.call, -1, nth, fault.error);
            const Status status = talk(path);
            for (const std::string& problem : fake::problems()) FAIL_CHECK(problem);
            CHECK(fake::leaks().none());
            if (status == Status::ok) {
                CHECK(fake::calls(fault.call) < uint64_t(nth));  // there was no nth call
                break;
            }
            CHECK(status == fault.status);
        }
}

TEST_CASE("a GPU that stops answering is lost, and says so within the deadline", "[faults]") {
    const std::string path = golden::load("qwen3moe").path;
    for (const bool hangs : {false, true}) {
        CAPTURE(hangs);
        fake::reset({});
        const auto runner = golden::make_runner(path, emulated, Type::F16, 64);
        golden::Sequence sequence(*runner);
        (void)sequence.append({1, 2, 3});
        if (hangs)
            fake::hang_device(0);
        else
            fake::lose_device(0);
        for (int turn = 0; turn < 2; ++turn) {
            Status status = Status::ok;
            try {
                (void)sequence.append({4});
            } catch (const Failure& failure) {
                status = failure.status();
            }
            CHECK(status == Status::device_lost);
        }
        if (hangs) fake::hang_device(0, false);
    }
    fake::reset({});
}
