// Radians per position of each pair a rope rotates, with every kind of scaling folded in; and the factor on
// cos and sin.
#pragma once
#include <span>
#include <vector>

#include "model/hyperparameters.h"

namespace coterie {

struct RopeFrequencies {
    std::vector<float> frequencies;  // [dimensions / 2]
    float magnitude = 1.0f;
};

// factors: [dimensions / 2] divisors from a file's rope_freqs tensor (Llama 3.1, longrope), or empty.
RopeFrequencies rope_frequencies(const RopeNumbers& rope, std::span<const float> factors);

}  // namespace coterie
