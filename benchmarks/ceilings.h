// What the machine can do at most, measured: the ceilings that operations are compared with. They drift with
// a virtual machine's neighbours, so they are measured again beside every benchmark.
#pragma once
#include <cstdint>

#include "base/threads.h"
#include "device/cpu/isa.h"

namespace coterie {

// Bytes per second that the team reads from memory: the best of one and four streams per thread.
double read_bandwidth(ThreadTeam& team);
// 8-bit multiply-adds per second of the team: vpdpbusd, or vpmaddubsw + vpmaddwd + vpaddd; 0 for plain C++.
double multiply_adds(ThreadTeam& team, cpu::Isa isa);

}  // namespace coterie
