#include "plan/cost.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace coterie {
namespace {

// Up to this many draws are counted exactly.
constexpr int most_counted = 64;

class LogFactorials {
  public:
    explicit LogFactorials(int most) : values_(size_t(most) + 1, 0.0) {
        for (size_t i = 2; i < values_.size(); ++i) values_[i] = values_[i - 1] + std::log(double(i));
    }
    double choose(int n, int k) const {
        return values_[size_t(n)] - values_[size_t(k)] - values_[size_t(n - k)];
    }

  private:
    std::vector<double> values_;
};

// The expected largest of n normal numbers, in standard deviations.
double expected_largest(int n) {
    static constexpr double known[] = {0,     0,     0.564, 0.846, 1.029, 1.163, 1.267, 1.352, 1.424,
                                       1.485, 1.539, 1.586, 1.629, 1.668, 1.703, 1.736, 1.766};
    return n < int(std::size(known)) ? known[n] : std::sqrt(2 * std::log(double(n)));
}

// P(the fullest rank holds at most m of the chosen): the ways to draw at most m from every rank, as a product
// of polynomials cut off at degree `chosen`, each coefficient relative to all ways to draw as many.
double at_most(int m, int experts, int chosen, int ranks, const LogFactorials& logs) {
    std::vector<double> ways(size_t(chosen) + 1, 0.0), next;
    ways[0] = 1.0;
    int before = 0;
    for (int r = 0; r < ranks; ++r) {
        const int held = experts * (r + 1) / ranks - experts * r / ranks, now = before + held;
        next.assign(size_t(chosen) + 1, 0.0);
        for (int n = 0; n <= std::min(chosen, now); ++n)
            for (int j = std::max(0, n - before); j <= std::min({n, m, held}); ++j)
                if (ways[size_t(n - j)] > 0)
                    next[size_t(n)] +=
                        ways[size_t(n - j)] *
                        std::exp(logs.choose(held, j) + logs.choose(before, n - j) - logs.choose(now, n));
        ways.swap(next);
        before = now;
    }
    return std::min(1.0, ways[size_t(chosen)]);
}

}  // namespace

double work_seconds(const Work& work, const MachineDevice& device, double expert_factor) {
    const double bytes = double(work.weight_bytes) + (expert_factor - 1.0) * double(work.expert_bytes) +
                         double(work.cache_bytes);
    const double reading = bytes / (device.bandwidth * memory_efficiency);
    const double multiplying = 2.0 * double(work.multiplications) / (device.matrix_rate * matrix_efficiency);
    return std::max(reading, multiplying) + double(work.operations) * device.launch_us * 1e-6;
}

double reduction_seconds(double bytes, int ranks, const MachineLink& link) {
    if (ranks <= 1) return 0;
    const double others = ranks - 1, latency = link.latency_us * 1e-6;
    const double one_shot = latency + bytes * others / link.bandwidth;
    const double two_shots = 2 * latency + 2 * bytes * others / ranks / link.bandwidth;
    return std::min(one_shot, two_shots);
}

double message_seconds(double bytes, const MachineLink& link) {
    return link.latency_us * 1e-6 + bytes / link.bandwidth;
}

int micro_batches(int64_t rows, int ranks, double row_cost) {
    if (ranks <= 1 || row_cost <= 0) return 1;
    const double best = std::sqrt((ranks - 1) * row_cost * double(rows));
    const double most = double(std::min<int64_t>(rows, most_micro_batches(ranks)));
    return std::max(1, int(std::min(std::round(best), most)));
}

double expert_imbalance(int experts, int chosen, int ranks) {
    chosen = std::min(chosen, experts);
    if (ranks <= 1 || chosen <= 0) return 1.0;
    const double mean = double(chosen) / ranks;
    if (chosen > most_counted) {  // the number on a rank is nearly normal
        const double rest = double(experts - chosen) / std::max(1, experts - 1);
        // What one rank has more the others have less: independent numbers less their mean, scaled up again.
        const double tied = std::sqrt(ranks / (ranks - 1.0));
        return 1.0 + tied * expected_largest(ranks) * std::sqrt(mean * (1.0 - 1.0 / ranks) * rest) / mean;
    }
    const LogFactorials logs(experts);
    const int least = (chosen + ranks - 1) / ranks;  // nobody can do with less
    double expected = least;                         // E = sum over m >= 0 of P(fullest > m)
    for (int m = least; m < chosen; ++m) {
        const double above = 1.0 - at_most(m, experts, chosen, ranks, logs);
        expected += above;
        if (above < 1e-9) break;
    }
    return expected / mean;
}

}  // namespace coterie
