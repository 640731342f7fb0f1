// Owners of device memory, pinned host memory, streams and events. Each belongs to one device, whose number
// it keeps for messages and for freeing.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <utility>

#include "cuda/errors.h"

namespace coterie::cuda {

// Makes the device the calling thread's.
inline void use(int device) {
    check(cudaSetDevice(device), device, "be chosen");
}

class DeviceMemory {
  public:
    DeviceMemory() = default;
    // Not cleared. `what` is named when there is none left.
    DeviceMemory(int device, uint64_t bytes, const char* what);
    ~DeviceMemory();
    DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
    DeviceMemory& operator=(DeviceMemory&& other) noexcept {
        std::swap(device_, other.device_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    template <typename T = void>
    T* data() const {
        return static_cast<T*>(data_);
    }
    uint64_t bytes() const { return bytes_; }

  private:
    int device_ = 0;
    void* data_ = nullptr;
    uint64_t bytes_ = 0;
};

// Host memory the device copies from and to without a detour.
class PinnedMemory {
  public:
    PinnedMemory() = default;
    PinnedMemory(int device, uint64_t bytes);
    ~PinnedMemory();
    PinnedMemory(PinnedMemory&& other) noexcept { *this = std::move(other); }
    PinnedMemory& operator=(PinnedMemory&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    template <typename T = std::byte>
    T* data() const {
        return static_cast<T*>(data_);
    }
    uint64_t bytes() const { return bytes_; }

  private:
    void* data_ = nullptr;
    uint64_t bytes_ = 0;
};

class Stream {
  public:
    explicit Stream(int device);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    cudaStream_t get() const { return stream_; }

  private:
    cudaStream_t stream_ = nullptr;
};

class Event {
  public:
    explicit Event(int device);
    ~Event();
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    void record(cudaStream_t stream);
    // Until all that was queued before the last record() is done; device_lost when that takes longer than the
    // deadline.
    void wait(double deadline_s) const;

  private:
    int device_;
    cudaEvent_t event_ = nullptr;
    bool recorded_ = false;
};

}  // namespace coterie::cuda
