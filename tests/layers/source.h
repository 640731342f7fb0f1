// The project's sources as the layering tests see them: text without comments and literals, and its #include
// lines.
#pragma once
#include <string>
#include <vector>

namespace layers {

struct Include {
    std::string target;
    bool quoted = false;
    int line = 0;
};

struct Source {
    std::string path;  // from the project's root, "lib/gguf/file.cpp"
    std::string code;  // comments, texts and characters blanked out; line breaks kept
    std::vector<Include> includes;
};

// Blanks out comments (//, /* */), "texts", R"raw texts" and 'characters'; everything keeps its line.
std::string strip(const std::string& text);
std::vector<Include> includes_of(const std::string& text);
// C, C++ and CUDA files below the folder; none when it is not there.
std::vector<Source> sources_below(const std::string& root, const std::string& folder);

}  // namespace layers
