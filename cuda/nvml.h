// What NVIDIA's management library says of a card: versions, links, temperature, what slows it. Opened at run
// time, as a machine may lack it: then everything works and the reason is a sentence. Calls come from any
// thread.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace coterie::cuda {

constexpr unsigned hot_celsius = 85;  // from here on a card counts as too warm

struct CardHealth {
    std::string lost;                 // why it does not answer; empty: it does
    std::optional<unsigned> celsius;  // what it does not say stays empty
    uint64_t slowed_by = 0;           // nvmlClocksThrottleReason...
    uint64_t memory_errors = 0;       // that could not be corrected, since the driver was loaded
    // What keeps the card from its speed or its results from being right, as one sentence; empty: nothing.
    std::string complaint() const;
};

class Nvml {
  public:
    // $COTERIE_NVML_LIBRARY, or libnvidia-ml.so.1 where the loader finds it; opened once and kept.
    static const Nvml& instance();
    explicit Nvml(const std::string& file);
    ~Nvml();
    const std::string& why_not() const { return why_not_; }  // empty: it can be asked
    const std::string& driver() const { return driver_; }    // "570.86.15"
    const std::string& version() const { return version_; }
    CardHealth health(const std::string& pci) const;
    // "PCIe 3.0 x16, 6 NVLinks"; empty where it does not say.
    std::string links(const std::string& pci) const;

  private:
    struct Library;
    std::unique_ptr<Library> library_;
    std::string why_not_, driver_, version_;
};

}  // namespace coterie::cuda
