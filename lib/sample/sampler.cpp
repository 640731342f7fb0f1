// See sampler.h.
#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/failure.h"

namespace coterie {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

constexpr const char* forbidden = "the bias, the penalties or the grammar forbid all of them";

void check_range(const char* name, double value, double low, double high) {
    if (!(value >= low && value <= high))
        fail(Status::invalid_argument, "{} is {}, expected {} to {}", name, value, low, high);
}

// exp(logit - best), where both may be infinite.
double weight_of(float logit, float best) {
    return logit == best ? 1.0 : std::exp(double(logit) - double(best));
}

}  // namespace

void SamplingOptions::check() const {
    check_range("temperature", temperature, 0.0, 100.0);
    check_range("top_k", top_k, 0, 1 << 30);
    check_range("top_p", top_p, 0.0, 1.0);
    check_range("min_p", min_p, 0.0, 1.0);
    check_range("typical_p", typical_p, 0.0, 1.0);
    check_range("repeat_penalty", repeat_penalty, 1e-3, 1e3);
    check_range("presence_penalty", presence_penalty, -100.0, 100.0);
    check_range("frequency_penalty", frequency_penalty, -100.0, 100.0);
    check_range("penalty_tokens", penalty_tokens, -1, 1 << 30);
    check_range("logprobs", logprobs, -1, 1000);
    for (const auto& [token, value] : bias)
        if (std::isnan(value)) fail(Status::invalid_argument, "the bias of token {} is not a number", token);
}

Sampler::Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {
    options_.check();
}

static bool penalises(const SamplingOptions& options) {
    return options.penalty_tokens != 0 &&
           (options.repeat_penalty != 1.0f || options.presence_penalty != 0.0f ||
            options.frequency_penalty != 0.0f);
}

void Sampler::accept(int32_t token) {
    if (!penalises(options_)) return;
    ++seen_[token];
    if (options_.penalty_tokens < 0) return;
    window_.push_back(token);
    if (window_.size() <= size_t(options_.penalty_tokens)) return;
    const auto oldest = seen_.find(window_.front());
    if (--oldest->second == 0) seen_.erase(oldest);
    window_.pop_front();
}

void Sampler::penalise(std::span<float> logits) const {
    for (const auto& [token, value] : options_.bias)
        if (token >= 0 && size_t(token) < logits.size() && logits[size_t(token)] > minus_infinity)
            logits[size_t(token)] += value;
    for (const auto& [token, count] : seen_) {
        if (token < 0 || size_t(token) >= logits.size()) continue;
        penalise(logits[size_t(token)], count);
    }
}

void Sampler::penalise(float& logit, int32_t count) const {
    logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
    logit -= options_.presence_penalty + options_.frequency_penalty * float(count);
}

// Penalties that only lower a logit may drive out as many of the best as there are tokens seen: with that
// many more, the best that are left are among them.
int64_t Sampler::best_needed(int64_t further) const {
    const SamplingOptions& o = options_;
    if (o.logprobs >= 0 || !o.bias.empty() || (!greedy() && o.top_k == 0)) return 0;
    const int64_t count = greedy() ? 1 : o.top_k;
    if (!penalises(o)) return count;
    if (o.repeat_penalty < 1.0f || o.presence_penalty < 0.0f || o.frequency_penalty < 0.0f) return 0;
    return count + int64_t(seen_.size()) + further;
}

int32_t Sampler::sample_best(std::span<const Candidate> best) {
    if (best.empty())
        fail(Status::internal,
             "no logit is a number: the model's weights or the device are broken; verify the file");
    candidates_.assign(best.begin(), best.end());
    if (!seen_.empty()) {
        for (Candidate& c : candidates_)
            if (const auto seen = seen_.find(c.token); seen != seen_.end()) penalise(c.logit, seen->second);
        std::erase_if(candidates_, [](const Candidate& c) { return c.logit == minus_infinity; });
        if (candidates_.empty()) fail(Status::invalid_argument, "no token is allowed here: {}", forbidden);
        std::sort(candidates_.begin(), candidates_.end());
    }
    if (greedy()) return candidates_.front().token;
    candidates_.resize(std::min(candidates_.size(), size_t(options_.top_k)));
    ordered_ = candidates_.size();
    mass_ = 0;
    for (const Candidate& c : candidates_) mass_ += weight_of(c.logit, candidates_.front().logit);
    return draw_collected();
}

