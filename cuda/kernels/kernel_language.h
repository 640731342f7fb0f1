// What kernels are written in: one source for two compilers. nvcc makes machine code of it for every
// architecture of the toolkit; a plain C++ compiler makes of it a test that runs on the host
// (tests/cuda_emulator). Only this file has PTX, and only this file knows which architecture has what.
//
// Kernels use launch(), SHARED, DYNAMIC_SHARED and the functions below; no <<<>>>, no asm, no library of
// device code, no global variables. docs/cuda.md says how a kernel is added.
#pragma once
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define COTERIE_EMULATED 0
#define SHARED(T, name, ...) __shared__ T name __VA_ARGS__
#define DYNAMIC_SHARED(T, name)                                              \
    extern __shared__ __align__(128) unsigned char coterie_dynamic_shared[]; \
    T* name = reinterpret_cast<T*>(coterie_dynamic_shared)
#else
#include <emulated_cuda.h>
#define COTERIE_EMULATED 1
// The array is found by the address of a variable of its own, per resident block.
#define SHARED(T, name, ...)           \
    static char name##_tag;            \
    using name##_type = T __VA_ARGS__; \
    name##_type& name =                \
        *static_cast<name##_type*>(::emulator::static_shared(&name##_tag, sizeof(name##_type)))
#define DYNAMIC_SHARED(T, name) T* name = static_cast<T*>(::emulator::dynamic_shared())
#endif

namespace coterie::cuda {

struct Launch {
    dim3 grid, block;
    size_t shared_bytes = 0;
    cudaStream_t stream = nullptr;
    const char* name = "kernel";
};

#if COTERIE_EMULATED
template <typename... Parameters>
struct BoundKernel {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> arguments;
    static void call(void* self) {
        auto* bound = static_cast<BoundKernel*>(self);
        std::apply(bound->kernel, bound->arguments);
    }
};
template <typename... Parameters, typename... Arguments>
cudaError_t launch(const Launch& l, void (*kernel)(Parameters...), Arguments&&... arguments) {
    using Bound = BoundKernel<Parameters...>;
    auto bound = std::make_shared<Bound>(Bound{
        kernel, std::tuple<Parameters...>(static_cast<Parameters>(std::forward<Arguments>(arguments))...)});
    return emulator::enqueue(l.stream, {l.grid, l.block, l.shared_bytes, l.name}, &Bound::call, bound);
}
#else
template <typename... Parameters, typename... Arguments>
cudaError_t launch(const Launch& l, void (*kernel)(Parameters...), Arguments&&... arguments) {
    cudaLaunchConfig_t config{};
    config.gridDim = l.grid;
    config.blockDim = l.block;
    config.dynamicSmemBytes = l.shared_bytes;
    config.stream = l.stream;
    return cudaLaunchKernelEx(&config, kernel,
                              static_cast<Parameters>(std::forward<Arguments>(arguments))...);
}
#endif

// The architecture the code runs on, 700 for sm_70: a constant under nvcc, so that `if (arch() >= 750)` costs
// nothing there, and a test's choice in the emulator.
#if COTERIE_EMULATED
inline int arch() {
    return emulator::options().architecture;
}
#elif defined(__CUDA_ARCH__)
__device__ constexpr int arch() {
    return __CUDA_ARCH__;
}
#else
constexpr int arch() {
    return 0;
}
#endif

// Ends the kernel with an error: what a path does on an architecture that lacks it.
__device__ __forceinline__ void no_such_path() {
#if COTERIE_EMULATED
    emulator::report("architecture", "a path was taken that this architecture lacks", true);
#else
    __trap();
#endif
}

// --- 16-bit floats, as stored
__device__ __forceinline__ float half_value(uint16_t bits) {
#if COTERIE_EMULATED
    return emulator::half_value(bits);
#else
    return __half2float(__ushort_as_half(bits));
#endif
}
__device__ __forceinline__ uint16_t half_bits(float value) {
#if COTERIE_EMULATED
    return emulator::half_bits(value);
#else
    return __half_as_ushort(__float2half_rn(value));
#endif
}
__device__ __forceinline__ float bfloat_value(uint16_t bits) {
    return __int_as_float(int(uint32_t(bits) << 16));
}

// --- warps
__device__ __forceinline__ int lane_index() {
    return int(threadIdx.x) & 31;
}
__device__ __forceinline__ int warp_index() {
    return int(threadIdx.x) >> 5;
}
// Sum over `lanes` neighbouring lanes (a power of two), in all of them.
__device__ __forceinline__ float lanes_sum(float value, int lanes) {
    for (int other = lanes >> 1; other > 0; other >>= 1) value += __shfl_xor_sync(0xffffffffu, value, other);
    return value;
}
__device__ __forceinline__ float lanes_max(float value, int lanes) {
    for (int other = lanes >> 1; other > 0; other >>= 1)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, other));
    return value;
}
__device__ __forceinline__ int lanes_sum(int value, int lanes) {
    for (int other = lanes >> 1; other > 0; other >>= 1) value += __shfl_xor_sync(0xffffffffu, value, other);
    return value;
}
__device__ __forceinline__ float warp_sum(float value) {
    return lanes_sum(value, 32);
}
__device__ __forceinline__ float warp_max(float value) {
    return lanes_max(value, 32);
}

