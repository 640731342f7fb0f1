// Seeded random numbers that are the same on every machine: splitmix64, a counter through a mixer. Number i
// of seed s (from 1 on) mixes s + i * 0x9e3779b97f4a7c15.
#pragma once
#include <cstdint>

namespace coterie {

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t bits() {
        uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    double uniform() { return double(bits() >> 11) * 0x1p-53; }  // [0, 1)

  private:
    uint64_t state_;
};

}  // namespace coterie
