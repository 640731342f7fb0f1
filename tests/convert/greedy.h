// Greedy tokens of a model file on the reference device, for comparing files with each other.
#pragma once
#include <string>
#include <vector>

struct Greedy {
    std::vector<int32_t> tokens;
    std::vector<float> logits;  // of the prompt's last position
};

Greedy run_greedy(const std::string& path, const std::vector<int32_t>& prompt, int n_tokens);
