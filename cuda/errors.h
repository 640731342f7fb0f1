// Answers of the CUDA runtime to Failures. An error after which the driver answers nothing else any more (a
// kernel that faulted, a card off the bus) is device_lost; all others leave the device usable.
#pragma once
#include <cuda_runtime.h>

namespace coterie::cuda {

// `doing` completes "the device could not ...".
void check(cudaError_t error, int device, const char* doing);
bool ends_the_context(cudaError_t error);

}  // namespace coterie::cuda
