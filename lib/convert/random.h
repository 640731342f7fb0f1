// What weights are filled with: seeded numbers below a bound and of a normal distribution.
#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/random.h"

namespace coterie::convert {

class Random : public coterie::Random {
  public:
    using coterie::Random::Random;

    // Below n (n > 0), near enough to even for filling weights.
    uint64_t below(uint64_t n) { return bits() % n; }
    float normal() {
        if (has_spare_) {
            has_spare_ = false;
            return spare_;
        }
        const double radius = std::sqrt(-2 * std::log(1 - uniform())),
                     angle = 2 * std::numbers::pi * uniform();
        spare_ = float(radius * std::sin(angle));
        has_spare_ = true;
        return float(radius * std::cos(angle));
    }

  private:
    float spare_ = 0;
    bool has_spare_ = false;
};

}  // namespace coterie::convert
