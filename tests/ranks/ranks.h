// Runners of a model over several ranks on the reference device, for comparing ways to cut with each other.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "execute/runner.h"
#include "plan/shares.h"

namespace ranks {

using DeviceMaker = std::unique_ptr<coterie::Device> (*)();
std::unique_ptr<coterie::Device> reference();

struct Way {
    coterie::Mode mode = coterie::Mode::single;
    int ranks = 1;
    std::vector<double> capacity = {};  // empty: equal
    int32_t host_experts = 0;           // of every layer, on one more rank
    double row_cost = 0;                // of layer mode
};
std::string name_of(const Way& way);

std::vector<coterie::Share> shares_of(const coterie::Hyperparameters& h, const Way& way);
std::unique_ptr<coterie::Runner> make_runner(const std::shared_ptr<const coterie::Model>& model,
                                             const Way& way, DeviceMaker device = reference,
                                             int64_t tokens = 256);

struct Answer {
    std::vector<int32_t> tokens;
    std::vector<float> logits;  // of the prompt's rows and of every generated token's, [*, vocabulary]
};
// The prompt in one step, then greedy tokens one by one.
Answer answer(coterie::Runner& runner, const std::vector<int32_t>& prompt, int count);

double nmse(const std::vector<float>& got, const std::vector<float>& want);

}  // namespace ranks
