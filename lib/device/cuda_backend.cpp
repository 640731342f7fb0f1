#include "device/cuda_backend.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "base/failure.h"

namespace coterie {

namespace {

constexpr char file_name[] = "libcoterie_cuda.so";

// Where the file of this very function lies.
std::filesystem::path own_folder() {
    Dl_info info{};
    if (!dladdr(reinterpret_cast<void*>(&cuda_backend), &info) || !info.dli_fname) return {};
    std::error_code ignored;
    return std::filesystem::weakly_canonical(info.dli_fname, ignored).parent_path();
}

struct Opened {
    CudaBackend* backend = nullptr;
    std::string why;
};

Opened open_plug_in() {
    std::vector<std::string> places;
    const char* named = std::getenv("COTERIE_CUDA_LIBRARY");
    if (named && *named) {
        places = {named};
    } else {
        const std::filesystem::path folder = own_folder();
        std::error_code ignored;
        // The second is a build's: programs in bin/, libraries in lib/.
        for (const std::filesystem::path& beside :
             {folder / file_name, folder.parent_path() / "lib" / file_name})
            if (!folder.empty() && std::filesystem::exists(beside, ignored))
                places.push_back(beside.string());
        places.push_back(file_name);
    }
    std::string reasons;
    for (const std::string& place : places) {
        void* plug_in = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!plug_in) {
            const char* reason = dlerror();
            reasons +=
                fmt::format("{}{}", reasons.empty() ? "" : "; ", reason ? reason : "it cannot be loaded");
            continue;
        }
        using Interface = const char* (*)();
        using Backend = CudaBackend* (*)();
        const auto interface = reinterpret_cast<Interface>(dlsym(plug_in, "coterie_cuda_interface"));
        const auto backend = reinterpret_cast<Backend>(dlsym(plug_in, "coterie_cuda_backend"));
        if (interface && backend && std::string(interface()) == cuda_interface) return {backend(), {}};
        dlclose(plug_in);
        reasons +=
            fmt::format("{}{} belongs to another version of Coterie", reasons.empty() ? "" : "; ", place);
    }
    return {
        nullptr,
        fmt::format("the plug-in for NVIDIA GPUs could not be opened ({}); build it with -DCOTERIE_CUDA=on, "
                    "and keep {} beside the library",
                    reasons, file_name)};
}

}  // namespace

CudaBackend* cuda_backend(std::string* why) {
    static const Opened opened = open_plug_in();
    if (why) *why = opened.why;
    return opened.backend;
}

}  // namespace coterie
