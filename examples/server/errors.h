// What goes wrong with a request: an HTTP status and a sentence. Each API has its own shape for it.
#pragma once
#include <stdexcept>
#include <string>

#include "coterie/coterie.hpp"

namespace server {

class HttpError : public std::runtime_error {
  public:
    HttpError(int http_status, const std::string& message, std::string kind = {})
        : std::runtime_error(message), status(http_status), type(std::move(kind)) {}
    const int status;
    const std::string type;  // OpenAI's error type; empty: by status
};

// The client closed its connection, or the server ends: nobody reads the answer.
class ClientGone : public std::runtime_error {
  public:
    ClientGone() : std::runtime_error("request canceled") {}
};

inline int http_status_of(coterie_status status) {
    switch (status) {
        case COTERIE_INVALID_ARGUMENT:
        case COTERIE_UNSUPPORTED:
        case COTERIE_TOO_LONG:
            return 400;
        case COTERIE_NOT_FOUND:
            return 404;
        case COTERIE_CANCELLED:
            return 499;
        case COTERIE_BUSY:
            return 503;
        default:
            return 500;
    }
}

}  // namespace server
