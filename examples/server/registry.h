// Fetching a model from a registry, as Ollama's and Hugging Face's are: the manifest, then what it names,
// each checked against its SHA-256. What came of an unfinished blob stays, and the next try goes on from
// there.
#pragma once
#include "own_store.h"

namespace server {

struct Pull {
    StoreName name;
    std::string address;  // scheme://host[:port]
    std::string login;    // Settings::registry_login
    std::string text;     // of the manifest, as it came
    json manifest;
};

// Asks for the manifest. default_registry is for names without a host; insecure allows http. HttpError 404
// when the registry has no such model.
Pull begin_pull(const StoreName& name, const std::string& default_registry, bool insecure,
                const std::string& login = {});
// The rest; `tell` gets the lines of /api/pull, the last one is a success.
void finish_pull(const Pull& pull, OwnStore& store, const std::function<void(const json&)>& tell,
                 const std::function<bool()>& gone);

}  // namespace server
