// Logits -> token. In this order: NaN becomes -inf, the mask forbids tokens, bias is added, penalties change
// the logits of tokens seen before; then top-k, typical, top-p and min-p each drop candidates, by the
// probabilities at temperature 1 of what the one before left; at last the temperature and a draw. Pure but
// for the sampler's own history and random numbers, which depend on nothing but the seed: the same
// everywhere. Of equal logits the smaller token counts as better.
#pragma once
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/random.h"
#include "sample/logits.h"

namespace coterie {

struct SamplingOptions {
    float temperature = 0.8f;                     // below 1e-6: greedy
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

// A sample takes one random number, unless it is greedy.
class Sampler {
  public:
    explicit Sampler(const SamplingOptions& options);

    // Picks from logits [vocabulary], which it may change. allowed: bit i % 32 of word i / 32 for token i, or
    // empty for all. Throws internal when no logit is a number (a broken model or device) and
    // invalid_argument when nothing is allowed.
    int32_t sample(std::span<float> logits, std::span<const uint32_t> allowed = {});
    // With how many of the best logits, best first, sample_best() picks what sample() picks from all of them,
    // even after `further` more tokens were accepted; 0: it needs them all.
    int64_t best_needed(int64_t further = 0) const;
    // best: at least best_needed() of a row's best logits, in order; all of them where the row has no more
    // above -inf.
    int32_t sample_best(std::span<const Candidate> best);
    // A token that was taken (or stood in the prompt), for the penalties.
    void accept(int32_t token);
    // Of the last sample; needs options.logprobs >= 0.
    const TokenLogprobs& logprobs() const { return logprobs_; }

  private:
    void penalise(std::span<float> logits) const;
    void penalise(float& logit, int32_t count) const;
    bool greedy() const { return options_.temperature < 1e-6f || options_.top_k == 1; }
    void start_logprobs(std::span<const float> logits, float best);
    int32_t draw(std::span<const float> logits, float best);
    int32_t draw_among_all(std::span<const float> logits, float best);
    int32_t draw_collected();
    int32_t draw_candidate();
    void collect(std::span<const float> logits, float best);
    void keep_typical();
    void keep_top_p();
    void keep_min_p();

    SamplingOptions options_;
    Random random_;
    std::deque<int32_t> window_;                 // the last tokens, where penalties look back a limited way
    std::unordered_map<int32_t, int32_t> seen_;  // how often each token was accepted, in the window
    std::vector<Candidate> candidates_;          // the first ordered_ of them are the best, in order
    size_t ordered_ = 0;
    double mass_ = 0;             // sum of exp(logit - best) of all that candidates_ stands for
    std::vector<float> weights_;  // scratch
    std::vector<float> raw_;      // logits before options, where logprobs are wanted
    double raw_shift_ = 0;        // log of the sum of exp(raw logit)
    TokenLogprobs logprobs_;
};

}  // namespace coterie