int32_t Sampler::sample(std::span<float> logits, std::span<const uint32_t> allowed) {
    float best = scrub(logits);
    if (best == minus_infinity)
        fail(Status::internal,
             "no logit is a number: the model's weights or the device are broken; verify the file");
    if (options_.logprobs >= 0) start_logprobs(logits, best);
    if (!allowed.empty()) forbid(logits, allowed);
    penalise(logits);
    best = greatest(logits);
    if (best == minus_infinity) fail(Status::invalid_argument, "no token is allowed here: {}", forbidden);

    const int32_t token = greedy() ? int32_t(std::find(logits.begin(), logits.end(), best) - logits.begin())
                                   : draw(logits, best);
    if (options_.logprobs >= 0) logprobs_.logprob = float(double(raw_[size_t(token)]) - raw_shift_);
    return token;
}

void Sampler::start_logprobs(std::span<const float> logits, float best) {
    raw_.assign(logits.begin(), logits.end());
    // An infinite logit is certain: its probability is shared among its equals.
    raw_shift_ = (std::isinf(best) ? 0.0 : double(best)) + std::log(exponentials(logits, best, 1.0f, {}));
    if (std::isinf(best))
        for (float& logit : raw_) logit = logit == best ? 0.0f : minus_infinity;
    best_tokens(raw_, size_t(options_.logprobs), candidates_);
    logprobs_.best.clear();
    for (const Candidate& c : candidates_)
        logprobs_.best.emplace_back(c.token, float(double(c.logit) - raw_shift_));
}

int32_t Sampler::draw(std::span<const float> logits, float best) {
    const bool by_mass = options_.typical_p < 1.0f || options_.top_p < 1.0f;
    if (options_.top_k == 0 && !by_mass && options_.min_p <= 0.0f) return draw_among_all(logits, best);
    collect(logits, best);
    return draw_collected();
}

int32_t Sampler::draw_collected() {
    keep_typical();
    keep_top_p();
    keep_min_p();
    return draw_candidate();
}

// Nothing drops a token: no need to look at them one by one, or to order them.
int32_t Sampler::draw_among_all(std::span<const float> logits, float best) {
    weights_.resize(logits.size());
    double at = random_.uniform() * exponentials(logits, best, 1.0f / options_.temperature, weights_);
    int32_t token = -1;
    for (size_t i = 0; i < logits.size(); ++i) {
        if (weights_[i] == 0.0f) continue;
        token = int32_t(i);
        if ((at -= double(weights_[i])) < 0) break;
    }
    return token;
}

// Fills candidates_: the top k, or, where there is no k, all that any of the other options can leave over.
void Sampler::collect(std::span<const float> logits, float best) {
    if (options_.top_k > 0) {
        best_tokens(logits, size_t(options_.top_k), candidates_);
        ordered_ = candidates_.size();
        mass_ = 0;
        for (const Candidate& c : candidates_) mass_ += weight_of(c.logit, best);
        return;
    }
    candidates_.clear();
    ordered_ = 0;
    weights_.resize(logits.size());
    mass_ = exponentials(logits, best, 1.0f, weights_);
    const auto take = [&](float least) {
        candidates_.clear();
        for (size_t i = 0; i < logits.size(); ++i)
            if (weights_[i] > least) candidates_.push_back({int32_t(i), logits[i]});
    };
    if (options_.typical_p >= 1.0f && options_.top_p < 1.0f) {
        // Top-p never comes to the tail, if all of the tail weighs less than what top-p leaves out.
        take(1e-7f);
        double kept = 0;
        for (const Candidate& c : candidates_) kept += double(weights_[size_t(c.token)]);
        if (mass_ - kept + 1e-6 * mass_ < (1.0 - double(options_.top_p)) * mass_) return;
    } else if (options_.typical_p >= 1.0f) {
        return take(options_.min_p * 0.999f);
    }
    take(0.0f);
}

