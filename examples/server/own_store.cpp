// Names, digests, blobs and manifests on disk.
#include "own_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "errors.h"

namespace server {
namespace {

namespace fs = std::filesystem;

constexpr const char* default_host = "registry.ollama.ai";

bool is_part(const std::string& part, size_t longest, const char* besides) {
    if (part.empty() || part.size() > longest) return false;
    const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    if (!plain(part[0]) && part[0] != '_') return false;
    return std::all_of(part.begin(), part.end(),
                       [&](char c) { return plain(c) || std::strchr(besides, c) != nullptr; });
}

bool equal_names(const std::string& a, const std::string& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// Whole or not at all: written beside its place, forced to the disk, then renamed.
void write_file(const std::string& path, const std::string& content) {
    const std::string beside = fmt::format("{}.{}.new", path, getpid());
    const int file = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    const bool written = file >= 0 &&
                         write(file, content.data(), content.size()) == ssize_t(content.size()) &&
                         fsync(file) == 0;
    const std::string why = std::strerror(errno);
    if (file >= 0) close(file);
    if (!written || std::rename(beside.c_str(), path.c_str()) != 0) {
        unlink(beside.c_str());
        throw HttpError(500, fmt::format("'{}' can't be written: {}", path, why));
    }
}

json read_json(const std::string& path) {
    std::ifstream file(path);
    return json::parse(file, nullptr, false);
}

std::set<std::string> digests_of(const json& manifest) {
    std::set<std::string> digests;
    if (!manifest.is_object()) return digests;
    const auto take = [&](const json& one) {
        if (one.is_object() && one.contains("digest") && one["digest"].is_string())
            digests.insert(digest_of(one["digest"]));
    };
    if (manifest.contains("config")) take(manifest["config"]);
    if (manifest.contains("layers"))
        for (const json& one : manifest["layers"]) take(one);
    digests.erase("");
    return digests;
}

}  // namespace

StoreName StoreName::parse(const std::string& given) {
    const HttpError wrong(400, fmt::format("invalid model name '{}'", given));
    StoreName name;
    std::string text = given;
    if (const size_t scheme = text.find("://"); scheme != std::string::npos) {
        name.scheme = text.substr(0, scheme);
        text.erase(0, scheme + 3);
        if (name.scheme != "http" && name.scheme != "https") throw wrong;
    }
    const size_t slash = text.rfind('/'), colon = text.rfind(':');
    if (colon != std::string::npos && (slash == std::string::npos || colon > slash)) {
        name.tag = text.substr(colon + 1);
        text.erase(colon);
    }
    std::vector<std::string> parts{""};
    for (const char c : text) {
        if (c == '/')
            parts.emplace_back();
        else
            parts.back() += c;
    }
    if (parts.size() > 3) throw wrong;
    name.model = parts.back();
    if (parts.size() > 1) name.space = parts[parts.size() - 2];
    name.has_host = parts.size() == 3;
    name.host = name.has_host ? parts[0] : default_host;
    if (!is_part(name.host, 350, "-_.:") || !is_part(name.space, 80, "-_") ||
        !is_part(name.model, 80, "-_.") || !is_part(name.tag, 80, "-_."))
        throw wrong;
    return name;
}

std::string StoreName::path() const {
    return host + "/" + space + "/" + model + "/" + tag;
}

std::string StoreName::shortest() const {
    std::string text;
    if (!equal_names(host, default_host)) text = host + "/";
    if (!text.empty() || !equal_names(space, "library")) text += space + "/";
    return text + model + ":" + tag;
}

std::string digest_of(const std::string& text) {
    if (text.size() != 71 || text.compare(0, 6, "sha256") != 0 || (text[6] != ':' && text[6] != '-'))
        return {};
    std::string hex = text.substr(7);
    for (char& c : hex) {
        if (!std::isxdigit(static_cast<unsigned char>(c))) return {};
        c = char(std::tolower(static_cast<unsigned char>(c)));
    }
    return hex;
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
    EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_), EVP_sha256(), nullptr);
}
Sha256::~Sha256() {
    EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_));
}
void Sha256::add(const char* data, size_t length) {
    EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), data, length);
}
std::string Sha256::hex() {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_), bytes, &length);
    std::string text;
    for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", bytes[i]);
    return text;
}

std::string hash_file(const std::string& path, const std::function<bool()>& gone) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw HttpError(500, fmt::format("'{}' can't be read", path));
    Sha256 hash;
    std::vector<char> piece(1 << 20);
    while (file.read(piece.data(), std::streamsize(piece.size())) || file.gcount() > 0) {
        hash.add(piece.data(), size_t(file.gcount()));
        if (gone()) throw ClientGone();
    }
    return hash.hex();
}

json layer(const std::string& kind, const std::string& digest, uint64_t size) {
    return {{"mediaType", "application/vnd.ollama.image." + kind},
            {"digest", "sha256:" + digest},
            {"size", size}};
}

