// The sampler against its definition: which tokens each option leaves, with which probabilities (chi-square
// over many draws), and what happens with ties, infinities, NaN and empty masks.
#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/failure.h"
#include "catch.h"

using namespace coterie;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const float nan_value = std::numeric_limits<float>::quiet_NaN();

SamplingOptions plain() {
    SamplingOptions options;
    options.temperature = 1.0f;
    options.top_k = 0;
    options.top_p = 1.0f;
    return options;
}

// Logits with many near-ties and a long tail, from the generator under test's own documented mixer.
std::vector<float> random_logits(size_t n, uint64_t seed, double spread) {
    Random random(seed);
    std::vector<float> logits(n);
    for (float& logit : logits) {
        double sum = 0;
        for (int i = 0; i < 6; ++i) sum += random.uniform();
        logit = float((sum - 3.0) * spread);
        if (random.uniform() < 0.1) logit = std::round(logit);  // exact ties
    }
    return logits;
}

struct Entry {
    int32_t token;
    double logit, p;
};

void normalise(std::vector<Entry>& entries, double temperature) {
    double best = -std::numeric_limits<double>::infinity(), sum = 0;
    for (const Entry& e : entries) best = std::max(best, e.logit);
    for (Entry& e : entries) sum += e.p = std::exp((e.logit - best) / temperature);
    for (Entry& e : entries) e.p /= sum;
}

// Keeps entries in the order given until they hold a share p.
void keep_share(std::vector<Entry>& entries, double p) {
    double sum = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
        sum += entries[i].p;
        if (sum >= p) return entries.resize(i + 1);
    }
}

// The definition, word for word, in double and with full sorts.
std::map<int32_t, double> distribution(const std::vector<float>& logits, const SamplingOptions& o) {
    std::vector<Entry> entries;
    for (size_t i = 0; i < logits.size(); ++i)
        if (logits[i] > -infinity) entries.push_back({int32_t(i), double(logits[i]), 0});
    const auto best_first = [](const Entry& a, const Entry& b) {
        return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
    };
    std::sort(entries.begin(), entries.end(), best_first);
    if (o.top_k > 0 && size_t(o.top_k) < entries.size()) entries.resize(size_t(o.top_k));
    normalise(entries, 1.0);
    if (o.typical_p < 1) {
        double entropy = 0;
        for (const Entry& e : entries) entropy -= e.p > 0 ? e.p * std::log(e.p) : 0;
        std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
            const double da = std::abs(-std::log(a.p) - entropy), db = std::abs(-std::log(b.p) - entropy);
            return da < db || (da == db && a.token < b.token);
        });
        keep_share(entries, double(o.typical_p));
        std::sort(entries.begin(), entries.end(), best_first);
        normalise(entries, 1.0);
    }
    if (o.top_p < 1) keep_share(entries, double(o.top_p));
    if (o.min_p > 0) {
        normalise(entries, 1.0);
        std::erase_if(
            entries, [best = entries.front().p, &o](const Entry& e) { return e.p < double(o.min_p) * best; });
    }
    normalise(entries, double(o.temperature));
    std::map<int32_t, double> result;
    for (const Entry& e : entries) result[e.token] = e.p;
    return result;
}

// Draws often and compares counts with expectations: chi-square, rare tokens pooled. The bound is passed by
// chance about once in ten million times; seeds are fixed, so it either holds for ever or never.
void check_distribution(const std::vector<float>& logits, SamplingOptions options, int draws) {
    const auto expected = distribution(logits, options);
    Sampler sampler(options);
    std::map<int32_t, int> counts;
    std::vector<float> scratch;
    for (int i = 0; i < draws; ++i) {
        scratch = logits;
        ++counts[sampler.sample(scratch)];
    }
    for (const auto& [token, count] : counts) {
        INFO("token " << token << " drawn " << count << " times");
        REQUIRE(expected.count(token) == 1);
    }
    double chi2 = 0, pooled_expected = 0, pooled_count = 0;
    int bins = 0;
    const auto add = [&](double count, double mean) {
        chi2 += (count - mean) * (count - mean) / mean, ++bins;
    };
    for (const auto& [token, p] : expected) {
        const double mean = p * draws;
        const double count = counts.count(token) ? counts[token] : 0;
        if (mean >= 5)
            add(count, mean);
        else
            pooled_expected += mean, pooled_count += count;
    }
    if (pooled_expected >= 5) add(pooled_count, pooled_expected);
    const double freedom = std::max(bins - 1, 1);
    // Wilson and Hilferty: (chi2 / freedom)^(1/3) is nearly normal.
    const double z = (std::cbrt(chi2 / freedom) - (1 - 2 / (9 * freedom))) / std::sqrt(2 / (9 * freedom));
    INFO("chi2 " << chi2 << " with " << freedom << " degrees of freedom, z " << z);
    if (bins > 1) CHECK(z < 5.2);
    if (bins > 10) CHECK(z > -5.2);
}

