// CUDA's language for a plain C++ compiler: kernels run on the host, each thread of a block as a fiber.
// Kernel files reach this through cuda/kernels/kernel_language.h; tests also use what is in `emulator`. It
// emulates what a kernel computes and how its threads meet, not speed, caches or weak memory ordering.
#pragma once
#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __restrict__ __restrict

extern constinit thread_local uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulator {

// Where a collective was called, for reports.
struct Place {
    const char* file;
    unsigned line, column;
    static constexpr Place here(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE(),
                                unsigned column = 0) {
        return {file, line, column};
    }
};
#define EMULATOR_PLACE ::emulator::Place place = ::emulator::Place::here()

enum class Order { ascending, descending, random };
struct Options {
    Order order = Order::random;  // of threads that could run, and of blocks
    uint64_t seed = 1;
    bool poison_shared = true;  // shared memory starts as NaNs
    unsigned resident = 1;      // blocks interleaved at once; 0: all
    unsigned preempt = 0;       // one in this many checked accesses gives way (checker build)
    int architecture = 800;     // what arch() says in kernels
};
Options& options();

// Sums over launches since they were last cleared. Bytes are counted by the access checker's build only.
struct Counts {
    uint64_t launches = 0, blocks = 0, threads = 0, switches = 0, barriers = 0, warp_operations = 0,
             atomics = 0;
    uint64_t global_read = 0, global_written = 0, shared_read = 0, shared_written = 0;  // bytes
};
Counts& counts();

// What was found wrong since last cleared.
struct Report {
    std::string kind, text;
};
std::vector<Report>& reports();
// A fatal report ends the grid, as a sticky error ends a context.
void report(const char* kind, const std::string& text, bool fatal);

struct Grid {
    dim3 grid, block;
    size_t shared_bytes = 0;
    const char* name = "kernel";
};
// False when the grid was ended by a fatal report.
bool run(const Grid& grid, void (*call)(void*), void* arguments);
// Puts a grid into a stream of the fake runtime.
cudaError_t enqueue(cudaStream_t stream, const Grid& grid, void (*call)(void*),
                    std::shared_ptr<void> arguments);

// --- device memory: one reserved range of addresses, a slice per device
void* allocate(int device, size_t bytes);
bool release(void* memory);
bool holds(const void* memory, size_t bytes);  // wholly inside one live allocation
int device_of(const void* memory);             // -1: not device memory
size_t used_bytes(int device);
void reset_device(int device);
int& current_device();  // of the running grid
std::string describe(const void* memory);

// --- how threads meet
using Exchange = void (*)(void** requests, uint32_t mask, uint32_t present);
void meet(uint32_t mask, void* request, Exchange exchange, const char* what, Place place);
void barrier(Place place);
int barrier_vote(int predicate, int kind, Place place);  // 0: count, 1: all, 2: any
void give_way();
int lane();
void* dynamic_shared();
void* static_shared(const void* tag, size_t bytes);
// Told before an atomic access or one in a piece; absent without the access checker.
void note_read(const void* memory, unsigned bytes) __attribute__((weak));
void note_write(void* memory, unsigned bytes) __attribute__((weak));
void copy(void* to, const void* from, unsigned bytes);
void note_atomic(void* memory, unsigned bytes) __attribute__((weak));
void note_fence() __attribute__((weak));

// --- 16-bit floats, tensor cores and asynchronous copies
float half_value(uint16_t bits);
uint16_t half_bits(float value);
void mma_f16_16816(float* d, const uint32_t* a, const uint32_t* b, Place place);
void mma_s8_16832(int* d, const uint32_t* a, const uint32_t* b, Place place);
void mma_s8_16816(int* d, const uint32_t* a, const uint32_t* b, Place place);
void mma_f16_884(float* d, const uint32_t* a, const uint32_t* b, Place place);
void copy_async(void* shared, const void* global, unsigned bytes);
void commit_async();
void wait_async(int pending_groups);

template <typename T>
struct Shuffle {
    T value, result;
    int source;
};
template <typename T>
void shuffle_exchange(void** requests, uint32_t mask, uint32_t present) {
    bool absent = false;
    for (uint32_t m = mask & present; m; m &= m - 1) {
        auto* r = static_cast<Shuffle<T>*>(requests[std::countr_zero(m)]);
        if ((mask & present) >> r->source & 1) {
            r->result = static_cast<Shuffle<T>*>(requests[r->source])->value;
        } else {
            absent = true;
            std::memset(static_cast<void*>(&r->result), 0x7f, sizeof(T));
        }
    }
    if (absent) report("shuffle", "a shuffle reads a lane that is not in the mask or has left", false);
}
template <typename T>
T shuffle(uint32_t mask, T value, int source, Place place) {
    Shuffle<T> r{value, value, source};
    meet(mask, &r, &shuffle_exchange<T>, "shuffle", place);
    return r.result;
}
struct Vote {
    int predicate;
    uint32_t ballot;
};
void vote_exchange(void** requests, uint32_t mask, uint32_t present);
void no_exchange(void** requests, uint32_t mask, uint32_t present);
inline uint32_t ballot(uint32_t mask, int predicate, Place place) {
    Vote r{predicate, 0};
    meet(mask, &r, &vote_exchange, "vote", place);
    return r.ballot;
}

// A load or store that the compiler must not take to pieces where the access checker looks on.
template <typename T>
__forceinline__ T read_whole(const T* at) {
#if defined(__SANITIZE_THREAD__)
    T value;
    if (note_read) note_read(at, sizeof(T));
    copy(&value, at, sizeof(T));
    return value;
#else
    return *at;
#endif
}

template <typename T>
__forceinline__ void write_whole(T* at, const T& value) {
#if defined(__SANITIZE_THREAD__)
    if (note_write) note_write(at, sizeof(T));
    copy(at, &value, sizeof(T));
#else
    *at = value;
#endif
}

template <typename T, typename Change>
#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("thread")))
#endif
T atomic(T* at, Change change) {
    if (note_atomic) note_atomic(at, sizeof(T));
    const T old = *at;
    *at = change(old);
    return old;
}

}  // namespace emulator

