// Sensors of Linux: hwmon for temperatures, RAPL for power, counters of thermal throttling. What GPUs measure
// comes with coterie_devices.
#include "health.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "coterie/coterie.hpp"
#include "errors.h"

namespace server {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::optional<double> number_in_file(const fs::path& path) {
    std::ifstream file(path);
    double value = 0;
    if (!(file >> value)) return std::nullopt;
    return value;
}

std::string line_in_file(const fs::path& path) {
    std::ifstream file(path);
    std::string text;
    std::getline(file, text);
    return text;
}

std::vector<fs::path> entries(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
        found.push_back(at->path());
    std::sort(found.begin(), found.end());
    return found;
}

bool begins(const std::string& text, const char* with) {
    return text.rfind(with, 0) == 0;
}

// The hottest reading of the processor's own sensors.
std::optional<double> cpu_temperature(const fs::path& sys) {
    std::optional<double> hottest;
    for (const fs::path& monitor : entries(sys / "class/hwmon")) {
        const std::string name = line_in_file(monitor / "name");
        if (name != "coretemp" && name != "k10temp" && name != "zenpower" && name != "cpu_thermal") continue;
        for (const fs::path& file : entries(monitor)) {
            const std::string leaf = file.filename().string();
            if (!begins(leaf, "temp") || leaf.find("_input") == std::string::npos) continue;
            const auto value = number_in_file(file);
            if (value && *value > -50000 && *value < 200000)
                hottest = std::max(hottest.value_or(-50), *value / 1000);
        }
    }
    return hottest;
}

std::optional<double> throttle_events(const fs::path& sys) {
    std::optional<double> sum;
    for (const fs::path& cpu : entries(sys / "devices/system/cpu"))
        for (const char* counter : {"core_throttle_count", "package_throttle_count"})
            if (const auto n = number_in_file(cpu / "thermal_throttle" / counter)) sum = sum.value_or(0) + *n;
    return sum;
}

std::optional<double> energy(const fs::path& sys) {
    std::optional<double> sum;
    for (const fs::path& zone : entries(sys / "class/powercap"))
        if (begins(zone.filename().string(), "intel-rapl:") &&
            zone.filename().string().find(':', 11) == std::string::npos)
            if (const auto n = number_in_file(zone / "energy_uj")) sum = sum.value_or(0) + *n;
    return sum;
}

}  // namespace

void Health::read_sensors(json& cpu) {
    const fs::path sys = settings_.sensors;
    if (const auto t = cpu_temperature(sys)) cpu["temperature_c"] = *t;
    if (const auto n = throttle_events(sys)) cpu["throttle_events"] = int64_t(*n);
    const auto used = energy(sys);
    const auto now = Clock::now();
    if (used && energy_uj_ && *used >= *energy_uj_ && now > energy_at_)
        cpu["power_w"] =
            (*used - *energy_uj_) / 1e6 / std::chrono::duration<double>(now - energy_at_).count();
    energy_uj_ = used;
    energy_at_ = now;
}

void Health::look() {
    const auto now = Clock::now();
    if (looked_ && now - *looked_ < std::chrono::seconds(1)) return;
    looked_ = now;
    json fresh = json::parse(coterie::text_of([](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_devices(COTERIE_JSON, b, c, n, e);
    }));
    std::string trouble;
    paused_.clear();
    for (json& device : fresh["devices"]) {
        if (device.value("name", "") == "cpu") read_sensors(device);
        device["state"] = "ok";
        if (!device.contains("temperature_c")) continue;
        const double degrees = device["temperature_c"];
        const bool pause = settings_.pause_temperature > 0 && degrees >= settings_.pause_temperature;
        const bool warn = settings_.warn_temperature > 0 && degrees >= settings_.warn_temperature;
        if (!pause && !warn) continue;
        device["state"] = pause ? "paused" : "warm";
        const std::string sentence =
            fmt::format("{} is at {:.0f} degrees{}", device.value("name", ""), degrees,
                        pause ? "; new answers wait until it has cooled" : "");
        if (pause && paused_.empty()) paused_ = sentence;
        if (trouble.empty() || pause) trouble = sentence;
    }
    if (trouble.empty() != trouble_.empty())
        std::fprintf(stderr, "%s\n",
                     trouble.empty() ? "the devices have cooled" : ("warning: " + trouble).c_str());
    trouble_ = std::move(trouble);
    now_ = std::move(fresh);
}

json Health::devices() {
    std::lock_guard lock(mutex_);
    look();
    return now_;
}

void Health::admit() {
    std::lock_guard lock(mutex_);
    look();
    if (!paused_.empty()) throw HttpError(503, paused_);
}

std::string Health::trouble() {
    std::lock_guard lock(mutex_);
    look();
    return trouble_;
}

std::string Health::metrics() {
    const json all = devices();
    std::string text;
    const auto put = [&](const char* name, const char* kind, const char* help, const char* key) {
        std::string rows;
        for (const json& device : all["devices"])
            if (const auto value = device.find(key); value != device.end() && value->is_number())
                rows += fmt::format("{}{{device=\"{}\"}} {}\n", name, device.value("name", ""),
                                    value->get<double>());
        if (!rows.empty()) text += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n{3}", name, kind, help, rows);
    };
    put("coterie_device_memory_bytes", "gauge", "Memory of the device.", "total_bytes");
    put("coterie_device_memory_free_bytes", "gauge", "Memory of the device that is free.", "free_bytes");
    put("coterie_device_temperature_celsius", "gauge", "Its hottest sensor.", "temperature_c");
    put("coterie_device_power_watts", "gauge", "Power it draws.", "power_w");
    put("coterie_device_throttle_events_total", "counter", "Times it slowed down because of heat.",
        "throttle_events");
    put("coterie_device_errors_total", "counter", "Memory errors that could not be corrected.", "errors");
    text +=
        "# HELP coterie_device_state 0: ok, 1: warm, 2: too hot for new answers.\n# TYPE "
        "coterie_device_state gauge\n";
    for (const json& device : all["devices"]) {
        const std::string state = device.value("state", "ok");
        text += fmt::format("coterie_device_state{{device=\"{}\"}} {}\n", device.value("name", ""),
                            state == "paused" ? 2
                            : state == "warm" ? 1
                                              : 0);
    }
    return text;
}

}  // namespace server