int32_t once(std::vector<float> logits, const SamplingOptions& options,
             std::span<const uint32_t> allowed = {}) {
    return Sampler(options).sample(logits, allowed);
}

Status failure_of(std::vector<float> logits, const SamplingOptions& options,
                  std::span<const uint32_t> allowed = {}) {
    try {
        Sampler(options).sample(logits, allowed);
    } catch (const Failure& failure) {
        CHECK(failure.message().size() > 20);
        return failure.status();
    }
    return Status::ok;
}

}  // namespace

TEST_CASE("every option and their combinations give the defined distribution") {
    const auto with = [](auto change) {
        SamplingOptions options = plain();
        change(options);
        return options;
    };
    using O = SamplingOptions&;
    const std::vector<SamplingOptions> cases = {
        plain(),
        with([](O o) { o.temperature = 0.5f; }),
        with([](O o) { o.temperature = 2.5f; }),
        with([](O o) { o.top_k = 5; }),
        with([](O o) { o.top_k = 40, o.temperature = 1.7f; }),
        with([](O o) { o.top_k = 1000; }),
        with([](O o) { o.top_p = 0.9f; }),
        with([](O o) { o.top_p = 0.3f, o.temperature = 3.0f; }),
        with([](O o) { o.top_p = 0.999999f; }),
        with([](O o) { o.top_p = 0.0f; }),
        with([](O o) { o.min_p = 0.2f; }),
        with([](O o) { o.min_p = 1.0f; }),
        with([](O o) { o.min_p = 0.05f, o.temperature = 4.0f; }),
        with([](O o) { o.typical_p = 0.7f; }),
        with([](O o) { o.typical_p = 0.2f, o.temperature = 2.0f; }),
        with([](O o) { o.typical_p = 0.0f; }),
        with([](O o) { o.top_k = 40, o.top_p = 0.95f, o.temperature = 0.8f; }),
        with([](O o) { o.top_k = 40, o.top_p = 0.95f, o.min_p = 0.05f, o.temperature = 0.8f; }),
        with([](O o) { o.top_p = 0.8f, o.min_p = 0.1f, o.temperature = 1.5f; }),
        with([](O o) {
            o.top_k = 60, o.typical_p = 0.9f, o.top_p = 0.9f, o.min_p = 0.02f, o.temperature = 1.2f;
        }),
        with([](O o) { o.typical_p = 0.9f, o.top_p = 0.7f; }),
    };
    for (size_t i = 0; i < cases.size(); ++i) {
        for (const double spread : {0.3, 3.0, 12.0}) {
            INFO("case " << i << ", spread " << spread);
            SamplingOptions options = cases[i];
            options.seed = 1000 * i + uint64_t(spread * 10);
            check_distribution(random_logits(211, i + 1, spread), options, 4000);
        }
    }
}

TEST_CASE("a large vocabulary gives the defined distribution") {
    // Partial selection, blocks and the cut tail only come into play here.
    const std::vector<float> logits = random_logits(150001, 77, 5.0);
    std::vector<float> flat(70000, 0.5f);
    SamplingOptions options = plain();
    options.top_k = 40, options.top_p = 0.95f;
    check_distribution(logits, options, 300);
    options.top_k = 5000, options.top_p = 1.0f;
    check_distribution(logits, options, 100);
    options.top_k = 0, options.top_p = 0.9f;
    check_distribution(logits, options, 100);
    check_distribution(flat, options, 30);
    options.top_p = 1.0f, options.min_p = 0.3f;
    check_distribution(logits, options, 300);
}

TEST_CASE("neighbouring seeds are independent") {
    std::vector<int> counts(8);
    for (uint64_t seed = 0; seed < 8000; ++seed) {
        SamplingOptions options = plain();
        options.seed = seed;
        ++counts[size_t(once(std::vector<float>(8, 0.0f), options))];
    }
    double chi2 = 0;
    for (const int count : counts) chi2 += (count - 1000.0) * (count - 1000.0) / 1000.0;
    CHECK(chi2 < 40);
}

