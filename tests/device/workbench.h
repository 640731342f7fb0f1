// A bench on which one device is tried: memory on it, weights, steps and the distance between results.
// Nothing here knows which device it is.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/failure.h"
#include "device/device.h"

namespace coterie::test {

using Floats = std::vector<float>;

// sum (found - expected)^2 / sum expected^2; infinite when sizes differ or a number is not finite where the
// expected one is. All zeros expected: 0 for all zeros found, infinite otherwise.
double nmse(const Floats& found, const Floats& expected);

// Deterministic numbers, the same on every machine.
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed * 2654435761u + 88172645463325252u) {}
    uint64_t bits();
    double uniform();  // [0, 1)
    float normal();
    int32_t below(int32_t n) { return int32_t(uniform() * n); }

  private:
    uint64_t state_;
};

// normal: N(0, 1). outliers: a few numbers 50 times as large. zeros: whole stretches of zeros. small: 1e-4
// times.
enum class Data { normal, outliers, zeros, small };
Floats numbers(Random& random, int64_t n, Data data = Data::normal, float size = 1.0f);

class Bench {
  public:
    explicit Bench(Device& on) : device(on) {}
    Device& device;

    // Copies on the device; they live as long as the bench. Rows may lie apart: stride = width + gap, and the
    // gap must keep its contents (checked by read()).
    float* put(const Floats& values);
    int32_t* put(const std::vector<int32_t>& values);
    Rows rows(const Floats& values, int64_t rows, int64_t width, int64_t gap = 0);
    Rows blank(int64_t rows, int64_t width, int64_t gap = 0);  // NaN, so that what wasn't written shows
    Floats read(Rows x);
    std::vector<int32_t> read(const int32_t* x, int64_t n);
    Routing routing(int64_t rows, int32_t used);
    Routing routing(const std::vector<int32_t>& experts, const Floats& weights, int32_t used);

    // A whole tensor, F32.
    std::unique_ptr<Weight> weight(const Floats& values, int64_t in, int64_t out, int64_t experts = 1,
                                   bool gather = false);

  private:
    std::vector<std::unique_ptr<Buffer>> buffers_;
};

// A weight [in, out, experts] of a type, encoded from normal numbers of a variance that keeps products near 1
// (blocks of random bits with sane scales for types without an encoder).
struct TestWeight {
    TestWeight(Type type, int64_t in, int64_t out, int64_t experts = 1, uint64_t seed = 1);
    WeightSource source;
    std::vector<std::byte> bytes;
};

// What one sequence brings to a step.
struct Part {
    int32_t sequence, position, rows;
    int32_t state = -1;  // -1: as the sequence
};
// Pages of different sequences are mixed up, so that a device that ignores the page table fails.
Step step_of(const std::vector<Part>& parts, int32_t sequences = 1, int32_t pages_per_sequence = 8,
             int32_t page_tokens = 4);

// What the failure that a call ends in says; empty when it doesn't fail.
template <typename Call>
std::string message_of(Call&& call) {
    try {
        call();
    } catch (const Failure& failure) {
        return failure.message();
    }
    return {};
}

}  // namespace coterie::test
