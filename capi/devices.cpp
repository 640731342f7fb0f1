// What this machine has.
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/threads.h"
#include "device/cpu/isa.h"
#include "guard.h"

using namespace coterie;
using namespace coterie::capi;

namespace {

struct HostMemory {
    uint64_t total = 0, available = 0;
};

HostMemory host_memory() {
    HostMemory memory;
    std::ifstream file("/proc/meminfo");
    std::string line;
    while (std::getline(file, line)) {
        std::istringstream words(line);
        std::string name;
        uint64_t kib = 0;
        words >> name >> kib;
        if (name == "MemTotal:") memory.total = kib * 1024;
        if (name == "MemAvailable:") memory.available = kib * 1024;
    }
    return memory;
}

nlohmann::ordered_json devices() {
    nlohmann::ordered_json isas = nlohmann::ordered_json::array();
    for (const cpu::Isa isa : cpu::usable_isas()) isas.push_back(cpu::isa_name(isa));
    const HostMemory memory = host_memory();
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    list.push_back({{"name", "cpu"},
                    {"model", cpu::processor_name()},
                    {"cores", usable_cores()},
                    {"isa", cpu::isa_name(cpu::best_isa())},
                    {"usable_isas", std::move(isas)},
                    {"total_bytes", memory.total},
                    {"free_bytes", memory.available}});
    nlohmann::ordered_json missing = nlohmann::ordered_json::array();
    missing.push_back({{"name", "cuda"}, {"reason", "this version of Coterie has no CUDA backend"}});
    return {{"devices", std::move(list)}, {"missing", std::move(missing)}};
}

std::string devices_text(const nlohmann::ordered_json& all) {
    std::string text;
    for (const auto& d : all["devices"]) {
        std::string isas;
        for (const auto& isa : d["usable_isas"]) isas += (isas.empty() ? "" : ", ") + isa.get<std::string>();
        text += fmt::format(
            "{}: {}, {} usable cores, instruction set {} (usable: {}), {:.1f} of {:.1f} GiB free\n",
            d["name"].get<std::string>(), d["model"].get<std::string>(), d["cores"].get<int>(),
            d["isa"].get<std::string>(), isas, double(d["free_bytes"].get<uint64_t>()) / (1 << 30),
            double(d["total_bytes"].get<uint64_t>()) / (1 << 30));
    }
    for (const auto& m : all["missing"])
        text += fmt::format("{}: not available: {}\n", m["name"].get<std::string>(),
                            m["reason"].get<std::string>());
    return text;
}

}  // namespace

coterie_status coterie_devices(int32_t format, char* buffer, size_t capacity, size_t* needed,
                               coterie_error* error) {
    return guard(error, [&] {
        const nlohmann::ordered_json all = devices();
        write_text(format == COTERIE_JSON ? all.dump(2) + "\n" : devices_text(all), buffer, capacity, needed);
    });
}
