// One kind of place each: how models lie in it. store.h puts them together.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "store/model_name.h"
#include "store/store.h"

namespace coterie::store {

// Ollama's store: manifests/<host>/<namespace>/<model>/<tag> and blobs/sha256-<digest>.
std::vector<StoredModel> list_ollama(const std::string& root);
std::optional<StoredModel> find_ollama(const std::string& root, const ModelName& name);
std::optional<StoredModel> find_ollama_blob(const std::string& root, const std::string& digest);

// The hub's cache: models--<owner>--<name>/snapshots/<revision>/FILE, links into blobs/.
std::vector<StoredModel> list_hub(const std::string& folder);
std::optional<StoredModel> find_hub(const std::string& folder, const std::string& name);

// NAME.gguf, NAME-00001-of-00002.gguf, in the folder or one below.
std::vector<StoredModel> list_folder(const std::string& folder);
std::optional<StoredModel> find_folder(const std::string& folder, const std::string& name);

// A file of the user's, with the other files of its set.
StoredModel of_file(const std::string& path, const std::string& source, const std::string& name);

// At most that much; throws when the file can't be read.
std::string read_small_file(const std::string& path, uint64_t most);

}  // namespace coterie::store
