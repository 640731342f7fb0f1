#include "base/failure.h"

namespace coterie {

const char* status_name(Status status) {
    switch (status) {
        case Status::ok:
            return "ok";
        case Status::invalid_argument:
            return "invalid argument";
        case Status::not_found:
            return "not found";
        case Status::bad_model:
            return "bad model";
        case Status::unsupported:
            return "unsupported";
        case Status::out_of_memory:
            return "out of memory";
        case Status::cancelled:
            return "cancelled";
        case Status::device_lost:
            return "device lost";
        case Status::busy:
            return "busy";
        case Status::internal:
            return "internal";
        case Status::too_long:
            return "too long";
    }
    return "unknown status";
}

}  // namespace coterie
