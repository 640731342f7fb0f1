// The choice of experts and the weighted sum of what they gave.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/failure.h"
#include "device/checks.h"
#include "device/reference/functions.h"
#include "device/reference/reference_device.h"

namespace coterie {

using namespace reference;

namespace {

constexpr double smallest_normal_half = 0x1p-14;  // 6.1e-5: the floor of the sum that weights are divided by
constexpr double lowest = -std::numeric_limits<double>::infinity();

// In place; -inf is zero probability.
void softmax(std::vector<double>& x) {
    const double most = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (double& value : x) sum += value = std::exp(value - most);
    for (double& value : x) value /= sum;
}

// The `count` best of the candidates, best first, ties to the lower number. NaN counts as -inf, so the answer
// is always `count` different numbers.
std::vector<int32_t> best(const std::vector<double>& score, const std::vector<bool>& candidate,
                          int32_t count) {
    std::vector<bool> open = candidate;
    std::vector<int32_t> chosen;
    const auto value = [&](size_t i) { return std::isnan(score[i]) ? lowest : score[i]; };
    for (int32_t j = 0; j < count; ++j) {
        int64_t top = -1;
        for (size_t i = 0; i < score.size(); ++i)
            if (open[i] && (top < 0 || value(i) > value(size_t(top)))) top = int64_t(i);
        COTERIE_CHECK(top >= 0);
        open[size_t(top)] = false;
        chosen.push_back(int32_t(top));
    }
    return chosen;
}

std::vector<double> gated(const float* logits, const Router& router) {
    std::vector<double> p(logits, logits + router.experts);
    switch (router.gating) {
        case Router::Gating::softmax:
            softmax(p);
            return p;
        case Router::Gating::sigmoid:
            for (double& value : p) value = sigmoid(value);
            return p;
        case Router::Gating::selected_softmax:
            return p;
        case Router::Gating::sqrt_softplus:
            for (double& value : p) value = std::sqrt(softplus(value));
            return p;
    }
    fail(Status::internal, "there is no gating {}", int(router.gating));
}

// Experts of the groups that may be chosen: those with the largest sum of their two best members.
std::vector<bool> open_experts(const std::vector<double>& score, const Router& router) {
    std::vector<bool> open(score.size(), true);
    if (router.groups <= 1) return open;
    const size_t size = score.size() / size_t(router.groups);
    std::vector<double> sums(size_t(router.groups));
    for (size_t g = 0; g < sums.size(); ++g) {
        std::vector<double> members(score.begin() + int64_t(g * size),
                                    score.begin() + int64_t((g + 1) * size));
        const std::vector<bool> all(size, true);
        for (int32_t member : best(members, all, int32_t(std::min<size_t>(2, size))))
            sums[g] += members[size_t(member)];
    }
    open.assign(score.size(), false);
    for (int32_t g : best(sums, std::vector<bool>(sums.size(), true), router.groups_used))
        std::fill_n(open.begin() + int64_t(size_t(g) * size), size, true);
    return open;
}

}  // namespace

void ReferenceDevice::choose_experts(Routing routing, Rows scores, const Router& router) {
    check_routing(routing);
    check_shape(scores, routing.rows, router.experts);
    COTERIE_CHECK(routing.used == router.used && router.used <= router.experts);
    COTERIE_CHECK(router.groups >= 1 && router.experts % router.groups == 0);
    COTERIE_CHECK(router.groups_used >= 1 && router.groups_used <= router.groups);
    COTERIE_CHECK(router.groups == 1 || router.experts / router.groups * router.groups_used >= router.used);
    for (int64_t r = 0; r < routing.rows; ++r) {
        const std::vector<double> p = gated(scores.row(r), router);
        std::vector<double> selection = p;
        if (router.selection_bias)
            for (size_t e = 0; e < p.size(); ++e) selection[e] += double(router.selection_bias[e]);
        const std::vector<int32_t> chosen = best(selection, open_experts(selection, router), router.used);
        std::vector<double> weights;
        for (int32_t e : chosen) weights.push_back(p[size_t(e)]);
        if (router.gating == Router::Gating::selected_softmax) softmax(weights);
        double sum = 0;
        for (double w : weights) sum += w;
        const double divisor = router.normalise ? std::max(sum, smallest_normal_half) : 1.0;
        for (int32_t j = 0; j < router.used; ++j) {
            routing.experts[r * router.used + j] = chosen[size_t(j)];
            routing.weights[r * router.used + j] = float(weights[size_t(j)] / divisor * double(router.scale));
        }
    }
}

void ReferenceDevice::expert_combine(Rows y, Rows e, const Routing& routing) {
    check_routing(routing);
    check_shape(y, routing.rows, y.width);
    check_shape(e, routing.rows * routing.used, y.width);
    for (int64_t r = 0; r < y.rows; ++r)
        for (int64_t i = 0; i < y.width; ++i) {
            double sum = 0;
            for (int64_t c = r * routing.used; c < (r + 1) * routing.used; ++c)
                sum += double(routing.weights[c]) * double(e.row(c)[i]);
            y.row(r)[i] = float(sum);
        }
}

}  // namespace coterie
