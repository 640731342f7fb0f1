#include "source.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace layers {
namespace {

bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// The end (past it) of the literal that starts at text[at], a quote.
size_t literal_end(const std::string& text, size_t at) {
    const bool raw = text[at] == '"' && at > 0 && text[at - 1] == 'R';
    if (raw) {
        const size_t open = text.find('(', at);
        if (open == std::string::npos) return text.size();
        const std::string close = ")" + text.substr(at + 1, open - at - 1) + "\"";
        const size_t end = text.find(close, open);
        return end == std::string::npos ? text.size() : end + close.size();
    }
    for (size_t i = at + 1; i < text.size(); ++i) {
        if (text[i] == '\\')
            ++i;
        else if (text[i] == text[at] || text[i] == '\n')
            return i + 1;
    }
    return text.size();
}

}  // namespace

std::string strip(const std::string& text) {
    std::string out = text;
    const auto blank = [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end && i < out.size(); ++i)
            if (out[i] != '\n') out[i] = ' ';
    };
    for (size_t i = 0; i < text.size();) {
        size_t end = i + 1;
        if (text.compare(i, 2, "//") == 0) {
            end = std::min(text.find('\n', i), text.size());
            blank(i, end);
        } else if (text.compare(i, 2, "/*") == 0) {
            const size_t close = text.find("*/", i + 2);
            end = close == std::string::npos ? text.size() : close + 2;
            blank(i, end);
        } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !is_word(text[i - 1])))) {  // not 1'000
            end = literal_end(text, i);
            blank(i + 1, end - 1);
        }
        i = end;
    }
    return out;
}

std::vector<Include> includes_of(const std::string& text) {
    std::vector<Include> found;
    std::istringstream lines(text);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
        size_t at = line.find_first_not_of(" \t");
        if (at == std::string::npos || line[at] != '#') continue;
        at = line.find_first_not_of(" \t", at + 1);
        if (at == std::string::npos || line.compare(at, 7, "include") != 0) continue;
        const size_t open = line.find_first_of("<\"", at);
        if (open == std::string::npos) continue;
        const size_t close = line.find(line[open] == '<' ? '>' : '"', open + 1);
        found.push_back({line.substr(open + 1, close - open - 1), line[open] == '"', number});
    }
    return found;
}

std::vector<Source> sources_below(const std::string& root, const std::string& folder) {
    namespace fs = std::filesystem;
    constexpr std::array endings = {".c", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".inc"};
    std::vector<Source> sources;
    if (!fs::exists(fs::path(root) / folder)) return sources;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(root) / folder)) {
        if (std::find(endings.begin(), endings.end(), entry.path().extension().string()) == endings.end())
            continue;
        std::ifstream in(entry.path());
        const std::string text{std::istreambuf_iterator<char>(in), {}};
        sources.push_back(
            {fs::relative(entry.path(), root).generic_string(), strip(text), includes_of(text)});
    }
    std::sort(sources.begin(), sources.end(),
              [](const Source& a, const Source& b) { return a.path < b.path; });
    return sources;
}

}  // namespace layers
