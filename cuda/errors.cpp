#include "cuda/errors.h"

#include "base/failure.h"

namespace coterie::cuda {

bool ends_the_context(cudaError_t error) {
    switch (int(error)) {
        case cudaErrorDevicesUnavailable:
        case cudaErrorECCUncorrectable:
        case 220:  // NVLink uncorrectable
        case 225:  // ECC, contained
        case cudaErrorIllegalAddress:
        case cudaErrorLaunchTimeout:
        case 710:  // assertion in a kernel
        case 714:  // hardware stack error
        case 715:  // illegal instruction
        case 716:  // misaligned address
        case 717:  // invalid address space
        case 718:  // invalid program counter
        case cudaErrorLaunchFailure:
        case cudaErrorUnknown:
            return true;
        default:
            return false;
    }
}

void check(cudaError_t error, int device, const char* doing) {
    if (error == cudaSuccess) return;
    const char *name = cudaGetErrorName(error), *text = cudaGetErrorString(error);
    (void)cudaGetLastError();  // an error that doesn't stick must not be found by the next call
    if (ends_the_context(error))
        fail(Status::device_lost,
             "cuda:{} failed and cannot be used again by this process: it could not {} ({}: {}); see the "
             "system's log, "
             "and load the model again on the devices that are left",
             device, doing, name, text);
    if (error == cudaErrorMemoryAllocation)
        fail(Status::out_of_memory,
             "cuda:{} has no memory left: it could not {}; ask for less context, or free some", device,
             doing);
    fail(Status::internal, "cuda:{} could not {} ({}: {})", device, doing, name, text);
}

}  // namespace coterie::cuda
