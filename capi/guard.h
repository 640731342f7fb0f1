// The border: every C function runs inside guard(), which turns exceptions into a status and a sentence;
// reads option structs of any age; writes texts into callers' buffers.
#pragma once
#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "base/failure.h"
#include "base/progress.h"
#include "coterie/coterie.h"

namespace coterie::capi {

coterie_status report(coterie_error* error, Status status, const char* message) noexcept;
// Of the exception being handled.
coterie_status report_current(coterie_error* error) noexcept;

template <typename Function>
coterie_status guard(coterie_error* error, Function&& function) noexcept {
    try {
        function();
        return report(error, Status::ok, "");
    } catch (...) {
        return report_current(error);
    }
}

template <typename T>
T& need(T* pointer, const char* name) {
    if (!pointer) fail(Status::invalid_argument, "{} is NULL", name);
    return *pointer;
}
inline std::string_view need_text(const char* text, const char* name) {
    return &need(text, name);
}

// `alignment` is that of the struct: a size that is no multiple of it would end within a field. (A struct's
// alignment is the same in every version.)
void check_size(const void* given, uint32_t given_size, uint32_t known_size, uint32_t alignment,
                const char* name);

// The caller's struct as this library knows it: missing fields are zero, unknown ones must be zero.
template <typename Options>
Options read_options(const Options* given, const char* name) {
    Options options{};
    if (!given) return options;
    check_size(given, given->struct_size, sizeof(Options), alignof(Options), name);
    std::memcpy(&options, given, std::min<size_t>(given->struct_size, sizeof(Options)));
    return options;
}

// Fills as much of the caller's struct as it has room for; keeps its struct_size.
template <typename Result>
void write_result(Result* to, Result from, const char* name) {
    const uint32_t size = need(to, name).struct_size;
    if (size < 2 * sizeof(uint32_t))
        fail(Status::invalid_argument, "{}.struct_size is {}; use its INIT macro", name, size);
    from.struct_size = size;
    std::memcpy(static_cast<void*>(to), &from, std::min<size_t>(size, sizeof(Result)));
}

void write_text(std::string_view text, char* buffer, size_t capacity, size_t* needed);

ProgressCallback progress_of(coterie_progress_fn function, void* user);

}  // namespace coterie::capi
