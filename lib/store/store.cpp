// All places together: where they are, and what a name means.
#include "store/store.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "gguf/file.h"
#include "store/places.h"
#include "store/sha256.h"

namespace coterie::store {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    std::string text = value ? value : "";
    // As Ollama does: people quote in unit files.
    while (!text.empty() && std::string_view(" \t\"'").find(text.back()) != std::string_view::npos)
        text.pop_back();
    text.erase(0, std::min(text.size(), text.find_first_not_of(" \t\"'")));
    return text;
}

bool is_folder(const std::string& path) {
    std::error_code error;
    return !path.empty() && fs::is_directory(path, error);
}

bool looks_like_path(const std::string& text) {
    return text.front() == '/' || text.front() == '.' || text.front() == '~' ||
           (text.size() > 5 && equal_names(text.substr(text.size() - 5), ".gguf"));
}

}  // namespace

Store::Store(const std::string& models_dir) {
    if (!models_dir.empty()) {
        if (!is_folder(models_dir))
            fail(Status::not_found, "the models folder '{}' does not exist or can't be read", models_dir);
        (is_folder(models_dir + "/manifests") ? ollama_roots_ : plain_folders_).push_back(models_dir);
    }
    const std::string home = environment("HOME");
    std::string own = environment("COTERIE_MODELS");
    if (own.empty()) {
        const std::string data = environment("XDG_DATA_HOME");
        own = (data.empty() ? home + "/.local/share" : data) + "/coterie/models";
    }
    const std::string chosen = environment("OLLAMA_MODELS");
    std::vector<std::string> roots{own, chosen.empty() ? home + "/.ollama/models" : chosen};
    if (chosen.empty())
        for (const char* root : {"/usr/share/ollama/.ollama/models", "/var/lib/ollama/models",
                                 "/var/lib/ollama/.ollama/models", "/var/lib/ollama"})
            roots.push_back(root);
    for (const std::string& root : roots)
        if (is_folder(root + "/manifests") &&
            std::find(ollama_roots_.begin(), ollama_roots_.end(), root) == ollama_roots_.end())
            ollama_roots_.push_back(root);
    std::string hub = environment("HF_HUB_CACHE");
    if (hub.empty()) {
        const std::string hf_home = environment("HF_HOME");
        hub = hf_home.empty() ? home + "/.cache/huggingface/hub" : hf_home + "/hub";
    }
    if (is_folder(hub)) hub_folders_.push_back(hub);
    for (const auto* list : {&plain_folders_, &ollama_roots_, &hub_folders_})
        places_.insert(places_.end(), list->begin(), list->end());
}

std::vector<StoredModel> Store::list() const {
    std::vector<StoredModel> models;
    std::set<std::string> names;
    const auto add = [&](std::vector<StoredModel> more) {
        for (StoredModel& model : more)
            if (names.insert(model.name).second) models.push_back(std::move(model));
    };
    for (const std::string& folder : plain_folders_) add(list_folder(folder));
    for (const std::string& root : ollama_roots_) add(list_ollama(root));
    for (const std::string& folder : hub_folders_) add(list_hub(folder));
    std::stable_sort(models.begin(), models.end(), [](const StoredModel& a, const StoredModel& b) {
        return a.modified_ns > b.modified_ns;
    });
    return models;
}

StoredModel Store::find(const std::string& name) const {
    std::error_code error;
    if (name.empty()) fail(Status::invalid_argument, "the name of the model is empty");
    if (fs::is_regular_file(name, error)) return of_file(name, "file", name);
    for (const std::string& folder : plain_folders_)
        if (auto model = find_folder(folder, name)) return *model;
    for (const std::string& root : ollama_roots_) {
        if (auto model = find_ollama_blob(root, name)) return *model;
        if (const auto parsed = ModelName::parse(name))
            if (auto model = find_ollama(root, *parsed)) return *model;
    }
    for (const std::string& folder : hub_folders_)
        if (auto model = find_hub(folder, name)) return *model;
    if (places_.empty())
        fail(Status::not_found,
             "there is no file '{}', and no model store on this machine in which it could be a name", name);
    fail(Status::not_found,
         "there is no file '{}', and no model of that name in {}; `coterie list` shows all", name,
         fmt::join(places_, ", "));
}

StoredModel resolve(const std::string& name_or_path, const std::string& models_dir) {
    std::error_code error;
    // A path that does not exist is left to the reader of the file, which says so best.
    if (name_or_path.empty() || looks_like_path(name_or_path) || fs::exists(name_or_path, error)) {
        StoredModel model;
        model.name = model.path = name_or_path;
        model.source = "file";
        return model;
    }
    StoredModel model = Store(models_dir).find(name_or_path);
    if (!model.problem.empty()) fail(Status::bad_model, "{}", model.problem);
    return model;
}

StoredTexts read_texts(const StoredModel& model) {
    constexpr uint64_t most = 16 << 20;
    StoredTexts texts;
    for (const Part& part : model.parts) {
        if (part.state != Part::State::complete || part.size > most) continue;
        if (part.type == "template" || part.type == "prompt")
            texts.chat_template = read_small_file(part.path, most);
        else if (part.type == "system")
            texts.system = read_small_file(part.path, most);
        else if (part.type == "params")
            texts.parameters_json = read_small_file(part.path, most);
        else if (part.type == "messages")
            texts.messages_json = read_small_file(part.path, most);
        else if (part.type == "license")
            texts.licenses.push_back(read_small_file(part.path, most));
    }
    return texts;
}

std::vector<HashedPart> verify_hashes(const StoredModel& model, const ProgressCallback& progress) {
    std::vector<HashedPart> broken;
    uint64_t done = 0, total = 0;
    for (const Part& part : model.parts)
        if (!part.digest.empty()) total += part.found;
    std::vector<char> piece(1 << 20);
    for (const Part& part : model.parts) {
        if (part.digest.empty()) continue;
        if (part.state == Part::State::missing || part.state == Part::State::unfinished) {
            broken.push_back({part, {}});
            continue;
        }
        std::ifstream file(part.path, std::ios::binary);
        if (!file) fail(Status::not_found, "'{}' can't be opened; check its permissions", part.path);
        Sha256 hash;
        while (file.read(piece.data(), std::streamsize(piece.size())) || file.gcount() > 0) {
            hash.add(std::as_bytes(std::span(piece.data(), size_t(file.gcount()))));
            done += uint64_t(file.gcount());
            report_progress(progress, "hashing", std::min(done, total), total);
        }
        if (const std::string actual = hash.hex(); actual != part.digest || part.found != part.size)
            broken.push_back({part, actual});
    }
    return broken;
}

}  // namespace coterie::store
