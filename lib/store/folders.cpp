// Plain folders of GGUF files and the hub's cache, which is such a folder of links for each repository.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "gguf/file.h"
#include "store/places.h"
#include "store/sha256.h"

namespace coterie::store {
namespace {

namespace fs = std::filesystem;

int64_t modified_ns(const fs::path& path) {
    std::error_code error;
    const auto time = fs::last_write_time(path, error);
    if (error) return 0;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::file_clock::to_sys(time).time_since_epoch())
        .count();
}

bool is_model_file(const fs::path& path) {
    const std::string name = path.filename().string();
    if (!equal_names(path.extension().string(), ".gguf") || name.front() == '.') return false;
    if (name.find("mmproj") != std::string::npos) return false;
    const auto shard = gguf::parse_shard_name(path.string());
    return !shard || shard->shard == 0;
}

// NAME of NAME.gguf or NAME-00001-of-00002.gguf.
std::string stem_of(const fs::path& path) {
    if (const auto shard = gguf::parse_shard_name(path.string()))
        return fs::path(shard->stem).filename().string();
    return path.stem().string();
}

std::vector<fs::path> model_files(const fs::path& folder) {
    std::vector<fs::path> files;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        std::error_code inner;
        if (at->is_directory(inner)) {
            for (fs::directory_iterator below(at->path(), inner); !inner && below != end;
                 below.increment(inner))
                if (is_model_file(below->path())) files.push_back(below->path());
        } else if (is_model_file(at->path())) {
            files.push_back(at->path());
        }
    }
    std::sort(files.begin(), files.end());
    return files;
}

Part part_of(const std::string& path) {
    Part part;
    part.type = "model";
    part.path = path;
    std::error_code error;
    part.size = part.found = fs::file_size(path, error);
    if (error) {
        part.size = part.found = 0;
        part.state = Part::State::missing;
    }
    // The hub's blobs are named by their SHA-256.
    const fs::path target = fs::is_symlink(path, error) ? fs::read_symlink(path, error) : fs::path(path);
    if (const std::string name = target.filename().string(); is_hex_digest(name)) part.digest = name;
    return part;
}

// The revision that `main` means, else the newest.
fs::path snapshot_of(const fs::path& repository) {
    std::ifstream ref(repository / "refs" / "main");
    std::string revision;
    std::error_code error;
    if (ref >> revision; !revision.empty() && revision.find('/') == std::string::npos)
        if (fs::is_directory(repository / "snapshots" / revision, error))
            return repository / "snapshots" / revision;
    fs::path newest;
    for (fs::directory_iterator at(repository / "snapshots", error), end; !error && at != end;
         at.increment(error))
        if (newest.empty() || modified_ns(at->path()) > modified_ns(newest)) newest = at->path();
    return newest;
}

bool ends_with(std::string_view text, std::string_view end) {
    return text.size() >= end.size() && equal_names(text.substr(text.size() - end.size()), end);
}

// A tag names a file by its whole stem or by its last word: Q4_K_M of Model-Q4_K_M.gguf.
bool is_tag_of(std::string_view tag, std::string_view stem) {
    return equal_names(tag, stem) || ends_with(stem, "-" + std::string(tag)) ||
           ends_with(stem, "." + std::string(tag));
}

}  // namespace

std::string read_small_file(const std::string& path, uint64_t most) {
    std::ifstream file(path, std::ios::binary);
    if (!file) fail(Status::not_found, "'{}' can't be opened; check its permissions", path);
    std::string text;
    char piece[4096];
    while (file.read(piece, sizeof piece) || file.gcount() > 0) {
        text.append(piece, size_t(file.gcount()));
        if (text.size() > most)
            fail(Status::bad_model, "'{}' is longer than {} bytes, which such a file never is", path, most);
    }
    return text;
}

StoredModel of_file(const std::string& path, const std::string& source, const std::string& name) {
    StoredModel model;
    model.name = name;
    model.source = source;
    model.path = path;
    model.modified_ns = modified_ns(path);
    const auto shard = gguf::parse_shard_name(path);
    for (int i = 0; i < (shard ? std::min(shard->shards, 10000) : 1); ++i) {
        model.parts.push_back(part_of(shard ? shard->path(i) : path));
        const Part& part = model.parts.back();
        model.size += part.size;
        if (part.state == Part::State::missing && model.problem.empty())
            model.problem = fmt::format("'{}' is missing, one of the {} files of {}; fetch it", part.path,
                                        shard ? shard->shards : 1, name);
    }
    return model;
}

std::vector<StoredModel> list_folder(const std::string& folder) {
    std::vector<StoredModel> models;
    for (const fs::path& file : model_files(folder))
        models.push_back(of_file(file.string(), "folder", stem_of(file) + ":latest"));
    return models;
}

std::optional<StoredModel> find_folder(const std::string& folder, const std::string& name) {
    for (const fs::path& file : model_files(folder)) {
        const std::string stem = stem_of(file);
        if (equal_names(stem, name) || equal_names(stem + ":latest", name) ||
            equal_names(file.filename().string(), name))
            return of_file(file.string(), "folder", stem + ":latest");
    }
    return std::nullopt;
}

std::vector<StoredModel> list_hub(const std::string& folder) {
    std::vector<StoredModel> models;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        std::string name = at->path().filename().string();
        if (name.compare(0, 8, "models--") != 0) continue;
        name.erase(0, 8);
        if (const size_t dashes = name.find("--"); dashes != std::string::npos) name.replace(dashes, 2, "/");
        for (const fs::path& file : model_files(snapshot_of(at->path())))
            models.push_back(of_file(file.string(), "huggingface", name + ":" + stem_of(file)));
    }
    return models;
}

std::optional<StoredModel> find_hub(const std::string& folder, const std::string& name) {
    std::string_view wanted = name;
    for (const std::string_view host : {"hf.co/", "huggingface.co/"})
        if (wanted.substr(0, host.size()) == host) wanted.remove_prefix(host.size());
    const size_t colon = wanted.rfind(':');
    const std::string_view repository = wanted.substr(0, colon);
    const std::string_view tag = colon == std::string_view::npos ? "latest" : wanted.substr(colon + 1);
    std::optional<StoredModel> first;
    for (StoredModel& model : list_hub(folder)) {
        const size_t at = model.name.rfind(':');
        if (!equal_names(model.name.substr(0, at), repository)) continue;
        if (is_tag_of(tag, std::string_view(model.name).substr(at + 1))) return model;
        if (!first && tag == "latest") first = std::move(model);
    }
    return first;
}

}  // namespace coterie::store
