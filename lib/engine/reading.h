// What a model makes of given tokens without answering: embeddings, logits, likelihoods. Each call runs its
// inputs as readings on an engine, as many at once as it has places for, and waits; whatever ends it, nothing
// writes into the caller's memory afterwards.
#pragma once
#include <chrono>
#include <span>
#include <vector>

#include "base/progress.h"
#include "engine/engine.h"

namespace coterie {

// The numbers are those of GGUF's <architecture>.pooling_type and of coterie.h.
enum class Pooling : int32_t { mean = 1, cls = 2, last = 3 };

struct ReadingOptions {
    int32_t priority = 0;
    std::chrono::milliseconds time_limit{0};  // of an input; 0: none
    ProgressCallback progress;                // on the caller's thread, at least every 50 ms
};

using Tokens = std::vector<int32_t>;

// One row per input [inputs, width], width at most the model's: the first components of the pooled, normed
// hidden states; scaled to length 1 if `normalise`.
void embed(Engine& engine, std::span<const Tokens> inputs, Pooling pooling, bool normalise, int64_t width,
           float* embeddings, const ReadingOptions& options = {});

// Logits after each token from number `first` on: [tokens - first, vocabulary].
void read_logits(Engine& engine, const Tokens& tokens, int64_t first, float* logits,
                 const ReadingOptions& options = {});

// The natural logarithm of each token's probability after those before it, input after input; 0 for the first
// of each.
void score(Engine& engine, std::span<const Tokens> inputs, float* logprobs,
           const ReadingOptions& options = {});

}  // namespace coterie
