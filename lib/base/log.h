// Log lines of one engine or one file, handed to a sink of the caller's; silent without one. No global state.
#pragma once
#include <functional>
#include <string_view>

namespace coterie {

enum class LogLevel : int { debug = 0, info = 1, warning = 2, error = 3 };
using Log = std::function<void(LogLevel level, std::string_view line)>;

inline void log_line(const Log& log, LogLevel level, std::string_view line) {
    if (log) log(level, line);
}

}  // namespace coterie
