// What the system says of the host's memory.
#pragma once
#include <cstdint>

namespace coterie {

// A line of /proc/meminfo ("MemAvailable:") in bytes; 0 if it can't be read.
uint64_t meminfo(const char* key);

}  // namespace coterie
