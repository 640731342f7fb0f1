// Ollama's store on disk. Everything read from it is checked: a manifest can be damaged, a blob missing.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/json.h"
#include "store/places.h"
#include "store/sha256.h"

namespace coterie::store {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t most_manifest_bytes = 4 << 20;

std::string text_of(const Json& object, const char* key) {
    const Json* found = object.find(key);
    return found && found->is_string() ? found->get<std::string>() : std::string();
}

// "sha256:<hex>" or "sha256-<hex>" -> hex, lower case; empty if it is none.
std::string digest_of(std::string_view text) {
    if (text.size() != 71 || !equal_names(text.substr(0, 6), "sha256") || (text[6] != ':' && text[6] != '-'))
        return {};
    std::string hex(text.substr(7));
    std::transform(hex.begin(), hex.end(), hex.begin(),
                   [](unsigned char c) { return char(std::tolower(c)); });
    return is_hex_digest(hex) ? hex : std::string();
}

// Bytes that came of a download that isn't finished: its sidecars tell, the file has its full size from the
// start.
uint64_t downloaded(const std::string& blob) {
    uint64_t sum = 0;
    for (int i = 0; i < 64; ++i) {
        std::error_code gone;
        const std::string sidecar = blob + "-partial-" + std::to_string(i);
        if (!fs::is_regular_file(sidecar, gone)) continue;
        const std::optional<Json> part = Json::parse(read_small_file(sidecar, 4096));
        const Json* completed = part ? part->find("Completed") : nullptr;
        if (completed && completed->is_number_unsigned()) sum += completed->get<uint64_t>();
    }
    return sum;
}

void look_at(Part& part, const std::string& root) {
    std::error_code error;
    part.path = root + "/blobs/sha256-" + part.digest;
    if (!fs::exists(part.path, error) && fs::exists(root + "/blobs/sha256:" + part.digest, error))
        part.path = root + "/blobs/sha256:" + part.digest;
    if (fs::is_regular_file(part.path, error)) {
        part.found = fs::file_size(part.path, error);
        part.state = part.found == part.size ? Part::State::complete : Part::State::wrong_size;
    } else if (fs::exists(part.path + "-partial", error)) {
        part.state = Part::State::unfinished;
        part.found = downloaded(part.path);
    } else {
        part.state = Part::State::missing;
    }
}

std::string problem_of(const StoredModel& model) {
    const std::string again = fmt::format("fetch it again with: ollama pull {}", model.name);
    for (const Part& part : model.parts) {
        switch (part.state) {
            case Part::State::complete:
                break;
            case Part::State::missing:
                return fmt::format("'{}' lacks its {} ({}, {} bytes); {}", model.name, part.type, part.path,
                                   part.size, again);
            case Part::State::unfinished:
                return fmt::format(
                    "the download of '{}' is not finished: {} of {} bytes of its {} are there; {}",
                    model.name, part.found, part.size, part.type, again);
            case Part::State::wrong_size:
                return fmt::format("the {} of '{}' has {} bytes, expected {} ({}); {}", part.type, model.name,
                                   part.found, part.size, part.path, again);
        }
    }
    if (model.path.empty())
        return model.format == "safetensors"
                   ? fmt::format("'{}' is stored as safetensors, which can't be loaded; get a GGUF of it",
                                 model.name)
                   : fmt::format("'{}' has no weights on this machine (a name for a model elsewhere)",
                                 model.name);
    return {};
}

void read_config(StoredModel& model, const Part& config) {
    if (config.state != Part::State::complete) return;
    const std::optional<Json> read = Json::parse(read_small_file(config.path, most_manifest_bytes));
    if (!read || !read->is_object()) return;
    const Json& facts = *read;
    model.format = text_of(facts, "model_format");
    model.family = text_of(facts, "model_family");
    model.parameter_size = text_of(facts, "model_type");
    model.quantization = text_of(facts, "file_type");
    model.renderer = text_of(facts, "renderer");
    model.parser = text_of(facts, "parser");
    if (const Json* list = facts.find("model_families"); list && list->is_array())
        for (const Json& family : *list)
            if (family.is_string()) model.families.push_back(family.get<std::string>());
}

Part read_part(const Json& layer, const std::string& type, const std::string& root) {
    Part part;
    part.type = type;
    part.digest = digest_of(text_of(layer, "digest"));
    if (const Json* size = layer.find("size"); size && size->is_number_unsigned())
        part.size = size->get<uint64_t>();
    if (!part.digest.empty())
        look_at(part, root);
    else
        part.state = Part::State::missing;
    return part;
}

StoredModel read_manifest(const std::string& root, const std::string& path, const ModelName& name) {
    StoredModel model;
    model.name = name.shortest();
    model.source = "ollama";
    std::error_code error;
    const auto time = fs::last_write_time(path, error);
    model.modified_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::file_clock::to_sys(time).time_since_epoch())
                            .count();
    try {
        const std::string text = read_small_file(path, most_manifest_bytes);
        model.digest = sha256_hex(text);
        const Json manifest = Json::parse(text).value_or(Json());
        const Json* layers = manifest.find("layers");
        if (!layers || !layers->is_array()) {
            model.problem =
                fmt::format("the manifest of '{}' ({}) is damaged; fetch it again with: ollama pull {}",
                            model.name, path, model.name);
            return model;
        }
        if (const Json* config = manifest.find("config"); config && config->is_object()) {
            model.parts.push_back(read_part(*config, "config", root));
            read_config(model, model.parts.back());
        }
        constexpr std::string_view prefix = "application/vnd.ollama.image.";
        for (const Json& layer : *layers) {
            if (!layer.is_object()) continue;
            const std::string media = text_of(layer, "mediaType");
            if (media.compare(0, prefix.size(), prefix) != 0) continue;
            model.parts.push_back(read_part(layer, media.substr(prefix.size()), root));
        }
    } catch (const Failure& failure) {
        model.problem = failure.message();
        return model;
    }
    for (const Part& part : model.parts) {
        model.size += part.size;
        if (part.type == "model" && model.path.empty()) model.path = part.path;
    }
    model.problem = problem_of(model);
    return model;
}

