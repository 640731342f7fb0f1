// The inner products of packed weights, one table of functions per instruction set over one layout. They know
// nothing of threads, experts or steps: products.h does. Each works on whole groups of 16 rows.
//
// Activations are ActivationBlock rows for quantised weights (Container::blocks) and F32 rows for the others.
#pragma once
#include <cstddef>
#include <cstdint>

#include "device/cpu/activation.h"
#include "device/cpu/isa.h"
#include "device/cpu/layout.h"

namespace coterie::cpu {

// y[r][column..column + valid) = group x[r] for r < rows <= Kernels::max_rows.
using Product = void (*)(const PackedShape& shape, const std::byte* group, int rows, const void* const* x,
                         float* const* y, int64_t column, int valid);

struct Kernels {
    Isa isa;
    int max_rows;  // rows of activations a Product takes in one call
    // n (a multiple of 32) values to n / 32 blocks.
    void (*quantise)(const float* x, int64_t n, ActivationBlock* to);
    Product (*product)(Type type);  // for any type PackedShape takes
};

const Kernels& kernels(Isa isa);  // Failure(unsupported) if this machine can't run it
const Kernels& portable_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();

}  // namespace coterie::cpu
