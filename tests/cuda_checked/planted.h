// Kernels with a planted fault each; compiled for the access checker.
#pragma once
#include <cuda_runtime.h>

#include <vector>

struct PlantedFault {
    const char* name;
    const char* kind;  // of the report that must come
    unsigned blocks, threads;
    void (*kernel)(float* y, float* other, int n, bool faulty);  // y and other hold n floats
};
const std::vector<PlantedFault>& planted_faults();
