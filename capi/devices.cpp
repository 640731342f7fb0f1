// What this machine has.
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/json.h"
#include "base/threads.h"
#include "device/cpu/isa.h"
#include "device/cuda_backend.h"
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

// GPUs that can be used, and what keeps others from being used.
void add_cuda(Json& list, Json& missing) {
    std::string why;
    CudaBackend* backend = cuda_backend(&why);
    if (!backend) {
        missing.push_back({{"name", "cuda"}, {"reason", why}});
        return;
    }
    const CudaFacts facts = backend->facts();
    for (const std::string& reason : facts.missing) missing.push_back({{"name", "cuda"}, {"reason", reason}});
    for (const CudaDeviceFacts& d : facts.devices) {
        const std::string name = fmt::format("cuda:{}", d.number);
        if (!d.why_not.empty()) {
            missing.push_back({{"name", name}, {"reason", d.why_not}});
            continue;
        }
        Json peers = Json::array();
        for (const int peer : d.peers) peers.push_back(fmt::format("cuda:{}", peer));
        list.push_back({{"name", name},
                        {"model", d.name},
                        {"compute_capability", fmt::format("{}.{}", d.major, d.minor)},
                        {"multiprocessors", d.multiprocessors},
                        {"total_bytes", d.total_bytes},
                        {"free_bytes", d.free_bytes},
                        {"pci", d.pci},
                        {"peers", std::move(peers)},
                        {"links", d.links},
                        {"celsius", d.celsius < 0 ? Json() : Json(d.celsius)},
                        {"complaint", d.complaint},
                        {"driver", facts.driver},
                        {"driver_version", facts.driver_version},
                        {"runtime", facts.runtime}});
    }
}

Json devices() {
    Json isas = Json::array();
    for (const cpu::Isa isa : cpu::usable_isas()) isas.push_back(cpu::isa_name(isa));
    const HostMemory memory = host_memory();
    Json list = Json::array();
    list.push_back({{"name", "cpu"},
                    {"model", cpu::processor_name()},
                    {"cores", usable_cores()},
                    {"isa", cpu::isa_name(cpu::best_isa())},
                    {"usable_isas", std::move(isas)},
                    {"total_bytes", memory.total},
                    {"free_bytes", memory.available}});
    Json missing = Json::array();
    add_cuda(list, missing);
    return {{"devices", std::move(list)}, {"missing", std::move(missing)}};
}

std::string cuda_line(const Json& d) {
    std::string peers;
    for (const auto& peer : d["peers"])
        peers += (peers.empty() ? ", reaches " : ", ") + peer.get<std::string>();
    const auto after = [&d](const char* before, const char* key) {
        const std::string text = d[key].get<std::string>();
        return text.empty() ? text : before + text;
    };
    return fmt::format(
        "{}: {}, compute capability {}, {} multiprocessors, {:.1f} of {:.1f} GiB free, PCI {}{}{}{}; "
        "driver{} for CUDA {}, runtime {}{}\n",
        d["name"].get<std::string>(), d["model"].get<std::string>(),
        d["compute_capability"].get<std::string>(), d["multiprocessors"].get<int>(),
        double(d["free_bytes"].get<uint64_t>()) / (1 << 30),
        double(d["total_bytes"].get<uint64_t>()) / (1 << 30), d["pci"].get<std::string>(),
        after(", ", "links"), peers,
        d["celsius"].is_null() ? "" : fmt::format(", {} degrees", d["celsius"].get<int>()),
        after(" ", "driver_version"), d["driver"].get<std::string>(), d["runtime"].get<std::string>(),
        after("; ", "complaint"));
}

std::string devices_text(const Json& all) {
    std::string text;
    for (const auto& d : all["devices"]) {
        if (!d.contains("isa")) {
            text += cuda_line(d);
            continue;
        }
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
        const Json all = devices();
        write_text(format == COTERIE_JSON ? all.dump(2) + "\n" : devices_text(all), buffer, capacity, needed);
    });
}
