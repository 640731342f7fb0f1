// An architecture: how its numbers are read, its tensor table and its forward(). One file each; the registry
// lists them.
#pragma once
#include <string>
#include <vector>

#include "model/hyperparameters.h"
#include "model/pass.h"
#include "model/tensor_table.h"

namespace coterie {

struct Architecture {
    const char* name;
    void (*read)(const gguf::File& file, Hyperparameters& h);  // refines what read_common() found
    void (*tensors)(const Hyperparameters& h, TensorTable& table);
    void (*forward)(Pass& pass);
    bool runs = true;  // false: can be planned, but forward() is not there yet
};

// Null for a name that is not known. "gptoss" is gpt-oss as an old converter of Ollama's wrote it.
const Architecture* find_architecture(std::string_view name);
std::vector<std::string> known_architectures();

extern const Architecture llama, qwen2, qwen2moe, qwen3, qwen3moe, gemma3, qwen35, qwen35moe, qwen3next,
    gpt_oss, qwen4exp;

}  // namespace coterie
