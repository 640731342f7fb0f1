#include "device/processes.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "device/plug_in.h"

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
    if (joined() || !started_as_several()) return;
    constexpr PlugIn file{"libcoterie_mpi.so", "COTERIE_MPI_LIBRARY", "coterie_mpi", mpi_interface, true};
    std::string reasons;
    const auto backend = reinterpret_cast<MpiBackend*>(open_plug_in(file, reasons));
    if (!backend)
        fail(
            Status::unsupported,
            "this process was started as one of several, but the plug-in for MPI could not be opened ({}); "
            "build it where libopenmpi-dev is installed and keep {} beside the library, or start one process",
            reasons, file.file);
    joined().reset(backend());
}

std::shared_ptr<Processes> processes() {
    return joined() && joined()->size() > 1 ? joined() : nullptr;
}

}  // namespace coterie
