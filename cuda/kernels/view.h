// What kernels and their callers share: views of activations on the device. Plain data; stays plain C++ so
// that host files can include it.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace coterie::cuda {

// Rows of floats, `stride` floats apart.
struct View {
    float* data = nullptr;
    int32_t rows = 0, width = 0;
    int64_t stride = 0;
};

// A grid's dimension: how many times `part` covers `whole`.
constexpr unsigned parts_of(int64_t whole, int64_t part) {
    return unsigned((whole + part - 1) / part);
}

}  // namespace coterie::cuda
