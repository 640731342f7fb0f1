// The choice of experts. Where the order of probabilities is the order of logits, logits decide: equal means
// equal.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/failure.h"
#include "device/checks.h"
#include "device/cpu/cpu_device.h"

namespace coterie {

namespace {

constexpr double smallest_normal_half = 0x1p-14;
constexpr int32_t most_experts = 4096, most_used = 256;
constexpr double lowest = -std::numeric_limits<double>::infinity();

// The `count` best of n scores, best first, ties to the lower number; NaN counts as -inf. open[i] = 0
// excludes i and is cleared for what was chosen.
template <typename Number>
void best(const Number* score, uint8_t* open, int32_t n, int32_t count, int32_t* chosen) {
    const auto value = [&](int32_t i) { return std::isnan(score[i]) ? Number(lowest) : score[i]; };
    for (int32_t j = 0; j < count; ++j) {
        int32_t top = -1;
        Number most = 0;
        for (int32_t i = 0; i < n; ++i) {
            if (!open[i]) continue;
            const Number v = value(i);
            if (top < 0 || v > most) top = i, most = v;
        }
        COTERIE_CHECK(top >= 0);
        open[top] = 0;
        chosen[j] = top;
    }
}

double gated(double x, Router::Gating gating) {
    if (gating == Router::Gating::sigmoid) return 1.0 / (1.0 + std::exp(-x));
    return std::sqrt(x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)));
}

// Experts of the groups that may be chosen: those with the largest sum of their two best members.
void close_groups(const double* score, uint8_t* open, const Router& router) {
    const int32_t size = router.experts / router.groups;
    std::array<double, most_experts> sums;
    std::array<uint8_t, most_experts> all;
    for (int32_t g = 0; g < router.groups; ++g) {
        int32_t two[2];
        std::fill_n(all.begin(), size, uint8_t(1));
        best(score + g * size, all.data(), size, std::min(2, size), two);
        sums[size_t(g)] = score[g * size + two[0]] + (size > 1 ? score[g * size + two[1]] : 0.0);
    }
    std::array<int32_t, most_experts> chosen;
    std::fill_n(all.begin(), router.groups, uint8_t(1));
    best(sums.data(), all.data(), router.groups, router.groups_used, chosen.data());
    for (int32_t g = 0; g < router.groups; ++g)
        if (all[size_t(g)]) std::fill_n(open + g * size, size, uint8_t(0));
}

void choose(const float* logits, const Router& router, const cpu::Elements& elements, int32_t* chosen,
            float* weights) {
    const int32_t n = router.experts, used = router.used;
    std::array<uint8_t, most_experts> open;
    std::array<double, most_used> w;
    std::fill_n(open.begin(), n, uint8_t(1));
    const bool softmax = router.gating == Router::Gating::softmax;
    if ((softmax || router.gating == Router::Gating::selected_softmax) && !router.selection_bias &&
        router.groups <= 1) {
        best(logits, open.data(), n, used, chosen);
        const double most = logits[chosen[0]];
        double total = 0;
        for (int32_t j = 0; j < used; ++j) total += w[size_t(j)] = std::exp(double(logits[chosen[j]]) - most);
        // Of all experts, not only the chosen: what the probabilities are of, and what their floor is
        // measured by.
        if (softmax) total = double(elements.sum_of_exp(logits, float(most), n));
        for (int32_t j = 0; j < used; ++j) w[size_t(j)] /= total;
    } else {
        std::array<double, most_experts> p, score;
        double most = lowest, total = 0;
        for (int32_t e = 0; e < n; ++e) most = std::max(most, double(logits[e]));
        for (int32_t e = 0; e < n; ++e) {
            const double x = double(logits[e]);
            p[size_t(e)] = softmax                                             ? std::exp(x - most)
                           : router.gating == Router::Gating::selected_softmax ? x
                                                                               : gated(x, router.gating);
            total += p[size_t(e)];
        }
        for (int32_t e = 0; e < n; ++e) {
            if (softmax) p[size_t(e)] /= total;
            score[size_t(e)] =
                p[size_t(e)] + (router.selection_bias ? double(router.selection_bias[e]) : 0.0);
        }
        if (router.groups > 1) close_groups(score.data(), open.data(), router);
        best(score.data(), open.data(), n, used, chosen);
        for (int32_t j = 0; j < used; ++j) w[size_t(j)] = p[size_t(chosen[j])];
        if (router.gating == Router::Gating::selected_softmax) {
            const double top = *std::max_element(w.begin(), w.begin() + used);
            double sum = 0;
            for (int32_t j = 0; j < used; ++j) sum += w[size_t(j)] = std::exp(w[size_t(j)] - top);
            for (int32_t j = 0; j < used; ++j) w[size_t(j)] /= sum;
        }
    }
    double sum = 0;
    for (int32_t j = 0; j < used; ++j) sum += w[size_t(j)];
    const double divisor = router.normalise ? std::max(sum, smallest_normal_half) : 1.0;
    for (int32_t j = 0; j < used; ++j) weights[j] = float(w[size_t(j)] / divisor * double(router.scale));
}

}  // namespace

void CpuDevice::choose_experts(Routing routing, Rows scores, const Router& router) {
    check_routing(routing);
    check_shape(scores, routing.rows, router.experts);
    COTERIE_CHECK(routing.used == router.used && router.used <= router.experts);
    COTERIE_CHECK(router.experts <= most_experts && router.used <= most_used);
    COTERIE_CHECK(router.groups >= 1 && router.experts % router.groups == 0);
    COTERIE_CHECK(router.groups_used >= 1 && router.groups_used <= router.groups);
    COTERIE_CHECK(router.groups == 1 || router.experts / router.groups * router.groups_used >= router.used);
    for_rows(routing.rows, int64_t(router.experts) * router.used, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
            choose(scores.row(r), router, elements_, routing.experts + r * router.used,
                   routing.weights + r * router.used);
    });
}

}  // namespace coterie