TEST_CASE("the random numbers are those of splitmix64") {
    // Published with the generator, for seed 1234567.
    Random random(1234567);
    for (const uint64_t expected : {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                    4593380528125082431u, 16408922859458223821u})
        CHECK(random.bits() == expected);
    CHECK(Random(1234567).uniform() == double(6457827717110365317u >> 11) / 9007199254740992.0);
}

TEST_CASE("the same seed gives the same tokens, another seed others") {
    const std::vector<float> logits = random_logits(500, 3, 1.0);
    const auto tokens = [&](uint64_t seed) {
        SamplingOptions options;
        options.seed = seed;
        Sampler sampler(options);
        std::vector<int32_t> drawn;
        for (int i = 0; i < 50; ++i) {
            std::vector<float> scratch = logits;
            drawn.push_back(sampler.sample(scratch));
        }
        return drawn;
    };
    CHECK(tokens(5) == tokens(5));
    CHECK(tokens(5) != tokens(6));
}

TEST_CASE("greedy takes the best, the smaller token of equals") {
    SamplingOptions options;
    options.temperature = 0;
    std::vector<float> logits(1000, -1.0f);
    logits[700] = logits[333] = logits[999] = 2.0f;
    CHECK(once(logits, options) == 333);
    options.temperature = 5, options.top_k = 1;
    CHECK(once(logits, options) == 333);
    options.temperature = 1e-30f, options.top_k = 40;
    CHECK(once(logits, options) == 333);
    options.temperature = 0, options.bias = {{333, -0.5f}};
    CHECK(once(logits, options) == 700);
    CHECK(once({-3.0f}, options) == 0);
    CHECK(once({-infinity, -1e38f}, options) == 1);
}

TEST_CASE("equal logits at the edge of top-k: the smaller tokens stay") {
    SamplingOptions options = plain();
    options.top_k = 3;
    std::vector<float> logits(200, 1.0f);
    logits[150] = 2.0f;
    const auto kept = distribution(logits, options);
    CHECK((kept.count(0) && kept.count(1) && kept.count(150)));
    check_distribution(logits, options, 2000);
}

TEST_CASE("penalties look at the last tokens only") {
    SamplingOptions options;
    options.temperature = 0;
    options.repeat_penalty = 2.0f;
    options.penalty_tokens = 2;
    Sampler sampler(options);
    const auto pick = [&](std::vector<float> logits) { return sampler.sample(logits); };
    CHECK(pick({1.0f, 0.9f, 0.2f}) == 0);
    sampler.accept(0);
    CHECK(pick({1.0f, 0.9f, 0.2f}) == 1);  // 0.5, 0.9, 0.2
    sampler.accept(1);
    CHECK(pick({1.0f, 0.9f, 0.2f}) == 0);     // 0.5, 0.45, 0.2
    CHECK(pick({-1.0f, -1.5f, -1.9f}) == 2);  // -2, -3, -1.9
    sampler.accept(1);
    CHECK(pick({1.0f, 0.9f, 0.2f}) == 0);  // 0 is forgotten
    sampler.accept(-5), sampler.accept(1000000);
    CHECK(pick({1.0f, 0.9f, 0.2f}) == 0);
}

TEST_CASE("presence counts once, frequency every time, and -1 looks back to the beginning") {
    for (const bool frequency : {false, true}) {
        SamplingOptions options;
        options.temperature = 0;
        options.penalty_tokens = -1;
        (frequency ? options.frequency_penalty : options.presence_penalty) = 0.25f;
        Sampler sampler(options);
        for (int i = 0; i < 3; ++i) sampler.accept(1);
        for (int i = 0; i < 500; ++i) sampler.accept(2);
        std::vector<float> logits{0.5f, 1.0f, -9.0f};
        CHECK(sampler.sample(logits) == (frequency ? 0 : 1));  // 1 - 0.75 or 1 - 0.25
        CHECK(logits[1] == (frequency ? 0.25f : 0.75f));
        CHECK(logits[2] == (frequency ? -134.0f : -9.25f));
    }
    SamplingOptions off;
    off.temperature = 0, off.presence_penalty = 5, off.penalty_tokens = 0;
    Sampler sampler(off);
    sampler.accept(1);
    std::vector<float> logits{0.5f, 1.0f};
    CHECK(sampler.sample(logits) == 1);
}

