// The one exception of the library: a status a host can act on, and one English sentence a user can act on.
// Nothing below capi/ throws anything else on purpose; capi/ turns it into a status and a message.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace coterie {

// Each value is a different thing to do. The numbers are those of coterie.h.
enum class Status : int32_t {
    ok = 0,
    invalid_argument = 1,  // the caller's mistake: correct the call
    not_found = 2,         // no such file, model or name
    bad_model = 3,         // the file is damaged or contradicts itself: fetch it again
    unsupported = 4,       // valid, but this build or device can't do it
    out_of_memory = 5,     // ask for less, or free something
    cancelled = 6,         // the caller asked to stop
    device_lost = 7,       // a device failed: plan again without it
    busy = 8,              // the queue is full: try later
    internal = 9,          // a contradiction inside Coterie: please report it
    too_long = 10,         // more tokens than the context holds: shorten it, or ask for a larger context
};

const char* status_name(Status status);

class Failure : public std::exception {
  public:
    Failure(Status status, std::string message) : status_(status), message_(std::move(message)) {}
    Status status() const { return status_; }
    const std::string& message() const { return message_; }
    const char* what() const noexcept override { return message_.c_str(); }

  private:
    Status status_;
    std::string message_;
};

// Says what happened, where, what was expected, what was found and what to do, in one sentence.
template <typename... Arguments>
[[noreturn]] void fail(Status status, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    throw Failure(status, fmt::format(format, std::forward<Arguments>(arguments)...));
}

// An internal contradiction is a Failure too, never an abort.
#define COTERIE_CHECK(condition)                                                                            \
    do {                                                                                                    \
        if (!(condition))                                                                                   \
            ::coterie::fail(::coterie::Status::internal, "internal contradiction: {} at {}:{}", #condition, \
                            __FILE__, __LINE__);                                                            \
    } while (false)

}  // namespace coterie
