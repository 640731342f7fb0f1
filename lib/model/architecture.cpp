#include "model/architecture.h"

namespace coterie {

static const Architecture* const registry[] = {&llama,  &qwen2,     &qwen2moe,  &qwen3,   &qwen3moe, &gemma3,
                                               &qwen35, &qwen35moe, &qwen3next, &gpt_oss, &qwen4exp};

const Architecture* find_architecture(std::string_view name) {
    if (name == "gptoss") return &gpt_oss;
    for (const Architecture* a : registry)
        if (name == a->name) return a;
    return nullptr;
}

std::vector<std::string> known_architectures() {
    std::vector<std::string> names;
    for (const Architecture* a : registry) names.emplace_back(a->name);
    return names;
}

}  // namespace coterie
