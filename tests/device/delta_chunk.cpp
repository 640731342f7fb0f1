// The chunked delta rule equals the recurrence, in double nearly to the last bit.
#include "device/delta_chunk.h"

#include <cmath>
#include <vector>

#include "catch.h"
#include "device/reference/reference_device.h"
#include "workbench.h"

using namespace coterie;
using namespace coterie::test;

namespace {

// A head's inputs in double; keys of length 1, decays from none to nearly everything.
struct Head {
    int64_t tokens, key_dim, value_dim;
    std::vector<double> q, k, v, decay, beta, state;

    Head(int64_t t, int64_t dk, int64_t dv) : tokens(t), key_dim(dk), value_dim(dv) {
        Random random(uint64_t(t * 1000 + dk));
        const auto fill = [&](std::vector<double>& x, int64_t n) {
            for (int64_t i = 0; i < n; ++i) x.push_back(double(random.normal()) + 1e-9 * random.uniform());
        };
        fill(q, t * dk), fill(k, t * dk), fill(v, t * dv), fill(state, dv * dk);
        for (int64_t i = 0; i < t; ++i) {
            double length = 0;
            for (int64_t d = 0; d < dk; ++d) length += k[size_t(i * dk + d)] * k[size_t(i * dk + d)];
            for (int64_t d = 0; d < dk; ++d) k[size_t(i * dk + d)] /= std::sqrt(length);
            decay.push_back(i % 17 == 5 ? -40.0 : i % 5 == 0 ? 0.0 : -0.3 * random.uniform());
            beta.push_back(i % 7 == 3 ? 1.0 : random.uniform());
        }
    }
};

// As the header of Device says it, in double throughout.
std::vector<double> recurrence(const Head& h, double scale, std::vector<double>& S) {
    std::vector<double> y;
    S = h.state;
    for (int64_t t = 0; t < h.tokens; ++t)
        for (int64_t o = 0; o < h.value_dim; ++o) {
            double* row = S.data() + o * h.key_dim;
            const double* k = h.k.data() + t * h.key_dim;
            double seen = 0, out = 0;
            for (int64_t i = 0; i < h.key_dim; ++i) seen += (row[i] *= std::exp(h.decay[size_t(t)])) * k[i];
            const double d = h.beta[size_t(t)] * (h.v[size_t(t * h.value_dim + o)] - seen);
            for (int64_t i = 0; i < h.key_dim; ++i)
                out += (row[i] += d * k[i]) * scale * h.q[size_t(t * h.key_dim + i)];
            y.push_back(out);
        }
    return y;
}

template <typename Real>
std::vector<Real> chunked(const Head& h, double scale, std::vector<Real>& S) {
    const auto as = [](const std::vector<double>& x) { return std::vector<Real>(x.begin(), x.end()); };
    const auto q = as(h.q), k = as(h.k), v = as(h.v), decay = as(h.decay), beta = as(h.beta);
    S = as(h.state);
    std::vector<Real> y(v.size()), scratch(size_t(delta_chunk_scratch(h.key_dim, h.value_dim)));
    delta_rule_chunked<Real>(h.tokens, h.key_dim, h.value_dim, {y.data(), h.value_dim}, {q.data(), h.key_dim},
                             {k.data(), h.key_dim}, {v.data(), h.value_dim}, {decay.data(), 1},
                             {beta.data(), 1}, Real(scale), S.data(), scratch.data());
    return y;
}

template <typename Real>
double distance(const std::vector<Real>& found, const std::vector<double>& expected) {
    double most = 0, size = 0;
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
        most = std::max(most, std::fabs(double(found[i]) - expected[i]));
        size = std::max(size, std::fabs(expected[i]));
    }
    return most / size;
}

}  // namespace

TEST_CASE("the chunked delta rule is the recurrence", "[delta]") {
    for (const int64_t tokens : {1, 7, 63, 64, 65, 130})
        for (const auto& [key_dim, value_dim] : {std::pair<int64_t, int64_t>{16, 24}, {128, 128}, {5, 3}}) {
            INFO(tokens << " tokens, " << key_dim << " x " << value_dim);
            const Head head(tokens, key_dim, value_dim);
            const double scale = 1 / std::sqrt(double(key_dim));
            std::vector<double> expected_state, state;
            std::vector<float> state32;
            const std::vector<double> expected = recurrence(head, scale, expected_state);
            CHECK(distance(chunked<double>(head, scale, state), expected) < 1e-12);
            CHECK(distance(state, expected_state) < 1e-12);
            CHECK(distance(chunked<float>(head, scale, state32), expected) < 5e-5);
            CHECK(distance(state32, expected_state) < 5e-5);
        }
}

TEST_CASE("the reference device's delta rule is the recurrence, over several heads and sequences",
          "[delta]") {
    ReferenceDevice device;
    Bench b(device);
    const Head first(9, 6, 4), second(5, 6, 4);
    StateShape shape;
    shape.layers = {{0, 1, 1, 6, 4}};
    shape.slots = 2;
    const auto states = device.make_states(shape);
    const Step step = step_of({{1, 0, 5}, {0, 0, 9}}, 2);
    const auto both = [&](const std::vector<double> Head::*member, int64_t width) {
        Floats x((second.*member).begin(), (second.*member).end());
        x.insert(x.end(), (first.*member).begin(), (first.*member).end());
        return b.rows(x, 14, width, 3);
    };
    for (const auto& [slot, head] : {std::pair{0, &first}, {1, &second}}) {
        const Floats state(head->state.begin(), head->state.end());
        device.write_state(*states, slot, reinterpret_cast<const std::byte*>(state.data()));
    }
    DeltaRule rule;
    rule.key_heads = rule.value_heads = 1;
    rule.key_dim = 6;
    rule.value_dim = 4;
    rule.query_scale = 0.5f;
    const Rows y = b.blank(14, 4, 2);
    device.delta_rule(y, both(&Head::q, 6), both(&Head::k, 6), both(&Head::v, 4), both(&Head::decay, 1),
                      both(&Head::beta, 1), *states, 0, rule, step);
    std::vector<double> first_state, second_state, expected = recurrence(second, 0.5, second_state);
    const std::vector<double> rest = recurrence(first, 0.5, first_state);
    expected.insert(expected.end(), rest.begin(), rest.end());
    CHECK(distance(b.read(y), expected) < 1e-6);
    Floats found(24);
    device.read_state(*states, 0, reinterpret_cast<std::byte*>(found.data()));
    CHECK(distance(found, first_state) < 1e-6);
}
