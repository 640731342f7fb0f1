// The passes over whole vocabularies against plain loops, at lengths around their blocks.
#include "sample/logits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "catch.h"
#include "sample/sampler.h"

using namespace coterie;

static constexpr float infinity = std::numeric_limits<float>::infinity();

TEST_CASE("exponentials are exact to 1e-6 over the whole range") {
    std::vector<float> logits;
    for (int i = 0; i <= 90000; ++i) logits.push_back(-float(i) / 1000);
    logits.push_back(-1e30f), logits.push_back(-infinity), logits.push_back(-1e-30f);
    std::vector<float> weights(logits.size());
    const double sum = exponentials(logits, 0.0f, 1.0f, weights);
    double expected_sum = 0, worst = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
        const double expected = std::exp(double(logits[i]));
        expected_sum += expected;
        if (logits[i] > -87.0f)
            worst = std::max(worst, std::abs(double(weights[i]) / expected - 1));
        else if (weights[i] > 2e-38f)
            FAIL("exp(" << logits[i] << ") is " << weights[i]);
    }
    CHECK(worst < 1e-6);
    CHECK(sum == Approx(expected_sum).epsilon(1e-6));
    CHECK(exponentials(logits, 0.0f, 1.0f, {}) == sum);
    exponentials(logits, 0.0f, 0.5f, weights);
    CHECK(double(weights[10000]) == Approx(std::exp(-5.0)).epsilon(1e-6));
}

TEST_CASE("passes agree with plain loops at every length") {
    Random random(4);
    for (const size_t n : {0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 100, 1023, 1024, 1025, 5000}) {
        std::vector<float> logits(n);
        for (float& x : logits) x = float(std::floor(random.uniform() * 50)) - 30;
        if (n > 2) logits[n / 2] = std::numeric_limits<float>::quiet_NaN(), logits[n - 1] = -infinity;
        std::vector<float> clean = logits;
        for (float& x : clean)
            if (std::isnan(x)) x = -infinity;
        const float best = n == 0 ? -infinity : *std::max_element(clean.begin(), clean.end());
        INFO(n);
        CHECK(scrub(logits) == best);
        CHECK(logits == clean);
        CHECK(greatest(logits) == best);

        std::vector<Candidate> sorted;
        for (size_t i = 0; i < n; ++i)
            if (clean[i] > -infinity) sorted.push_back({int32_t(i), clean[i]});
        std::sort(sorted.begin(), sorted.end());
        for (const size_t k : {0, 1, 3, 40, 4096, 4097, 100000}) {
            std::vector<Candidate> found;
            best_tokens(clean, k, found);
            REQUIRE(found.size() == std::min(k, sorted.size()));
            for (size_t i = 0; i < found.size(); ++i) REQUIRE(found[i].token == sorted[i].token);
        }

        std::vector<uint32_t> allowed((n + 31) / 32);
        for (uint32_t& word : allowed)
            word = random.uniform() < 0.3 ? 0 : random.uniform() < 0.5 ? UINT32_MAX : uint32_t(random.bits());
        forbid(logits, allowed);
        for (size_t i = 0; i < n; ++i) {
            const bool on = allowed[i / 32] >> (i % 32) & 1;
            if (logits[i] != (on ? clean[i] : -infinity)) FAIL(i);
        }
    }
}
