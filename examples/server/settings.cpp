// Reading the environment, durations and addresses.
#include "settings.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <stdexcept>

namespace server {
namespace {

std::optional<std::string> variable(const char* name) {
    const char* value = std::getenv(name);
    if (!value) return std::nullopt;
    std::string text = value;
    const char* blanks = " \t\"'";
    text.erase(0, std::min(text.size(), text.find_first_not_of(blanks)));
    text.erase(text.find_last_not_of(blanks) + 1);
    if (text.empty()) return std::nullopt;
    return text;
}

template <typename Number>
void read_number(const char* name, Number& into, std::vector<std::string>& warnings) {
    const auto text = variable(name);
    if (!text) return;
    try {
        size_t used = 0;
        const long long value = std::stoll(*text, &used);
        if (used != text->size() || value < 0) throw std::invalid_argument(*text);
        if (value > 0) into = Number(value);
    } catch (const std::exception&) {
        warnings.push_back(fmt::format("{}={} is not a whole number; it stays {}", name, *text, into));
    }
}

// host, :port, host:port, [v6]:port, scheme://...
void read_host(const std::string& given, Settings& settings, std::vector<std::string>& warnings) {
    std::string text = given;
    int port = 11434;
    if (const size_t scheme = text.find("://"); scheme != std::string::npos) {
        port = text.compare(0, scheme, "https") == 0 ? 443 : 80;
        text.erase(0, scheme + 3);
    }
    text = text.substr(0, text.find('/'));
    const size_t bracket = text.rfind(']');
    const size_t colon = text.rfind(':');
    const bool has_port = colon != std::string::npos && (bracket == std::string::npos || colon > bracket) &&
                          (bracket != std::string::npos || text.find(':') == colon);
    if (has_port) {
        const std::string digits = text.substr(colon + 1);
        char* end = nullptr;
        const long value = std::strtol(digits.c_str(), &end, 10);
        if (!digits.empty() && *end == 0 && value >= 0 && value < 65536)
            port = int(value);
        else
            warnings.push_back(fmt::format("the port in OLLAMA_HOST={} is no port; it is {}", given, port));
        text.erase(colon);
    }
    if (!text.empty() && text.front() == '[') text = text.substr(1, text.find(']') - 1);
    if (!text.empty()) settings.host = text;
    settings.port = port;
}

}  // namespace

double parse_duration(const std::string& text) {
    const auto wrong = [&] { return std::invalid_argument("time: invalid duration \"" + text + "\""); };
    if (text.empty()) throw wrong();
    size_t at = 0;
    double sign = 1;
    if (text[0] == '-' || text[0] == '+') {
        sign = text[0] == '-' ? -1 : 1;
        ++at;
    }
    double seconds = 0;
    if (at == text.size()) throw wrong();
    while (at < text.size()) {
        const size_t digits = text.find_first_not_of("0123456789.", at);
        if (digits == at) throw wrong();
        const double number = std::strtod(text.substr(at, digits - at).c_str(), nullptr);
        if (digits == std::string::npos) return sign * (seconds + number);  // no unit: seconds
        const size_t end = std::min(text.find_first_of("0123456789.", digits), text.size());
        const std::string unit = text.substr(digits, end - digits);
        static const std::map<std::string, double> units{
            {"ns", 1e-9}, {"us", 1e-6}, {"\xc2\xb5s", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
        const auto found = units.find(unit);
        if (found == units.end()) throw wrong();
        seconds += number * found->second;
        at = end;
    }
    return sign * seconds;
}

bool is_loopback(const std::string& host) {
    return host == "localhost" || host == "::1" || host.compare(0, 4, "127.") == 0;
}

void read_environment(Settings& s, std::vector<std::string>& warnings) {
    if (const auto host = variable("OLLAMA_HOST")) read_host(*host, s, warnings);
    if (const auto text = variable("OLLAMA_KEEP_ALIVE")) {
        try {
            s.keep_alive = parse_duration(*text);
        } catch (const std::exception&) {
            warnings.push_back(fmt::format("OLLAMA_KEEP_ALIVE={} is no duration; it stays 5m", *text));
        }
    }
    read_number("OLLAMA_NUM_PARALLEL", s.parallel, warnings);
    read_number("OLLAMA_MAX_LOADED_MODELS", s.max_models, warnings);
    read_number("OLLAMA_MAX_QUEUE", s.max_queue, warnings);
    read_number("OLLAMA_CONTEXT_LENGTH", s.context, warnings);
    if (const auto type = variable("OLLAMA_KV_CACHE_TYPE")) {
        if (*type == "f16" || *type == "q8_0" || *type == "f32")
            s.key_value_type = *type;
        else
            warnings.push_back(fmt::format("OLLAMA_KV_CACHE_TYPE={} is not known here; it stays f16", *type));
    }
    if (const auto list = variable("OLLAMA_ORIGINS")) {
        std::string word;
        for (const char c : *list + ",") {
            if (c == ' ' || c == '\t') continue;
            if (c != ',') {
                word += c;
            } else if (!word.empty()) {
                s.origins.push_back(word);
                word.clear();
            }
        }
    }
    if (const auto debug = variable("OLLAMA_DEBUG")) s.debug = *debug != "0" && *debug != "false";
    if (const auto key = variable("COTERIE_API_KEY")) s.api_key = *key;
    if (const auto login = variable("COTERIE_REGISTRY_LOGIN")) s.registry_login = *login;
    for (const char* name : {"OLLAMA_LLM_LIBRARY", "OLLAMA_VULKAN", "OLLAMA_IGPU_ENABLE",
                             "OLLAMA_GPU_OVERHEAD", "OLLAMA_SCHED_SPREAD", "OLLAMA_LOAD_TIMEOUT"})
        if (variable(name)) warnings.push_back(fmt::format("{} has no meaning here", name));
}

std::string effective_values(const Settings& s) {
    const auto text_of = [](double seconds) {
        return seconds < 0 ? std::string("for ever") : fmt::format("{:g} s", seconds);
    };
    return fmt::format(
        "OLLAMA_HOST               {}:{}\n"
        "OLLAMA_MODELS             {}\n"
        "own store                 {}{}\n"
        "OLLAMA_KEEP_ALIVE         {}\n"
        "OLLAMA_NUM_PARALLEL       {}\n"
        "OLLAMA_MAX_LOADED_MODELS  {}\n"
        "OLLAMA_MAX_QUEUE          {}\n"
        "OLLAMA_CONTEXT_LENGTH     {}\n"
        "OLLAMA_KV_CACHE_TYPE      {}\n"
        "OLLAMA_ORIGINS            {}\n"
        "OLLAMA_DEBUG              {}\n"
        "--max-memory              {}\n"
        "--registry                {}\n"
        "--warn-temperature        {}\n"
        "--pause-temperature       {}\n"
        "API key                   {}\n",
        s.host, s.port, variable("OLLAMA_MODELS").value_or("(the user's and the service's store)"), s.store,
        s.read_only ? " (read only)" : "", text_of(s.keep_alive), s.parallel, s.max_models, s.max_queue,
        s.context ? std::to_string(s.context) : "(the model's, at most 8192)",
        s.key_value_type.empty() ? "f16" : s.key_value_type,
        fmt::format("{} beside the usual", s.origins.size()), s.debug,
        s.max_memory ? fmt::format("{} bytes", s.max_memory) : "(what the machine has)", s.registry,
        s.warn_temperature, s.pause_temperature, s.api_key.empty() ? "none" : "needed");
}

}  // namespace server
