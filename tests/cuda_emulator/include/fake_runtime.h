// A test's hand on the fake CUDA runtime: how many devices of what kind, which calls fail, and what went
// wrong that a real driver would punish with a crash or silence.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fake {

// eager: work runs when it is queued. lazy: only when somebody waits, the streams in a random order.
enum class Mode { eager, lazy };

struct Machine {
    int devices = 1;
    size_t memory_bytes = size_t(256) << 20;  // of each
    int major = 8, minor = 0;                 // compute capability
    Mode mode = Mode::lazy;
    uint64_t seed = 1;
    bool peers = true;           // devices may reach each other's memory
    double deadlock_ms = 20000;  // how long a wait may see nothing happen
};
void reset(const Machine& machine);

void fail_call(const std::string& call, int device, int nth, int error);  // device -1: any
void lose_device(int device);                                             // every later call on it fails
void hang_device(int device, bool hung = true);
void slow_device(int device, double factor);  // of virtual time
double virtual_ms(int device);

// Misuse, deadlocks and everything the emulator reported.
std::vector<std::string> problems();
uint64_t calls(const std::string& call);
uint64_t bytes_to_host();  // of all copies asked for
struct Leaks {
    size_t bytes;
    int streams, events, graphs, pinned;
    bool none() const { return bytes == 0 && streams == 0 && events == 0 && graphs == 0 && pinned == 0; }
};
Leaks leaks();

}  // namespace fake
