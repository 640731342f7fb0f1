// The models that lie on this machine, wherever other programs put them: Ollama's stores, the cache of
// Hugging Face's hub, plain folders of GGUF files. For reading only: nothing here creates, changes or deletes
// a file. A part is complete when its name and its size are those that the manifest says; hashes are checked
// on demand.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"

namespace coterie::store {

struct Part {
    enum class State { complete, missing, unfinished, wrong_size };
    std::string type;    // "model", "template", "params", ...: the last word of its media type
    std::string digest;  // 64 hexadecimal digits; empty when nobody recorded one
    std::string path;
    uint64_t size = 0;   // that it should have
    uint64_t found = 0;  // that it has; of an unfinished download: bytes that came
    State state = State::complete;
};

struct StoredModel {
    std::string name;         // shortest form, with its tag
    std::string source;       // "ollama", "huggingface", "folder", "file"
    std::string path;         // of the GGUF file, or of the first one of a set; empty if there is none
    std::string digest;       // of the manifest; empty outside Ollama's stores
    uint64_t size = 0;        // of all parts
    int64_t modified_ns = 0;  // since 1970
    std::vector<Part> parts;
    std::string format, family, parameter_size, quantization, renderer,
        parser;  // as the store says, or empty
    std::vector<std::string> families;
    std::string problem;  // why it can't be used and what to do, one sentence; empty if it can
};

// Texts that a store keeps beside the weights.
struct StoredTexts {
    std::string chat_template, system, parameters_json, messages_json;  // empty if there are none
    std::vector<std::string> licenses;
};

class Store {
  public:
    // models_dir: a folder of GGUF files or a store's root, looked at first; may be empty. The others come
    // from the environment: COTERIE_MODELS, else the user's data folder, where coterie-server puts what it
    // fetches; OLLAMA_MODELS, else the user's and the service's store; HF_HUB_CACHE, HF_HOME.
    explicit Store(const std::string& models_dir = {});

    std::vector<StoredModel> list() const;  // newest first
    // A name, `sha256:` digest or path; throws not_found with where it looked.
    StoredModel find(const std::string& name) const;
    const std::vector<std::string>& places() const { return places_; }

  private:
    std::vector<std::string> ollama_roots_, hub_folders_, plain_folders_;
    std::vector<std::string> places_;  // all of them that exist
};

// The GGUF file that a name, digest or path means; a path that exists stands for itself. Throws not_found, or
// bad_model with the problem.
StoredModel resolve(const std::string& name_or_path, const std::string& models_dir = {});

StoredTexts read_texts(const StoredModel& model);

struct HashedPart {
    Part part;
    std::string actual;  // digest found
};
// Hashes every part that has a digest. Returns those that differ. Progress counts bytes, as "hashing".
std::vector<HashedPart> verify_hashes(const StoredModel& model, const ProgressCallback& progress = {});

std::string list_json(const std::vector<StoredModel>& models);
std::string show_json(const StoredModel& model);

}  // namespace coterie::store
