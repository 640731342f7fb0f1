#include "device/cpu/memory.h"

#include <sys/mman.h>

#include "base/failure.h"

namespace coterie::cpu {

constexpr uint64_t huge_page = uint64_t(2) << 20;

HostMemory::HostMemory(uint64_t bytes, const char* what) : bytes_(bytes) {
    if (bytes == 0) return;
    const bool huge = bytes >= huge_page;
    const uint64_t limit = uint64_t(1) << 47;
    mapped_bytes_ = bytes < limit ? (bytes + 4095) / 4096 * 4096 + (huge ? huge_page : 0) : 0;
    mapping_ = mapped_bytes_ ? mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                             : MAP_FAILED;
    if (mapping_ == MAP_FAILED) {
        mapping_ = nullptr;
        fail(Status::out_of_memory, "the host has no memory for {} ({} bytes)", what, bytes);
    }
    const auto address = reinterpret_cast<uintptr_t>(mapping_);
    data_ = reinterpret_cast<std::byte*>(huge ? (address + huge_page - 1) / huge_page * huge_page : address);
    if (huge) madvise(data_, bytes, MADV_HUGEPAGE);
}

HostMemory::~HostMemory() {
    if (mapping_) munmap(mapping_, mapped_bytes_);
}

void HostMemory::populate() const {
#if defined(MADV_POPULATE_WRITE)
    if (data_) madvise(data_, bytes_, MADV_POPULATE_WRITE);
#endif
}

}  // namespace coterie::cpu