// A load of up to 16 bytes in one piece; the address is a multiple of the size.
template <typename T>
__device__ __forceinline__ T load_whole(const T* at) {
#if COTERIE_EMULATED
    return emulator::read_whole(at);
#else
    return *at;
#endif
}

// A store of up to 16 bytes in one piece.
template <typename T>
__device__ __forceinline__ void store_whole(T* at, const T& value) {
#if COTERIE_EMULATED
    emulator::write_whole(at, value);
#else
    *at = value;
#endif
}

// --- bytes
// c + the sum over four bytes of a times b, signed.
__device__ __forceinline__ int dp4a(int a, int b, int c) {
#if COTERIE_EMULATED
    for (int i = 0; i < 32; i += 8) c += int8_t(a >> i) * int8_t(b >> i);
    return c;
#else
    return __dp4a(a, b, c);
#endif
}
// Byte i of the result is byte (nibble i of selector) of the eight bytes of a, then b. Nibbles below 8 only.
__device__ __forceinline__ uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t selector) {
#if COTERIE_EMULATED
    const uint64_t both = uint64_t(b) << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; ++i) result |= uint32_t(both >> (8 * (selector >> (4 * i) & 7)) & 255) << (8 * i);
    return result;
#else
    return __byte_perm(a, b, selector);
#endif
}

// --- tensor cores. d += a b in the fragment layouts of the PTX manual.
// 16x16 by 16x8, fp16 in, fp32 out. sm_75 and later (two halves there).
__device__ __forceinline__ void mma_f16_16816(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if COTERIE_EMULATED
    if (arch() < 750) no_such_path();
    emulator::mma_f16_16816(d, a, b, emulator::Place::here());
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[2]), "r"(a[3]), "r"(b[1]));
#else
    no_such_path();
#endif
}
// 16x32 by 32x8, int8 in, int32 out. sm_75 and later (four quarters there).
__device__ __forceinline__ void mma_s8_16832(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if COTERIE_EMULATED
    if (arch() < 750) no_such_path();
    emulator::mma_s8_16832(d, a, b, emulator::Place::here());
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
    // m8n8k16: rows 0-7 take a[0] and a[2], rows 8-15 a[1] and a[3].
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a[0]), "r"(b[0]));
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(d[2]), "+r"(d[3])
                 : "r"(a[1]), "r"(b[0]));
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a[2]), "r"(b[1]));
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(d[2]), "+r"(d[3])
                 : "r"(a[3]), "r"(b[1]));
#else
    no_such_path();
#endif
}
// 16x16 by 16x8, int8 in, int32 out. sm_75 and later (two halves there).
__device__ __forceinline__ void mma_s8_16816(int (&d)[4], const uint32_t (&a)[2], uint32_t b) {
#if COTERIE_EMULATED
    if (arch() < 750) no_such_path();
    emulator::mma_s8_16816(d, a, &b, emulator::Place::here());
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a[0]), "r"(b));
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(d[2]), "+r"(d[3])
                 : "r"(a[1]), "r"(b));
#else
    no_such_path();
#endif
}
// Four independent 8x4 by 4x8, one per quad pair, fp16 in, fp32 out. Made for Volta; slow elsewhere.
__device__ __forceinline__ void mma_f16_884(float (&d)[8], const uint32_t (&a)[2], const uint32_t (&b)[2]) {
#if COTERIE_EMULATED
    emulator::mma_f16_884(d, a, b, emulator::Place::here());
#else
    asm volatile(
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11}, "
        "{%0,%1,%2,%3,%4,%5,%6,%7};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
#endif
}

// --- 16 bytes from global to shared memory, landing between here and wait_loads(); plain copies before sm_80
__device__ __forceinline__ void load_async(void* shared, const void* global) {
#if COTERIE_EMULATED
    if (arch() >= 800)
        emulator::copy_async(shared, global, 16);
    else
        *reinterpret_cast<uint4*>(shared) = *reinterpret_cast<const uint4*>(global);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned at = unsigned(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(global) : "memory");
#else
    *reinterpret_cast<uint4*>(shared) = *reinterpret_cast<const uint4*>(global);
#endif
}
__device__ __forceinline__ void commit_loads() {
#if COTERIE_EMULATED
    emulator::commit_async();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Until all but the last `pending` committed groups have landed, for this thread.
template <int pending>
__device__ __forceinline__ void wait_loads() {
#if COTERIE_EMULATED
    emulator::wait_async(pending);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}

// In loops that wait for another block or device.
__device__ __forceinline__ void pause() {
#if COTERIE_EMULATED
    emulator::give_way();
#else
    __nanosleep(64);
#endif
}

}  // namespace coterie::cuda
