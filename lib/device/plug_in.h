// Plug-ins: parts of the library that need other libraries, which a machine may lack, lie in files of their
// own and are opened at run time. Each exports two functions with C linkage: NAME_interface, whose words must
// be those that the library was built with, and NAME_backend. Both sides are C++ of the same build.
#pragma once
#include <string>

namespace coterie {

struct PlugIn {
    const char* file;         // "libcoterie_cuda.so"
    const char* environment;  // a variable that names another file
    const char* name;         // what its functions begin with
    const char* interface;    // what NAME_interface must answer
    bool global = false;      // what it links must be visible to what those libraries open themselves
};

// The address of NAME_backend in the file named by the environment, or beside the library or program that
// this code is in, or where the loader finds it. Kept open. Null, and why, when there is none that can be
// used.
void* open_plug_in(const PlugIn& plug_in, std::string& why);

}  // namespace coterie
