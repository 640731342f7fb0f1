// What the server was told on its command line and by the environment, in one place: the command line wins.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace server {

struct Settings {
    std::string host = "127.0.0.1";
    int port = 11434;
    std::string api_key;
    bool insecure = false;  // listen beyond this machine without a key
    int parallel = 4;
    int64_t context = 0;  // tokens of one sequence; 0: the model's, at most the engine's default
    std::string devices, key_value_type;
    int threads = 0;
    double keep_alive = 300;  // seconds; negative: for ever
    int max_models = 3;
    int max_queue = 512;
    std::string models_dir;
    std::string store;  // our own, where pulled and created models lie
    std::string registry = "https://registry.ollama.ai";
    std::string registry_login;        // "user:password@host": for that registry and who gives out its tokens
    bool read_only = false;            // nothing is pulled, created, copied or deleted
    uint64_t max_memory = 0;           // of all loaded models; 0: what the machine has
    std::vector<std::string> origins;  // allowed beside the usual ones
    std::map<std::string, std::string> aliases;             // name -> file or stored name
    double warn_temperature = 90, pause_temperature = 105;  // degrees Celsius; 0: never
    std::string sensors = "/sys";                           // where the system shows its sensors
    int64_t max_body = int64_t(64) << 20;
    int max_connections = 512;
    int header_seconds = 40;  // for a request's headers, and between requests
    int drain_seconds = 30;
    bool debug = false;
};

// Ollama's variables where they are set. Numbers that can't be read keep the default and leave a warning.
void read_environment(Settings& settings, std::vector<std::string>& warnings);
std::string effective_values(const Settings& settings);  // lines for the start

// Ollama's keep_alive: a number of seconds, "1h30m", or a number in a string; negative: for ever. Throws
// std::invalid_argument.
double parse_duration(const std::string& text);
bool is_loopback(const std::string& host);

}  // namespace server