std::vector<fs::path> entries(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
        if (at->path().filename().string().front() != '.') found.push_back(at->path());
    if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
        fail(Status::not_found,
             "the model store '{}' can't be read ({}); join the group that owns it (usermod -aG ollama) and "
             "log "
             "in again, or run as that user",
             folder.string(), error.message());
    return found;
}

void visit(const std::string& root, const std::function<void(const std::string&, const ModelName&)>& take) {
    for (const fs::path& host : entries(fs::path(root) / "manifests"))
        for (const fs::path& space : entries(host))
            for (const fs::path& model : entries(space))
                for (const fs::path& tag : entries(model)) {
                    const auto name =
                        ModelName::parse(host.filename().string() + "/" + space.filename().string() + "/" +
                                         model.filename().string() + ":" + tag.filename().string());
                    std::error_code error;
                    if (name && fs::is_regular_file(tag, error)) take(tag.string(), *name);
                }
}

}  // namespace

std::vector<StoredModel> list_ollama(const std::string& root) {
    std::vector<StoredModel> models;
    visit(root, [&](const std::string& path, const ModelName& name) {
        models.push_back(read_manifest(root, path, name));
    });
    return models;
}

std::optional<StoredModel> find_ollama(const std::string& root, const ModelName& name) {
    std::optional<StoredModel> model;
    visit(root, [&](const std::string& path, const ModelName& other) {
        const bool same = equal_names(name.host, other.host) && equal_names(name.space, other.space) &&
                          equal_names(name.model, other.model) && equal_names(name.tag, other.tag);
        if (same && !model) model = read_manifest(root, path, other);
    });
    return model;
}

std::optional<StoredModel> find_ollama_blob(const std::string& root, const std::string& digest) {
    const std::string hex = digest_of(digest);
    std::error_code error;
    const std::string path = root + "/blobs/sha256-" + hex;
    if (hex.empty() || !fs::is_regular_file(path, error)) return std::nullopt;
    StoredModel model = of_file(path, "ollama", "sha256:" + hex);
    model.parts.front().digest = hex;
    return model;
}

}  // namespace coterie::store
