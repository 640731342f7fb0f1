// How the devices are: their memory, and what their sensors say where the system tells it. Too hot a device
// is warned of; hotter still, new answers wait until it has cooled. Looked at when somebody asks, at most
// once a second.
#pragma once
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "settings.h"

namespace server {

using json = nlohmann::ordered_json;

class Health {
  public:
    explicit Health(const Settings& settings) : settings_(settings) {}

    // coterie_devices' JSON; each device has state ("ok", "warm", "paused") too, and, where they are known,
    // temperature_c, power_w, throttle_events.
    json devices();
    void admit();           // HttpError 503 while a device is paused
    std::string metrics();  // for Prometheus
    std::string trouble();  // of the first device that isn't ok; empty if all are

  private:
    void look();
    void read_sensors(json& cpu);

    const Settings& settings_;
    std::mutex mutex_;
    json now_;
    std::string paused_, trouble_;
    std::optional<std::chrono::steady_clock::time_point> looked_;
    std::optional<double> energy_uj_;
    std::chrono::steady_clock::time_point energy_at_{};
};

}  // namespace server
