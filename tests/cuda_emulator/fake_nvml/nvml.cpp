// The management library of a machine of emulated GPUs: the functions that cuda/nvml.cpp opens, declared
// apart from it. COTERIE_FAKE_NVML says how the cards are, and is read at every call: "init=9", "lost",
// "celsius=91", "slowed=64", "errors=2" in any mix.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

// The number after "name=", 0 without; 1 for a name without a number.
unsigned long long said(const char* name) {
    const char* all = std::getenv("COTERIE_FAKE_NVML");
    const char* at = all ? std::strstr(all, name) : nullptr;
    if (!at) return 0;
    at += std::strlen(name);
    return *at == '=' ? std::strtoull(at + 1, nullptr, 10) : 1;
}

int card;

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int nvmlInit_v2() {
    return int(said("init"));
}
EXPORTED int nvmlShutdown() {
    return 0;
}
EXPORTED const char* nvmlErrorString(int error) {
    return error == 9 ? "Driver Not Loaded" : error == 15 ? "GPU is lost" : "Unknown Error";
}
EXPORTED int nvmlSystemGetDriverVersion(char* text, unsigned size) {
    std::snprintf(text, size, "570.00.1");
    return 0;
}
EXPORTED int nvmlSystemGetNVMLVersion(char* text, unsigned size) {
    std::snprintf(text, size, "12.570.00.1");
    return 0;
}
EXPORTED int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, void** device) {
    if (said("lost")) return 15;
    if (std::strncmp(pci, "0000:0", 6) != 0) return 6;
    *device = &card;
    return 0;
}
EXPORTED int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
    if (device != &card || sensor != 0) return 2;
    *celsius = said("celsius") ? unsigned(said("celsius")) : 40;
    return 0;
}
EXPORTED int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
    *reasons = said("slowed") | 1;  // bit 0: it is idle
    return 0;
}
EXPORTED int nvmlDeviceGetTotalEccErrors(void*, int kind, int counter, unsigned long long* count) {
    if (kind != 1 || counter != 0) return 2;
    *count = said("errors");
    return 0;
}
EXPORTED int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* generation) {
    *generation = 3;
    return 0;
}
EXPORTED int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* width) {
    *width = 16;
    return 0;
}
EXPORTED int nvmlDeviceGetNvLinkState(void*, unsigned link, int* on) {
    if (link >= 6) return 2;
    *on = link < 4;
    return 0;
}
