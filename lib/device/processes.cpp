#include "device/processes.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace coterie {
namespace {

std::shared_ptr<Processes>& joined() {
    static std::shared_ptr<Processes> all;
    return all;
}

}  // namespace

void Processes::agree(const std::optional<Failure>& mine) {
    std::string words = mine ? std::string(1, char(int(mine->status()))) + mine->message() : std::string();
    const auto all = share(std::as_bytes(std::span(words)));
    for (const std::vector<std::byte>& theirs : all) {
        if (theirs.empty()) continue;
        const auto* text = reinterpret_cast<const char*>(theirs.data());
        throw Failure(Status(int(text[0])), std::string(text + 1, theirs.size() - 1));
    }
}

bool started_as_several() {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"})
        if (const char* size = std::getenv(name)) return std::atoi(size) > 1;
    return false;
}

void join_processes() {
    if (!joined() && started_as_several()) joined() = make_mpi_processes();
}

std::shared_ptr<Processes> processes() {
    return joined() && joined()->size() > 1 ? joined() : nullptr;
}

#if !defined(COTERIE_MPI)
std::shared_ptr<Processes> make_mpi_processes() {
    fail(Status::unsupported,
         "this process was started as one of several, but this build has no MPI; build it where "
         "libopenmpi-dev "
         "is installed, or start one process");
}
#endif

}  // namespace coterie
