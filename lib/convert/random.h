// Seeded random numbers that are the same on every machine: splitmix64 and a normal distribution.
#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>

namespace coterie::convert {

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t bits() {
        uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    // In [0, 1).
    double uniform() { return double(bits() >> 11) * 0x1p-53; }
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
    uint64_t state_;
    float spare_ = 0;
    bool has_spare_ = false;
};

}  // namespace coterie::convert
