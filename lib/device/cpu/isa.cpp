#include "device/cpu/isa.h"

#include <fstream>

#include "base/failure.h"

namespace coterie::cpu {

const char* isa_name(Isa isa) {
    switch (isa) {
        case Isa::portable:
            return "portable";
        case Isa::avx2:
            return "avx2";
        case Isa::avx512:
            return "avx512";
    }
    return "unknown";
}

bool isa_usable(Isa isa) {
    if (isa == Isa::portable) return true;
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi2");  // F16C is older than all of these
    if (isa == Isa::avx2) return avx2;
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi");
#else
    return false;
#endif
}

std::vector<Isa> usable_isas() {
    std::vector<Isa> all;
    for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512})
        if (isa_usable(isa)) all.push_back(isa);
    return all;
}

Isa best_isa() {
    return usable_isas().back();
}

Isa isa_named(std::string_view name) {
    if (name.empty() || name == "auto") return best_isa();
    for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
        if (name != isa_name(isa)) continue;
        if (!isa_usable(isa))
            fail(Status::unsupported,
                 "this machine can't run the instruction set '{}'; the best it can is '{}'", name,
                 isa_name(best_isa()));
        return isa;
    }
    fail(Status::invalid_argument, "unknown instruction set '{}': use auto, portable, avx2 or avx512", name);
}

std::string processor_name() {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);)
        if (line.starts_with("model name"))
            if (const size_t colon = line.find(": "); colon != std::string::npos)
                return line.substr(colon + 2);
    return "unknown processor";
}

}  // namespace coterie::cpu