json manifest_of(const json& config_layer, const json& layers) {
    json config = config_layer;
    config["mediaType"] = "application/vnd.docker.container.image.v1+json";
    return {{"schemaVersion", 2},
            {"mediaType", "application/vnd.docker.distribution.manifest.v2+json"},
            {"config", std::move(config)},
            {"layers", layers}};
}

std::string OwnStore::default_root() {
    const auto variable = [](const char* name) {
        const char* value = std::getenv(name);
        return std::string(value ? value : "");
    };
    if (const std::string own = variable("COTERIE_MODELS"); !own.empty()) return own;
    const std::string data = variable("XDG_DATA_HOME");
    return (data.empty() ? variable("HOME") + "/.local/share" : data) + "/coterie/models";
}

bool OwnStore::has_blob(const std::string& digest) const {
    std::error_code error;
    return fs::is_regular_file(blob_path(digest), error);
}

void OwnStore::prepare() const {
    std::error_code error;
    for (const char* folder : {"/manifests", "/blobs"}) {
        fs::create_directories(root_ + folder, error);
        if (error)
            throw HttpError(
                500, fmt::format("the store '{}' can't be written: {}; choose another with --store", root_,
                                 error.message()));
    }
}

void OwnStore::need_space(uint64_t bytes) const {
    std::error_code error;
    const fs::space_info space = fs::space(root_, error);
    if (!error && space.available < bytes)
        throw HttpError(500, fmt::format("the disk of '{}' has {} bytes free, and the model needs {}", root_,
                                         uint64_t(space.available), bytes));
}

std::string OwnStore::add_text(const std::string& content) {
    Sha256 hash;
    hash.add(content.data(), content.size());
    const std::string digest = hash.hex();
    if (!has_blob(digest)) write_file(blob_path(digest), content);
    return digest;
}

void OwnStore::add_link(const std::string& digest, const std::string& file) {
    if (has_blob(digest)) return;
    std::error_code error;
    const fs::path target = fs::canonical(file, error);
    if (!error) fs::create_hard_link(target, blob_path(digest), error);
    if (error) {  // another disk, or another's file
        error.clear();
        fs::remove(blob_path(digest), error);  // a link whose file is gone
        fs::create_symlink(target, blob_path(digest), error);
    }
    if (error)
        throw HttpError(500, fmt::format("'{}' can't be taken into the store: {}", file, error.message()));
}

void OwnStore::visit(const std::function<void(const std::string&)>& function) const {
    std::error_code error;
    const fs::path top = root_ + "/manifests";
    for (fs::recursive_directory_iterator at(top, error), end; !error && at != end; at.increment(error))
        if (at.depth() == 3 && at->is_regular_file(error))
            function(fs::relative(at->path(), top, error).string());
}

std::string OwnStore::manifest_path(const StoreName& name) const {
    std::string path = name.path();
    visit([&](const std::string& other) {
        if (equal_names(other, path)) path = other;
    });
    return root_ + "/manifests/" + path;
}

bool OwnStore::has(const StoreName& name) const {
    std::lock_guard lock(mutex_);
    std::error_code error;
    return fs::is_regular_file(manifest_path(name), error);
}

void OwnStore::write_manifest(const StoreName& name, const std::string& manifest) {
    std::lock_guard lock(mutex_);
    const std::string path = manifest_path(name);
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    write_file(path, manifest);
}

bool OwnStore::remove(const StoreName& name) {
    std::lock_guard lock(mutex_);
    const std::string path = manifest_path(name);
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return false;
    std::set<std::string> left_over = digests_of(read_json(path));
    if (!fs::remove(path, error) || error)
        throw HttpError(500, fmt::format("'{}' can't be deleted: {}", path, error.message()));
    for (fs::path folder = fs::path(path).parent_path(); folder.filename() != "manifests";
         folder = folder.parent_path())
        if (!fs::remove(folder, error) || error) break;  // others are in it
    visit([&](const std::string& other) {
        for (const std::string& digest : digests_of(read_json(root_ + "/manifests/" + other)))
            left_over.erase(digest);
    });
    for (const std::string& digest : left_over)
        if (!kept_.count(digest)) fs::remove(blob_path(digest), error);
    return true;
}

OwnStore::Keep::Keep(OwnStore& store, std::vector<std::string> digests)
    : store_(store), digests_(std::move(digests)) {
    std::lock_guard lock(store_.mutex_);
    store_.kept_.insert(digests_.begin(), digests_.end());
}

OwnStore::Keep::~Keep() {
    std::lock_guard lock(store_.mutex_);
    for (const std::string& digest : digests_) store_.kept_.erase(store_.kept_.find(digest));
}

OwnStore::Claim::Claim(OwnStore& store, std::string digest, const std::function<bool()>& gone)
    : store_(store), digest_(std::move(digest)) {
    std::unique_lock lock(store_.mutex_);
    while (!store_.claimed_.insert(digest_).second) {
        store_.released_.wait_for(lock, std::chrono::milliseconds(200));
        if (gone()) throw ClientGone();
    }
}

OwnStore::Claim::~Claim() {
    {
        std::lock_guard lock(store_.mutex_);
        store_.claimed_.erase(digest_);
    }
    store_.released_.notify_all();
}

}  // namespace server
