// See nvml.h. The functions are declared here, as NVIDIA's header is not part of every toolkit; they are the
// ones of nvml.h since version 8 of the library, and keep their binary form.
#include "cuda/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <vector>

namespace coterie::cuda {

namespace {

using Card = struct nvmlDevice_st*;
constexpr int success = 0, card_is_lost = 15;
constexpr unsigned most_links = 18;

constexpr std::pair<uint64_t, const char*> slowdowns[] = {
    {0x08, "the card slows itself down (heat, or its power supply)"},
    {0x20, "the driver slows it down for its heat"},
    {0x40, "it slows itself down for its heat"},
    {0x80, "its power supply makes it slow down"}};

}  // namespace

struct Nvml::Library {
    void* file = nullptr;
    int (*shut)() = nullptr;
    const char* (*words)(int) = nullptr;
    int (*card)(const char*, Card*) = nullptr;
    int (*temperature)(Card, int, unsigned*) = nullptr;
    int (*slowed)(Card, unsigned long long*) = nullptr;
    int (*errors)(Card, int, int, unsigned long long*) = nullptr;
    int (*generation)(Card, unsigned*) = nullptr;
    int (*width)(Card, unsigned*) = nullptr;
    int (*link)(Card, unsigned, int*) = nullptr;
    int (*init)() = nullptr;
    int (*driver)(char*, unsigned) = nullptr;
    int (*version)(char*, unsigned) = nullptr;

    template <typename Function>
    bool find(Function& function, const char* name) {
        function = reinterpret_cast<Function>(dlsym(file, name));
        return function != nullptr;
    }
    bool find_all() {
        return find(init, "nvmlInit_v2") && find(shut, "nvmlShutdown") && find(words, "nvmlErrorString") &&
               find(driver, "nvmlSystemGetDriverVersion") && find(version, "nvmlSystemGetNVMLVersion") &&
               find(card, "nvmlDeviceGetHandleByPciBusId_v2") &&
               find(temperature, "nvmlDeviceGetTemperature") &&
               find(slowed, "nvmlDeviceGetCurrentClocksThrottleReasons") &&
               find(errors, "nvmlDeviceGetTotalEccErrors") &&
               find(generation, "nvmlDeviceGetMaxPcieLinkGeneration") &&
               find(width, "nvmlDeviceGetCurrPcieLinkWidth") && find(link, "nvmlDeviceGetNvLinkState");
    }
};

std::string CardHealth::complaint() const {
    if (!lost.empty()) return lost;
    std::vector<std::string> reasons;
    if (celsius && *celsius >= hot_celsius)
        reasons.push_back(
            fmt::format("it has {} degrees Celsius, {} or more is too warm", *celsius, hot_celsius));
    for (const auto& [bit, words] : slowdowns)
        if (slowed_by & bit) reasons.emplace_back(words);
    if (memory_errors)
        reasons.push_back(
            fmt::format("its memory had {} error{} that could not be corrected; results may be wrong",
                        memory_errors, memory_errors == 1 ? "" : "s"));
    return fmt::format("{}", fmt::join(reasons, "; "));
}

const Nvml& Nvml::instance() {
    const char* named = std::getenv("COTERIE_NVML_LIBRARY");
    static const Nvml nvml(named && *named ? named : "libnvidia-ml.so.1");
    return nvml;
}

Nvml::Nvml(const std::string& name) : library_(std::make_unique<Library>()) {
    library_->file = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library_->file) {
        const char* reason = dlerror();
        why_not_ = reason ? reason : name + " cannot be loaded";
        return;
    }
    if (!library_->find_all()) {
        why_not_ = name + " lacks a function that is needed; a newer driver has it";
        return;
    }
    if (const int error = library_->init(); error != success) {
        why_not_ = fmt::format("{} cannot be used: {}", name, library_->words(error));
        return;
    }
    char text[96] = {};
    if (library_->driver(text, sizeof text) == success) driver_ = text;
    if (library_->version(text, sizeof text) == success) version_ = text;
}

// The file stays open: other parts of the process may have it, too.
Nvml::~Nvml() {
    if (why_not_.empty()) (void)library_->shut();
}

CardHealth Nvml::health(const std::string& pci) const {
    CardHealth health;
    if (!why_not_.empty()) return health;
    Card card = nullptr;
    int error = library_->card(pci.c_str(), &card);
    unsigned celsius = 0;
    if (error == success) {
        error = library_->temperature(card, 0, &celsius);
        if (error == success) health.celsius = celsius;
    }
    if (error == card_is_lost) {
        health.lost = fmt::format("the driver can't reach it any more ({})", library_->words(error));
        return health;
    }
    unsigned long long bits = 0;
    if (card && library_->slowed(card, &bits) == success) health.slowed_by = bits;
    if (card && library_->errors(card, 1, 0, &bits) == success) health.memory_errors = bits;
    return health;
}

std::string Nvml::links(const std::string& pci) const {
    Card card = nullptr;
    if (!why_not_.empty() || library_->card(pci.c_str(), &card) != success) return {};
    std::string text;
    unsigned generation = 0, width = 0, count = 0;
    if (library_->generation(card, &generation) == success && library_->width(card, &width) == success)
        text = fmt::format("PCIe {}.0 x{}", generation, width);
    for (unsigned link = 0; link < most_links; ++link) {
        int on = 0;
        if (library_->link(card, link, &on) == success && on == 1) ++count;
    }
    if (count) text += fmt::format("{}{} NVLink{}", text.empty() ? "" : ", ", count, count == 1 ? "" : "s");
    return text;
}

}  // namespace coterie::cuda
