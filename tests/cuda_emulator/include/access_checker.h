// What the access checker counted, for tests that assert it. The checker sees every load and store of kernels
// that are compiled with -fsanitize=thread: it is linked in place of that sanitizer's library.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace emulator {

// One load or store of a kernel's code, as warps executed it.
struct Traffic {
    std::string place;  // "file.h:12"
    bool shared = false, write = false;
    uint64_t requests = 0;                  // of a warp
    uint64_t bytes = 0;                     // asked for by lanes
    uint64_t sectors = 0, ideal = 0;        // of 32 bytes, and how few could have held these bytes (global)
    uint64_t passes = 0, ideal_passes = 0;  // over the banks, and how few could have served them (shared)
};

// Forgets what was counted and counts from now on, or stops.
void watch_traffic(bool on);
std::vector<Traffic> traffic();
// Bytes of [memory, memory + bytes) that kernels read since watch_traffic(true); a byte read twice counts
// twice, but once where lanes of a warp read it together, as it is transferred once.
uint64_t bytes_read(const void* memory, uint64_t bytes);
// Sectors of all global requests over the fewest that could have held their bytes.
double sectors_over_ideal();
// The place with the worst ratio, of those with many requests.
struct Worst {
    std::string place;
    double ratio = 0;
};
Worst worst_sectors(), worst_banks();

}  // namespace emulator
