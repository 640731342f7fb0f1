#include "model/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/failure.h"

namespace coterie {

RopeFrequencies rope_frequencies(const RopeNumbers& rope, std::span<const float> factors) {
    const int32_t pairs = rope.dimensions / 2;
    if (!factors.empty() && int32_t(factors.size()) != pairs)
        fail(Status::bad_model, "the rope factors have {} values, expected {}", factors.size(), pairs);
    const RopeScaling& s = rope.scaling;
    const double d = rope.dimensions;
    const bool yarn = s.extrapolation != 0.0;
    double low = 0.0, high = 0.0;
    if (yarn) {
        const auto turns = [&](double beta) {
            return d * std::log(s.original_context / (beta * 2.0 * std::numbers::pi)) /
                   (2.0 * std::log(rope.base));
        };
        low = std::max(0.0, std::floor(turns(s.beta_fast)));
        high = std::min(d - 1.0, std::ceil(turns(s.beta_slow)));
    }
    RopeFrequencies result;
    for (int32_t i = 0; i < pairs; ++i) {
        double extrapolated = std::pow(rope.base, -2.0 * i / d);
        if (!factors.empty()) extrapolated /= double(factors[size_t(i)]);
        double frequency = extrapolated / s.factor;
        if (yarn) {
            const double ramp = std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
            const double mix = s.extrapolation * (1.0 - ramp);
            frequency = frequency * (1.0 - mix) + extrapolated * mix;
        }
        result.frequencies.push_back(float(frequency));
    }
    double magnitude = s.attention_factor;
    if (yarn && s.factor > 1.0) magnitude *= 0.1 * std::log(s.factor) + 1.0;
    if (s.kind == RopeScaling::Kind::longrope && s.attention_factor == 1.0 && s.factor > 1.0)
        magnitude = std::sqrt(1.0 + std::log(s.factor) / std::log(s.original_context));
    result.magnitude = float(magnitude);
    return result;
}

}  // namespace coterie