// Keeps the best items that together weigh mass, at least one, and drops the others. Items are ordered a
// few at a time, because the share is mostly held by few.
template <typename Item, typename Weight>
static void keep_share(std::vector<Item>& items, size_t ordered, double mass, const Weight& weight) {
    double sum = 0;
    size_t n = 0;
    while (n < items.size() && (n == 0 || sum < mass)) {
        if (n >= ordered) {
            ordered = std::min(items.size(), std::max<size_t>(64, 4 * n));
            const auto begin = items.begin() + std::ptrdiff_t(n),
                       end = items.begin() + std::ptrdiff_t(ordered);
            std::nth_element(begin, end, items.end());
            std::sort(begin, end);
        }
        sum += weight(items[n++]);
    }
    items.resize(n);
}

void Sampler::keep_typical() {
    if (options_.typical_p >= 1.0f) return;
    struct Ranked {
        double distance;  // of the token's surprise from the expected one
        double weight;
        Candidate candidate;
        bool operator<(const Ranked& other) const {
            return distance < other.distance ||
                   (distance == other.distance && candidate.token < other.candidate.token);
        }
    };
    const float best = std::min_element(candidates_.begin(), candidates_.end())->logit;
    std::vector<Ranked> ranked;
    ranked.reserve(candidates_.size());
    double entropy = 0;
    for (const Candidate& c : candidates_) {
        const double weight = weight_of(c.logit, best);
        const double surprise = std::log(mass_) - (c.logit == best ? 0.0 : double(c.logit) - double(best));
        if (weight > 0) entropy += weight / mass_ * surprise;
        ranked.push_back({surprise, weight, c});
    }
    for (Ranked& r : ranked) r.distance = std::abs(r.distance - entropy);
    keep_share(ranked, 0, double(options_.typical_p) * mass_, [](const Ranked& r) { return r.weight; });
    candidates_.clear();
    mass_ = 0;
    double most = 0;
    for (const Ranked& r : ranked) {
        candidates_.push_back(r.candidate);
        mass_ += r.weight;
        most = std::max(most, r.weight);
    }
    mass_ /= most;  // weights count from the best that is left
    ordered_ = 0;
}

void Sampler::keep_top_p() {
    if (options_.top_p >= 1.0f) return;
    const float best = std::min_element(candidates_.begin(), candidates_.end())->logit;
    keep_share(candidates_, ordered_, double(options_.top_p) * mass_,
               [best](const Candidate& c) { return weight_of(c.logit, best); });
}

void Sampler::keep_min_p() {
    if (options_.min_p <= 0.0f) return;
    const float best = std::min_element(candidates_.begin(), candidates_.end())->logit;
    std::erase_if(candidates_,
                  [&](const Candidate& c) { return weight_of(c.logit, best) < double(options_.min_p); });
}

int32_t Sampler::draw_candidate() {
    const float best = std::min_element(candidates_.begin(), candidates_.end())->logit;
    weights_.resize(candidates_.size());
    double sum = 0;
    for (size_t i = 0; i < candidates_.size(); ++i) {
        const float logit = candidates_[i].logit;
        weights_[i] = logit == best
                          ? 1.0f
                          : float(std::exp((double(logit) - double(best)) / double(options_.temperature)));
        sum += double(weights_[i]);
    }
    double at = random_.uniform() * sum;
    size_t i = 0;
    while (i + 1 < candidates_.size() && (at -= double(weights_[i])) >= 0) ++i;
    return candidates_[i].token;
}

}  // namespace coterie
