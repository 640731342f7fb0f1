// Device memory of the emulated devices: one reserved range of addresses, a slice per device, then the shared
// memory of resident blocks. Addresses are never handed out twice, so a use after free is always seen.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "fibers.h"

#if defined(__SANITIZE_ADDRESS__)
#define EMULATOR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATOR_ASAN 1
#endif
#endif
#if defined(EMULATOR_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace emulator {

namespace {

struct Heap {
    size_t top = 4096, used = 0;
    std::map<uintptr_t, size_t> live;
};
Heap heaps[most_devices];

const std::pair<const uintptr_t, size_t>* allocation_at(const void* memory) {
    const int device = device_of(memory);
    if (device < 0) return nullptr;
    const auto& live = heaps[device].live;
    auto next = live.upper_bound(reinterpret_cast<uintptr_t>(memory));
    if (next == live.begin()) return nullptr;
    return &*--next;
}

}  // namespace

char* arena() {
    static char* const address = [] {
        void* memory = mmap(reinterpret_cast<void*>(arena_address), arena_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (memory == MAP_FAILED) {
            std::perror("the emulator cannot reserve its addresses");
            std::abort();
        }
        return static_cast<char*>(memory);
    }();
    return address;
}

void copy(void* to, const void* from, unsigned bytes) {
    std::memcpy(to, from, bytes);
}

int& current_device() {
    static int device = 0;
    return device;
}

void* allocate(int device, size_t bytes) {
    Heap& heap = heaps[device];
    constexpr size_t gap = 512;
    const size_t rounded = (bytes + 255) & ~size_t(255);
    if (heap.top + rounded + gap > device_slice) return nullptr;
    char* memory = arena() + size_t(device) * device_slice + heap.top;
    heap.top += rounded + gap;
    heap.live[reinterpret_cast<uintptr_t>(memory)] = bytes;
    heap.used += bytes;
#if defined(EMULATOR_ASAN)
    __asan_poison_memory_region(memory - gap / 2, rounded + gap);
    __asan_unpoison_memory_region(memory, bytes);  // after a reset: of allocations before it
#endif
    std::memset(memory, 0xcd, bytes);
    return memory;
}

bool release(void* memory) {
    const int device = device_of(memory);
    if (device < 0) return false;
    Heap& heap = heaps[device];
    const auto found = heap.live.find(reinterpret_cast<uintptr_t>(memory));
    if (found == heap.live.end()) return false;
    heap.used -= found->second;
#if defined(EMULATOR_ASAN)
    __asan_poison_memory_region(memory, found->second);
#endif
    // Give whole pages back; what shares a page with a neighbour stays.
    const uintptr_t first = (found->first + 4095) & ~uintptr_t(4095),
                    end = (found->first + found->second) & ~uintptr_t(4095);
    if (end > first) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
    heap.live.erase(found);
    return true;
}

int device_of(const void* memory) {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(memory) - arena_address;
    return offset < shared_offset ? int(offset / device_slice) : -1;
}

bool range_of(const void* memory, uintptr_t& begin, uintptr_t& end) {
    const auto* allocation = allocation_at(memory);
    if (!allocation) return false;
    begin = allocation->first;
    end = begin + allocation->second;
    return reinterpret_cast<uintptr_t>(memory) < end;
}

bool holds(const void* memory, size_t bytes) {
    uintptr_t begin, end;
    return range_of(memory, begin, end) && reinterpret_cast<uintptr_t>(memory) + bytes <= end;
}

size_t used_bytes(int device) {
    return heaps[device].used;
}

void reset_device(int device) {
    Heap& heap = heaps[device];
    while (!heap.live.empty()) release(reinterpret_cast<void*>(heap.live.begin()->first));
    heap.top = 4096;
}

std::string describe(const void* memory) {
    const auto* allocation = allocation_at(memory);
    if (device_of(memory) < 0) return "not device memory";
    if (!allocation) return "before the first allocation";
    return std::to_string(reinterpret_cast<uintptr_t>(memory) - allocation->first - allocation->second) +
           " bytes past the end of an allocation of " + std::to_string(allocation->second) +
           " bytes on device " + std::to_string(device_of(memory));
}

}  // namespace emulator
