// The machine that the emulated plug-in shows: COTERIE_FAKE_DEVICES GPUs (2 by default) of 4 GiB.
#include <fake_runtime.h>

#include <cstdlib>

namespace {

const bool made = [] {
    fake::Machine machine;
    const char* devices = std::getenv("COTERIE_FAKE_DEVICES");
    machine.devices = devices ? std::atoi(devices) : 2;
    machine.memory_bytes = size_t(4) << 30;
    machine.mode = fake::Mode::eager;
    fake::reset(machine);
    return true;
}();

}  // namespace
