// The instruction sets the CPU device has kernels for, and which of them this machine can run.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace coterie::cpu {

enum class Isa { portable, avx2, avx512 };  // avx512: F, BW, DQ, VL, VNNI and VBMI

const char* isa_name(Isa isa);         // "avx512"
bool isa_usable(Isa isa);              // by this machine and this build
std::vector<Isa> usable_isas();        // slowest first
Isa best_isa();                        // the last of them
Isa isa_named(std::string_view name);  // "auto" is the best; Failure for an unknown or unusable one
std::string processor_name();          // "AMD EPYC 9354", from /proc/cpuinfo

}  // namespace coterie::cpu
