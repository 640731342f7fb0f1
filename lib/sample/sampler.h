// Logits -> token. Order: bias and penalties on the logits, then top-k, typical, top-p, min-p, temperature,
// and a draw. Pure but for the sampler's own history and random numbers, which depend on nothing but the
// seed: the same everywhere.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace coterie {

struct SamplingOptions {
    float temperature = 0.8f;                     // 0: greedy
    int32_t top_k = 40;                           // 0: off
    float top_p = 0.95f;                          // 1: off
    float min_p = 0.0f;                           // 0: off; share of the best token's probability
    float typical_p = 1.0f;                       // 1: off
    float repeat_penalty = 1.0f;                  // 1: off; divides positive logits, multiplies negative ones
    float presence_penalty = 0.0f;                // subtracted once for a token seen among the last ones
    float frequency_penalty = 0.0f;               // subtracted per time it was seen
    int32_t penalty_tokens = 64;                  // how far back penalties look; 0: off, -1: everything
    std::vector<std::pair<int32_t, float>> bias;  // added to a token's logit; -inf forbids it
    uint64_t seed = 0;
    int32_t logprobs = -1;  // alternatives reported with each token; -1: none

    // Throws invalid_argument naming the option that is out of range.
    void check() const;
};

struct TokenLogprobs {
    float logprob = 0.0f;  // of the token taken, from the distribution before any option
    std::vector<std::pair<int32_t, float>> best;  // the most likely tokens, best first
};

// splitmix64: a counter through a mixer. Chosen for being a few lines that are the same on every machine.
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t next();
    double uniform() { return double(next() >> 11) * 0x1p-53; }  // [0, 1)

  private:
    uint64_t state_;
};

class Sampler {
  public:
    explicit Sampler(const SamplingOptions& options);

    // Picks from logits [vocabulary], which it may change. allowed: a bit per token, or empty for all. Throws
    // internal when no logit is a number (a broken model or device) and invalid_argument when nothing is
    // allowed.
    int32_t sample(std::span<float> logits, std::span<const uint32_t> allowed = {});
    // A token that was taken (or stood in the prompt), for the penalties.
    void accept(int32_t token);
    // Of the last sample; needs options.logprobs >= 0.
    const TokenLogprobs& logprobs() const { return logprobs_; }

  private:
    struct Candidate {
        int32_t token;
        float logit;
        float p;
    };
    void penalise(std::span<float> logits) const;
    void record(std::span<const float> logits);
    void select(std::span<const float> logits);
    void keep_typical(float p);
    void keep_top_p(float p);
    void keep_min_p(float p);
    void probabilities();

    SamplingOptions options_;
    Random random_;
    std::vector<int32_t> history_;
    std::vector<Candidate> candidates_;  // sorted by logit, best first
    std::vector<float> raw_;             // logits before options, when logprobs are wanted
    TokenLogprobs logprobs_;
};

}  // namespace coterie