inline void __syncthreads(EMULATOR_PLACE) {
    emulator::barrier(place);
}
inline int __syncthreads_count(int predicate, EMULATOR_PLACE) {
    return emulator::barrier_vote(predicate, 0, place);
}
inline int __syncthreads_and(int predicate, EMULATOR_PLACE) {
    return emulator::barrier_vote(predicate, 1, place);
}
inline int __syncthreads_or(int predicate, EMULATOR_PLACE) {
    return emulator::barrier_vote(predicate, 2, place);
}
inline void __syncwarp(uint32_t mask = 0xffffffffu, EMULATOR_PLACE) {
    int nothing = 0;
    emulator::meet(mask, &nothing, &emulator::no_exchange, "syncwarp", place);
}
template <typename T>
T __shfl_sync(uint32_t mask, T value, int source, int width = 32, EMULATOR_PLACE) {
    const int lane = emulator::lane();
    return emulator::shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), place);
}
template <typename T>
T __shfl_xor_sync(uint32_t mask, T value, int bits, int width = 32, EMULATOR_PLACE) {
    const int lane = emulator::lane(), source = lane ^ bits;
    return emulator::shuffle(mask, value, source >= (lane & ~(width - 1)) + width ? lane : source, place);
}
template <typename T>
T __shfl_down_sync(uint32_t mask, T value, unsigned by, int width = 32, EMULATOR_PLACE) {
    const int lane = emulator::lane(), source = lane + int(by);
    return emulator::shuffle(mask, value, (lane & (width - 1)) + int(by) >= width ? lane : source, place);
}
template <typename T>
T __shfl_up_sync(uint32_t mask, T value, unsigned by, int width = 32, EMULATOR_PLACE) {
    const int lane = emulator::lane(), source = lane - int(by);
    return emulator::shuffle(mask, value, (lane & (width - 1)) < int(by) ? lane : source, place);
}
inline uint32_t __ballot_sync(uint32_t mask, int predicate, EMULATOR_PLACE) {
    return emulator::ballot(mask, predicate, place);
}
inline int __any_sync(uint32_t mask, int predicate, EMULATOR_PLACE) {
    return emulator::ballot(mask, predicate, place) != 0;
}
inline int __all_sync(uint32_t mask, int predicate, EMULATOR_PLACE) {
    return emulator::ballot(mask, !predicate, place) == 0;
}
inline int __popc(uint32_t x) {
    return std::popcount(x);
}
inline int __ffs(int x) {
    return __builtin_ffs(x);
}
inline int __clz(int x) {
    return std::countl_zero(uint32_t(x));
}
inline void __threadfence() {
    if (emulator::note_fence) emulator::note_fence();
}
inline float rsqrtf(float x) {
    return 1.0f / std::sqrt(x);
}
inline float __int_as_float(int x) {
    return std::bit_cast<float>(x);
}
inline int __float_as_int(float x) {
    return std::bit_cast<int>(x);
}
inline int min(int a, int b) {
    return a < b ? a : b;
}
inline int max(int a, int b) {
    return a > b ? a : b;
}
template <typename T>
T atomicAdd(T* at, T value) {
    return emulator::atomic(at, [=](T old) { return T(old + value); });
}
template <typename T>
T atomicMax(T* at, T value) {
    return emulator::atomic(at, [=](T old) { return old > value ? old : value; });
}
template <typename T>
T atomicExch(T* at, T value) {
    return emulator::atomic(at, [=](T) { return value; });
}
template <typename T>
T atomicCAS(T* at, T expected, T value) {
    return emulator::atomic(at, [=](T old) { return old == expected ? value : old; });
}
