// The model in the box: a very small mixture of experts that is shipped with Coterie, for programs that are
// given no model. Looked for beside the installed program, then in the tree that the program was built from.
#pragma once
#include <filesystem>
#include <stdexcept>
#include <string>

namespace box {

constexpr const char* file_name = "coterie-box-qwen35moe.Q4_K_M.gguf";

// Throws std::runtime_error, with where it was looked for, when it is not there.
inline std::string model_path() {
    namespace fs = std::filesystem;
    std::error_code ignored;
    const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
    const fs::path installed =
        (program.parent_path().parent_path() / "share" / "coterie" / "models" / file_name).lexically_normal();
    const fs::path built = fs::path(COTERIE_BOX_FOLDER) / file_name;
    for (const fs::path& path : {installed, built})
        if (fs::is_regular_file(path, ignored)) return path.string();
    throw std::runtime_error("no model was named, and the model in the box is neither at '" +
                             installed.string() + "' nor at '" + built.string() + "'; name a GGUF file");
}

// For people, on the standard error.
inline std::string notice(const std::string& path) {
    return "no model was named: this is the model in the box, very small, for trying things (" + path + ")";
}

}  // namespace box
