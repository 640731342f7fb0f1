#include "guard.h"

namespace coterie::capi {

coterie_status report(coterie_error* error, Status status, const char* message) noexcept {
    if (error && error->struct_size > offsetof(coterie_error, message)) {
        error->status = coterie_status(status);
        const size_t room =
            std::min<size_t>(error->struct_size, sizeof(coterie_error)) - offsetof(coterie_error, message);
        size_t length = std::min(std::strlen(message), room - 1);
        // Cut between characters.
        while (length > 0 && message[length] != 0 &&
               (static_cast<unsigned char>(message[length]) & 0xc0) == 0x80)
            --length;
        std::memcpy(error->message, message, length);
        error->message[length] = 0;
    }
    return coterie_status(status);
}

coterie_status report_current(coterie_error* error) noexcept {
    try {
        throw;
    } catch (const Failure& failure) {
        return report(error, failure.status(), failure.what());
    } catch (const std::bad_alloc&) {
        return report(error, Status::out_of_memory,
                      "the host's memory is used up; ask for less or free something");
    } catch (const std::exception& other) {
        return report(error, Status::internal, other.what());
    } catch (...) {
        return report(error, Status::internal, "an exception of an unknown kind");
    }
}

void check_size(const void* given, uint32_t given_size, uint32_t known_size, uint32_t alignment,
                const char* name) {
    if (given_size < sizeof(uint32_t))
        fail(Status::invalid_argument, "{}.struct_size is {}; use its INIT macro", name, given_size);
    if (given_size > known_size + (1u << 16) || given_size % alignment != 0)
        fail(Status::invalid_argument, "{}.struct_size is {}, which no version has", name, given_size);
    const unsigned char* bytes = static_cast<const unsigned char*>(given);
    for (uint32_t at = known_size; at < given_size; ++at)
        if (bytes[at] != 0)
            fail(Status::invalid_argument,
                 "{} has an option at offset {} that this version ({}) does not know; leave it zero or "
                 "update the library",
                 name, at, coterie_version());
}

void write_text(std::string_view text, char* buffer, size_t capacity, size_t* needed) {
    if (!buffer && capacity > 0)
        fail(Status::invalid_argument, "buffer is NULL but its capacity is {}", capacity);
    if (needed) *needed = text.size();
    if (capacity == 0) return;
    const size_t length = std::min(text.size(), capacity - 1);
    std::memcpy(buffer, text.data(), length);
    buffer[length] = 0;
}

ProgressCallback progress_of(coterie_progress_fn function, void* user) {
    if (!function) return {};
    return [function, user](const char* what, uint64_t done, uint64_t total) {
        return function(user, what, done, total) == 0;
    };
}

}  // namespace coterie::capi
