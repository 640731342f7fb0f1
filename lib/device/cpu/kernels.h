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

constexpr int max_streams = 4;

struct Product {
    // y[s][0..16) = groups[s] x[s], for `streams` (1..max_streams) independent groups of one shape: what a
    // single row needs, with several memory streams in flight. `ahead` bytes after each place read are
    // prefetched.
    void (*streams)(const PackedShape& shape, int streams, const std::byte* const* groups,
                    const void* const* x, float* const* y) = nullptr;
    // y[r][column..column + valid) = group x[r] for r < rows <= Kernels::max_rows.
    void (*rows)(const PackedShape& shape, const std::byte* group, int rows, const void* const* x,
                 float* const* y, int64_t column, int valid) = nullptr;
};

struct Kernels {
    Isa isa;
    int max_rows;  // rows of activations a call of Product::rows takes
    // n (a multiple of 32) values to n / 32 blocks.
    void (*quantise)(const float* x, int64_t n, ActivationBlock* to);
    Product (*product)(Type type);
};

const Kernels& kernels(Isa isa);  // Failure(unsupported) if this machine can't run it
const Kernels& portable_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();

}  // namespace coterie::cpu
