// One way to place a model: shares and bytes per rank for a context, and its speed. planner.cpp tries ways
// and chooses.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plan/planner.h"

namespace coterie {

// The numbers of a request with its defaults filled in.
struct StepShape {
    int64_t context_tokens, step_rows, step_outputs;
    int32_t parallel, pages, state_slots;
    Type key_type, value_type;
};
StepShape step_shape(const Hyperparameters& h, const PlanRequest& request, int64_t context_tokens);

class Placing {
  public:
    // host_experts: of every layer, computed by one more rank on the host (tensor and expert mode).
    Placing(const Model& model, const Machine& machine, const PlanRequest& request, Mode mode,
            int32_t host_experts);

    // The placing for a context; throws nothing for one that does not fit.
    Plan plan(int64_t context_tokens) const;
    // How much the fullest rank lacks, in bytes; <= 0: it fits.
    static int64_t excess(const Plan& plan);
    // The longest context that fits, in whole pages, at most `most`; 0: none.
    int64_t largest_context(int64_t most) const;
    void predict(Plan& plan) const;

    // Why this mode can't be had at all; empty: it can.
    const std::string& obstacle() const { return obstacle_; }
    // Bytes one expert of every layer takes on each device's rank.
    const std::vector<double>& expert_bytes() const { return expert_bytes_; }

  private:
    MachineDevice device_of(size_t rank) const;
    void cut(int64_t context_tokens, std::vector<Share>& shares) const;
    static double row_cost(const std::vector<double>& of_one, const std::vector<double>& of_many,
                           int64_t rows);
    double layered_seconds(const Plan& plan, const std::vector<double>& of_one,
                           const std::vector<double>& of_all, int64_t rows) const;
    uint64_t scratch_of(size_t index, const RankPlan& rank, const Plan& plan) const;
    std::vector<Work> work(const RankPlan& rank, const Plan& plan, const std::vector<DryStep>& steps) const;

    const Model& model_;
    const Machine& machine_;
    const PlanRequest& request_;
    Mode mode_;
    int32_t host_experts_;
    std::string obstacle_;
    uint64_t table_bytes_ = 0;           // of tables that lie on the host
    std::vector<uint64_t> capacity_;     // [ranks]
    std::vector<Share> shares_;          // of the modes that don't depend on the context
    std::vector<uint64_t> weights_;      // [ranks], of shares_
    std::vector<double> layer_weights_;  // [layers], layer mode
    double first_weights_ = 0, last_weights_ = 0;
    std::vector<double> expert_bytes_;
    mutable std::map<std::array<int64_t, 4>, uint64_t> scratch_;  // found so far
};

}  // namespace coterie
