#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/failure.h"

namespace coterie {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

void check_range(const char* name, double value, double low, double high) {
    if (!(value >= low && value <= high))
        fail(Status::invalid_argument, "{} is {}, expected {} to {}", name, value, low, high);
}

bool better(const float a_logit, int32_t a, const float b_logit, int32_t b) {
    return a_logit > b_logit || (a_logit == b_logit && a < b);
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

uint64_t Random::next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

Sampler::Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {
    options_.check();
}

void Sampler::accept(int32_t token) {
    history_.push_back(token);
}

void Sampler::penalise(std::span<float> logits) const {
    for (const auto& [token, value] : options_.bias)
        if (token >= 0 && size_t(token) < logits.size()) logits[size_t(token)] += value;
    const bool any = options_.repeat_penalty != 1.0f || options_.presence_penalty != 0.0f ||
                     options_.frequency_penalty != 0.0f;
    if (!any || options_.penalty_tokens == 0) return;
    const size_t n = options_.penalty_tokens < 0 ? history_.size()
                                                 : std::min(history_.size(), size_t(options_.penalty_tokens));
    std::unordered_map<int32_t, int32_t> seen;
    for (size_t i = history_.size() - n; i < history_.size(); ++i) ++seen[history_[i]];
    for (const auto& [token, count] : seen) {
        if (token < 0 || size_t(token) >= logits.size()) continue;
        float& logit = logits[size_t(token)];
        logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
        logit -= options_.presence_penalty + options_.frequency_penalty * float(count);
    }
}

// The candidates that the options can leave over, best first: a partial sort, not one of the whole
// vocabulary.
void Sampler::select(std::span<const float> logits) {
    candidates_.clear();
    float best = minus_infinity;
    for (const float logit : logits) best = logit > best ? logit : best;
    // Below this no token has weight in float arithmetic, whatever the temperature up to 1 (min-p may cut
    // higher).
    float floor = minus_infinity;
    if (options_.top_k == 0) floor = best - 40.0f * std::max(1.0f, options_.temperature);
    if (options_.min_p > 0) floor = std::max(floor, best + std::log(options_.min_p) - 1e-3f);
    for (size_t i = 0; i < logits.size(); ++i)
        if (logits[i] >= floor && logits[i] > minus_infinity)
            candidates_.push_back({int32_t(i), logits[i], 0.0f});
    const auto order = [](const Candidate& a, const Candidate& b) {
        return better(a.logit, a.token, b.logit, b.token);
    };
    const size_t k =
        options_.top_k > 0 ? std::min(size_t(options_.top_k), candidates_.size()) : candidates_.size();
    if (k < candidates_.size()) {
        std::nth_element(candidates_.begin(), candidates_.begin() + long(k), candidates_.end(), order);
        candidates_.resize(k);
    }
    std::sort(candidates_.begin(), candidates_.end(), order);
}

void Sampler::probabilities() {
    double sum = 0;
    const float best = candidates_.front().logit;
    for (Candidate& c : candidates_) sum += double(c.p = std::exp(c.logit - best));
    for (Candidate& c : candidates_) c.p = float(double(c.p) / sum);
}

void Sampler::keep_typical(float p) {
    if (p >= 1.0f) return;
    probabilities();
    double entropy = 0;
    for (const Candidate& c : candidates_)
        if (c.p > 0) entropy -= double(c.p) * std::log(double(c.p));
    // Distance of a token's surprise from the expected one.
    const auto distance = [&](const Candidate& c) { return std::abs(-std::log(double(c.p)) - entropy); };
    std::sort(candidates_.begin(), candidates_.end(), [&](const Candidate& a, const Candidate& b) {
        const double da = distance(a), db = distance(b);
        return da < db || (da == db && a.token < b.token);
    });
    double sum = 0;
    size_t n = 0;
    while (n < candidates_.size()) {
        sum += double(candidates_[n++].p);
        if (sum >= double(p)) break;
    }
    candidates_.resize(std::max<size_t>(n, 1));
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
        return better(a.logit, a.token, b.logit, b.token);
    });
}

void Sampler::keep_top_p(float p) {
    if (p >= 1.0f) return;
    probabilities();
    double sum = 0;
    size_t n = 0;
    while (n < candidates_.size()) {
        sum += double(candidates_[n++].p);
        if (sum >= double(p)) break;
    }
    candidates_.resize(std::max<size_t>(n, 1));
}

void Sampler::keep_min_p(float p) {
    if (p <= 0.0f) return;
    const float floor = candidates_.front().logit + std::log(p);
    size_t n = 1;
    while (n < candidates_.size() && candidates_[n].logit >= floor) ++n;
    candidates_.resize(n);
}

int32_t Sampler::sample(std::span<float> logits, std::span<const uint32_t> allowed) {
    bool any_number = false;
    for (float& logit : logits) {
        if (std::isnan(logit)) logit = minus_infinity;
        any_number |= logit > minus_infinity;
    }
    if (!any_number)
        fail(Status::internal,
             "no logit is a number: the model's weights or the device are broken; verify the file");
    if (options_.logprobs >= 0) raw_.assign(logits.begin(), logits.end());
    penalise(logits);
    if (!allowed.empty())
        for (size_t i = 0; i < logits.size(); ++i)
            if (!(allowed[i / 32] >> (i % 32) & 1)) logits[i] = minus_infinity;

    int32_t token = -1;
    if (options_.temperature == 0.0f || options_.top_k == 1) {
        for (size_t i = 0; i < logits.size(); ++i)
            if (logits[i] > minus_infinity && (token < 0 || logits[i] > logits[size_t(token)]))
                token = int32_t(i);
    } else {
        select(logits);
        if (!candidates_.empty()) {
            keep_typical(options_.typical_p);
            keep_top_p(options_.top_p);
            keep_min_p(options_.min_p);
            for (Candidate& c : candidates_) c.logit /= options_.temperature;
            probabilities();
            double at = random_.uniform();
            token = candidates_.back().token;
            for (const Candidate& c : candidates_)
                if ((at -= double(c.p)) < 0) {
                    token = c.token;
                    break;
                }
        }
    }
    if (token < 0)
        fail(Status::invalid_argument,
             "no token is allowed here: the bias or the grammar forbids all of them");
    if (options_.logprobs >= 0) {
        record(raw_);
        const float best = *std::max_element(raw_.begin(), raw_.end());
        double sum = 0;
        for (const float x : raw_) sum += std::exp(double(x - best));
        const double shift = double(best) + std::log(sum);
        logprobs_.logprob = float(double(raw_[size_t(token)]) - shift);
        for (auto& [id, value] : logprobs_.best) value = float(double(value) - shift);
    }
    return token;
}

// The best tokens with their raw logits.
void Sampler::record(std::span<const float> logits) {
    std::vector<std::pair<int32_t, float>>& best = logprobs_.best;
    best.clear();
    const size_t n = std::min(size_t(options_.logprobs), logits.size());
    std::vector<int32_t> order(logits.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = int32_t(i);
    std::partial_sort(order.begin(), order.begin() + long(n), order.end(), [&](int32_t a, int32_t b) {
        return better(logits[size_t(a)], a, logits[size_t(b)], b);
    });
    for (size_t i = 0; i < n; ++i) best.emplace_back(order[i], logits[size_t(order[i])]);
}

}  // namespace coterie
