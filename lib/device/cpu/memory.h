// Host memory of the CPU device: zeroed, 64-byte aligned; 2 MiB and more is aligned to huge pages and asks
// for them, because a first touch of 4 KiB pages is ten times dearer. Pages come into being when they are
// touched.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

namespace coterie::cpu {

class HostMemory {
  public:
    HostMemory() = default;
    // `what` completes "the host has no memory for ...".
    HostMemory(uint64_t bytes, const char* what);
    ~HostMemory();
    HostMemory(HostMemory&& other) noexcept { *this = std::move(other); }
    HostMemory& operator=(HostMemory&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        std::swap(mapping_, other.mapping_);
        std::swap(mapped_bytes_, other.mapped_bytes_);
        return *this;
    }

    std::byte* data() const { return data_; }
    uint64_t bytes() const { return bytes_; }
    void populate() const;  // a hint: all of it will be written now

  private:
    std::byte* data_ = nullptr;
    uint64_t bytes_ = 0;
    void* mapping_ = nullptr;
    uint64_t mapped_bytes_ = 0;
};

}  // namespace coterie::cpu
