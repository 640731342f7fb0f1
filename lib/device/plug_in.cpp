#include "device/plug_in.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

namespace coterie {
namespace {

// Where the file of this very function lies.
std::filesystem::path own_folder() {
    Dl_info info{};
    if (!dladdr(reinterpret_cast<void*>(&open_plug_in), &info) || !info.dli_fname) return {};
    std::error_code ignored;
    return std::filesystem::weakly_canonical(info.dli_fname, ignored).parent_path();
}

std::vector<std::string> places_of(const PlugIn& plug_in) {
    const char* named = std::getenv(plug_in.environment);
    if (named && *named) return {named};
    std::vector<std::string> places;
    const std::filesystem::path folder = own_folder();
    std::error_code ignored;
    // The second is a build's: programs in bin/, libraries in lib/.
    for (const std::filesystem::path& beside :
         {folder / plug_in.file, folder.parent_path() / "lib" / plug_in.file})
        if (!folder.empty() && std::filesystem::exists(beside, ignored)) places.push_back(beside.string());
    places.push_back(plug_in.file);
    return places;
}

}  // namespace

void* open_plug_in(const PlugIn& plug_in, std::string& why) {
    for (const std::string& place : places_of(plug_in)) {
        if (!why.empty()) why += "; ";
        void* file = dlopen(place.c_str(), RTLD_NOW | (plug_in.global ? RTLD_GLOBAL : RTLD_LOCAL));
        if (!file) {
            const char* reason = dlerror();
            why += reason ? reason : "it cannot be loaded";
            continue;
        }
        const std::string name = plug_in.name;
        using Interface = const char* (*)();
        const auto interface = reinterpret_cast<Interface>(dlsym(file, (name + "_interface").c_str()));
        void* backend = dlsym(file, (name + "_backend").c_str());
        if (interface && backend && std::string(interface()) == plug_in.interface) return backend;
        dlclose(file);
        why += fmt::format("{} belongs to another version of Coterie", place);
    }
    return nullptr;
}

}  // namespace coterie
