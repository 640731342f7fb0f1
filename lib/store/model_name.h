// Names of models as in Ollama: [host/][namespace/]model[:tag]. What is left out has a default; the shortest
// form that says the same is shown, always with its tag.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace coterie::store {

struct ModelName {
    std::string host = "registry.ollama.ai", space = "library", model, tag = "latest";

    // Nothing if the text is no name: a part is empty, too long or has a character that names don't have.
    static std::optional<ModelName> parse(std::string_view text);
    std::string shortest() const;  // "llama3.2:latest", "hf.co/someone/model:Q4_K_M"
};

bool equal_names(std::string_view a, std::string_view b);  // but for upper and lower case

}  // namespace coterie::store
