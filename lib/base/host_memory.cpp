#include "base/host_memory.h"

#include <fstream>
#include <string>

namespace coterie {

uint64_t meminfo(const char* key) {
    std::ifstream file("/proc/meminfo");
    std::string word;
    uint64_t kib = 0;
    while (file >> word)
        if (word == key && file >> kib) return kib * 1024;
    return 0;
}

}  // namespace coterie
