// What a model file holds, for people (text) and programs (JSON): metadata with long arrays cut short,
// tensors, bytes by type, parameter counts and shards. Text from the file is shown without its control
// characters.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "gguf/file.h"

namespace coterie::gguf {

struct TypeUse {
    Type type = Type::F32;
    uint64_t tensors = 0, elements = 0, bytes = 0;
    double bits_per_weight() const { return elements ? 8.0 * double(bytes) / double(elements) : 0; }
};

// Parameters are the elements of all tensors; a tied output head is counted once. Active is what one token
// uses: of expert tensors (ffn_*_exps and the older ffn_*.N) used/total, of all others everything, the token
// embedding included, as in the names of models (Qwen3-30B-A3B).
struct ParameterCount {
    uint64_t total = 0, active = 0;
    uint64_t experts = 0;       // of the total: in routed experts
    uint64_t expert_count = 0;  // per layer; 0 for a dense model
    uint64_t experts_used = 0;  // per token
};

std::vector<TypeUse> type_histogram(const File& file);  // most bytes first
ParameterCount count_parameters(const File& file);
bool is_expert_tensor(std::string_view name);

std::string inspect_text(const File& file);
std::string inspect_json(const File& file);  // one object, indented by two

// Text with control characters and invalid UTF-8 shown as escapes, cut to most_bytes with "..." (whole
// characters).
std::string printable(std::string_view text, size_t most_bytes = size_t(-1));

}  // namespace coterie::gguf