TEST_CASE("the best logits are enough for the token that all of them give") {
    int64_t fewer = 0;
    for (uint64_t seed = 0; seed < 400; ++seed) {
        CAPTURE(seed);
        Random random(seed + 1000);
        const auto pick = [&](std::vector<float> values) {
            return values[size_t(random.uniform() * double(values.size()))];
        };
        SamplingOptions options;
        options.seed = seed;
        options.temperature = pick({0.0f, 0.5f, 1.0f, 3.0f});
        options.top_k = int32_t(pick({1, 2, 10, 40}));
        options.top_p = pick({1.0f, 0.9f, 0.3f});
        options.min_p = pick({0.0f, 0.1f});
        options.typical_p = pick({1.0f, 0.7f});
        options.repeat_penalty = pick({1.0f, 1.1f, 5.0f});
        options.presence_penalty = pick({0.0f, 2.0f});
        options.frequency_penalty = pick({0.0f, 0.5f});
        options.penalty_tokens = int32_t(pick({0, 5, -1}));
        Sampler whole(options), best(options);
        for (int turn = 0; turn < 12; ++turn) {
            std::vector<float> logits = random_logits(300, seed * 16 + uint64_t(turn), 3);
            if (turn == 5) std::fill(logits.begin() + 20, logits.end(), -infinity);
            if (turn == 6) logits[7] = nan_value;
            const size_t needed = size_t(best.best_needed());
            REQUIRE(needed > 0);
            std::vector<Candidate> candidates;
            for (size_t i = 0; i < logits.size(); ++i)
                if (logits[i] > -infinity) candidates.push_back({int32_t(i), logits[i]});
            std::stable_sort(candidates.begin(), candidates.end());
            if (needed < candidates.size()) ++fewer, candidates.resize(needed);
            const int32_t token = whole.sample(logits);
            REQUIRE(best.sample_best(candidates) == token);
            whole.accept(token);
            best.accept(token);
        }
    }
    CHECK(fewer > 3000);
    // What the best can't tell.
    const auto needed = [](const auto& change) {
        SamplingOptions options;
        change(options);
        return Sampler(options).best_needed(3);
    };
    CHECK(needed([](SamplingOptions&) {}) == 40);
    CHECK(needed([](SamplingOptions& o) { o.repeat_penalty = 1.1f; }) == 43);
    CHECK(needed([](SamplingOptions& o) { o.top_k = 0; }) == 0);
    CHECK(needed([](SamplingOptions& o) { o.logprobs = 0; }) == 0);
    CHECK(needed([](SamplingOptions& o) { o.bias = {{1, 1.0f}}; }) == 0);
    CHECK(needed([](SamplingOptions& o) { o.presence_penalty = -1; }) == 0);
    CHECK(needed([](SamplingOptions& o) { o.repeat_penalty = 0.9f; }) == 0);
}

TEST_CASE("bias forbids and commands, and ids outside the vocabulary are ignored") {
    SamplingOptions options = plain();
    options.bias = {{0, -infinity}, {7, 100.0f}, {-1, 5.0f}, {1 << 30, 5.0f}};
    const std::vector<float> logits(10, 0.0f);
    for (options.seed = 0; options.seed < 20; ++options.seed) CHECK(once(logits, options) == 7);
    options.bias = {{0, infinity}, {1, -infinity}};
    CHECK(once(logits, options) == 0);
    CHECK(failure_of({0.0f}, [] {
              SamplingOptions o;
              o.bias = {{0, -infinity}};
              return o;
          }()) == Status::invalid_argument);
}

TEST_CASE("only allowed tokens are drawn, whatever their logits") {
    SamplingOptions options = plain();
    std::vector<float> logits(100, 0.0f);
    logits[5] = 50.0f;
    const std::vector<uint32_t> allowed{0x80000001u, 0xffffffffu, 0, 0x8u};  // 0, 31, 32 to 63, 99
    std::map<int32_t, int> counts;
    Sampler sampler(options);
    for (int i = 0; i < 3000; ++i) {
        std::vector<float> scratch = logits;
        ++counts[sampler.sample(scratch, allowed)];
    }
    CHECK(counts.size() == 35);
    for (const auto& [token, count] : counts) CHECK((allowed[size_t(token) / 32] >> (token % 32) & 1) == 1);
    // A mask that is too short allows nothing past its end.
    CHECK(once(logits, options, std::vector<uint32_t>{0x2u}) == 1);
    CHECK(failure_of(logits, options, std::vector<uint32_t>{0, 0, 0, 0}) == Status::invalid_argument);
    logits[1] = -infinity;
    CHECK(failure_of(logits, options, std::vector<uint32_t>{0x2u}) == Status::invalid_argument);
}

