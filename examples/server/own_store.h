// The server's own store of models: the only folder in which it writes. Laid out as Ollama's, so that every
// reader of those reads it: manifests/<host>/<space>/<model>/<tag> and blobs/sha256-<digest>. A manifest is
// written last and at one stroke: a name always means blobs that were complete and had their SHA-256.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace server {

using json = nlohmann::ordered_json;

// [scheme://][host/][space/]model[:tag]
struct StoreName {
    std::string scheme, host, space = "library", model, tag = "latest";
    bool has_host = false;                            // written, not the default
    static StoreName parse(const std::string& text);  // HttpError 400
    std::string path() const;                         // host/space/model/tag
    std::string shortest() const;
};

// "sha256:<hex>" or "sha256-<hex>" -> 64 digits; empty if it is none.
std::string digest_of(const std::string& text);

class Sha256 {
  public:
    Sha256();
    ~Sha256();
    Sha256(const Sha256&) = delete;
    Sha256& operator=(const Sha256&) = delete;
    void add(const char* data, size_t length);
    std::string hex();  // ends it: call once

  private:
    void* context_;
};

class OwnStore {
  public:
    explicit OwnStore(std::string root) : root_(std::move(root)) {}
    static std::string default_root();  // COTERIE_MODELS, or the user's data folder

    std::string blob_path(const std::string& digest) const { return root_ + "/blobs/sha256-" + digest; }
    std::string partial_path(const std::string& digest) const { return blob_path(digest) + "-partial"; }
    bool has_blob(const std::string& digest) const;
    bool has(const StoreName& name) const;
    void prepare() const;                              // makes the folders; HttpError 500 when it can't
    void need_space(uint64_t bytes) const;             // HttpError 500 when the disk has less
    std::string add_text(const std::string& content);  // -> digest
    // A blob whose content is a file elsewhere: a second name of that file, or a link to it.
    void add_link(const std::string& digest, const std::string& file);
    void write_manifest(const StoreName& name, const std::string& manifest);
    bool remove(const StoreName& name);  // and the blobs that no other name needs; false if there is none

    // Blobs that a manifest yet to be written needs are not taken for left-overs while one of these lives.
    class Keep {
      public:
        Keep(OwnStore& store, std::vector<std::string> digests);
        ~Keep();
        Keep(const Keep&) = delete;
        Keep& operator=(const Keep&) = delete;

      private:
        OwnStore& store_;
        const std::vector<std::string> digests_;
    };

    // While one is held nobody else fetches that blob.
    class Claim {
      public:
        // Waits for the one who has it; `gone` ends the waiting with ClientGone.
        Claim(OwnStore& store, std::string digest, const std::function<bool()>& gone);
        ~Claim();
        Claim(const Claim&) = delete;
        Claim& operator=(const Claim&) = delete;

      private:
        OwnStore& store_;
        const std::string digest_;
    };

  private:
    std::string manifest_path(const StoreName& name) const;  // of an equal name, if there is one
    void visit(const std::function<void(const std::string& path)>& function) const;

    const std::string root_;
    mutable std::recursive_mutex mutex_;
    std::condition_variable_any released_;
    std::set<std::string> claimed_;
    std::multiset<std::string> kept_;
};

// SHA-256 of a file; `gone` ends it with ClientGone.
std::string hash_file(const std::string& path, const std::function<bool()>& gone);
json layer(const std::string& kind, const std::string& digest, uint64_t size);
json manifest_of(const json& config_layer, const json& layers);

}  // namespace server
