// Progress and cancellation of anything that takes time: one callback, seen often enough to feel immediate.
#pragma once
#include <cstdint>
#include <functional>

#include "base/failure.h"

namespace coterie {

// Called with what is being done ("reading", "loading", "quantizing", ...), the units done and the units in
// all (bytes or tokens). Returns false to cancel.
using ProgressCallback = std::function<bool(const char* what, uint64_t done, uint64_t total)>;

// Reports and throws Failure(cancelled) if the callback says stop.
inline void report_progress(const ProgressCallback& callback, const char* what, uint64_t done,
                            uint64_t total) {
    if (callback && !callback(what, done, total)) fail(Status::cancelled, "cancelled while {}", what);
}

}  // namespace coterie