TEST_CASE("NaN is never drawn and nothing but NaN is a failure") {
    for (const int k : {0, 2, 40}) {
        SamplingOptions options = plain();
        options.top_k = k;
        for (options.seed = 0; options.seed < 30; ++options.seed) {
            CHECK(once({nan_value, 1.0f, -nan_value}, options) == 1);
            const int32_t token = once({nan_value, infinity, 3.0f, infinity, -infinity}, options);
            CHECK((token == 1 || token == 3));
        }
        CHECK(failure_of(std::vector<float>(40, nan_value), options) == Status::internal);
        CHECK(failure_of(std::vector<float>(40, -infinity), options) == Status::internal);
        CHECK(failure_of({}, options) == Status::internal);
        options.typical_p = 0.5f, options.top_p = 0.9f, options.min_p = 0.1f;
        const int32_t token = once({0.0f, infinity, 3.0f, infinity, -infinity, nan_value}, options);
        CHECK((token == 1 || token == 3));
    }
}

TEST_CASE("logprobs are those of the raw distribution") {
    std::vector<float> logits = random_logits(3000, 9, 2.0);
    logits[17] = nan_value, logits[18] = -infinity;
    SamplingOptions options;
    options.temperature = 0, options.logprobs = 5, options.bias = {{2, 1000.0f}};
    Sampler sampler(options);
    std::vector<float> scratch = logits;
    CHECK(sampler.sample(scratch) == 2);
    double sum = 0;
    for (const float logit : logits) sum += std::isnan(logit) ? 0.0 : std::exp(double(logit));
    CHECK(sampler.logprobs().logprob == Approx(double(logits[2]) - std::log(sum)).epsilon(1e-6));
    std::vector<std::pair<float, int32_t>> order;
    for (size_t i = 0; i < logits.size(); ++i)
        if (!std::isnan(logits[i])) order.emplace_back(-logits[i], int32_t(i));
    std::sort(order.begin(), order.end());
    REQUIRE(sampler.logprobs().best.size() == 5);
    for (size_t i = 0; i < 5; ++i) {
        CHECK(sampler.logprobs().best[i].first == order[i].second);
        CHECK(sampler.logprobs().best[i].second ==
              Approx(-double(order[i].first) - std::log(sum)).epsilon(1e-6));
    }
    options.bias.clear(), options.logprobs = 0;
    Sampler none(options);
    scratch = {infinity, 1.0f};
    CHECK(none.sample(scratch) == 0);
    CHECK(none.logprobs().logprob == 0.0f);
    CHECK(none.logprobs().best.empty());
    options.logprobs = 10;
    Sampler more(options);
    scratch = {1.0f, 1.0f};
    more.sample(scratch);
    REQUIRE(more.logprobs().best.size() == 2);
    CHECK(more.logprobs().best[1].second == Approx(std::log(0.5)));
}

TEST_CASE("options out of range are named") {
    const auto refused = [](const char* name, auto change) {
        SamplingOptions options;
        change(options);
        try {
            Sampler sampler(options);
        } catch (const Failure& failure) {
            CHECK(failure.status() == Status::invalid_argument);
            INFO(failure.message());
            CHECK(failure.message().find(name) != std::string::npos);
            return true;
        }
        return false;
    };
    using O = SamplingOptions&;
    CHECK(refused("temperature", [](O o) { o.temperature = -0.1f; }));
    CHECK(refused("temperature", [](O o) { o.temperature = nan_value; }));
    CHECK(refused("temperature", [](O o) { o.temperature = infinity; }));
    CHECK(refused("top_k", [](O o) { o.top_k = -1; }));
    CHECK(refused("top_p", [](O o) { o.top_p = 1.01f; }));
    CHECK(refused("min_p", [](O o) { o.min_p = -0.5f; }));
    CHECK(refused("typical_p", [](O o) { o.typical_p = 2.0f; }));
    CHECK(refused("repeat_penalty", [](O o) { o.repeat_penalty = 0.0f; }));
    CHECK(refused("presence_penalty", [](O o) { o.presence_penalty = nan_value; }));
    CHECK(refused("frequency_penalty", [](O o) { o.frequency_penalty = infinity; }));
    CHECK(refused("penalty_tokens", [](O o) { o.penalty_tokens = -2; }));
    CHECK(refused("logprobs", [](O o) { o.logprobs = -2; }));
    CHECK(refused("bias", [](O o) { o.bias = {{3, nan_value}}; }));
    CHECK_FALSE(refused("", [](O o) { o.temperature = 0, o.top_k = 0, o.top_p = 0; }));
}
