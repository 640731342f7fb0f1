#include "cuda/memory.h"

#include <chrono>
#include <thread>

#include "base/failure.h"

namespace coterie::cuda {

DeviceMemory::DeviceMemory(int device, uint64_t bytes, const char* what) : device_(device) {
    if (bytes == 0) return;
    use(device);
    const cudaError_t error = cudaMalloc(&data_, bytes);
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        size_t free = 0, total = 0;
        (void)cudaMemGetInfo(&free, &total);
        fail(Status::out_of_memory, "cuda:{} has no memory for {}: {} bytes are needed and {} of {} are free",
             device, what, bytes, free, total);
    }
    check(error, device, "allocate memory");
    bytes_ = bytes;
}
DeviceMemory::~DeviceMemory() {
    if (!data_) return;
    (void)cudaSetDevice(device_);
    (void)cudaFree(data_);
}

PinnedMemory::PinnedMemory(int device, uint64_t bytes) {
    use(device);
    const cudaError_t error = cudaHostAlloc(&data_, bytes, cudaHostAllocDefault);
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        fail(Status::out_of_memory,
             "the host has no {} bytes of memory that cuda:{} may copy from; free some, or raise the limit "
             "of locked "
             "memory (ulimit -l)",
             bytes, device);
    }
    check(error, device, "allocate pinned memory");
    bytes_ = bytes;
}
PinnedMemory::~PinnedMemory() {
    if (data_) (void)cudaFreeHost(data_);
}

Stream::Stream(int device) {
    use(device);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), device, "make a stream");
}
Stream::~Stream() {
    if (stream_) (void)cudaStreamDestroy(stream_);
}

Event::Event(int device) : device_(device) {
    use(device);
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), device, "make an event");
}
Event::~Event() {
    if (event_) (void)cudaEventDestroy(event_);
}
void Event::record(cudaStream_t stream) {
    check(cudaEventRecord(event_, stream), device_, "record an event");
    recorded_ = true;
}

// A step takes milliseconds: the first turns spin, then the thread sleeps between questions.
void Event::wait(double deadline_s) const {
    using Clock = std::chrono::steady_clock;
    if (!recorded_) return;
    const auto begin = Clock::now();
    for (int64_t turn = 0;; ++turn) {
        const cudaError_t error = cudaEventQuery(event_);
        if (error == cudaSuccess) return;
        if (error != cudaErrorNotReady) check(error, device_, "finish its work");
        (void)cudaGetLastError();  // "not ready" is kept as an error by some drivers
        const double waited_s = std::chrono::duration<double>(Clock::now() - begin).count();
        if (waited_s > deadline_s)
            fail(
                Status::device_lost,
                "cuda:{} did not finish its work within {:.0f} s; it hangs, or another program keeps it busy",
                device_, deadline_s);
        if (waited_s > 0.02)
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        else if (turn > 64)
            std::this_thread::yield();
    }
}

}  // namespace coterie::cuda
