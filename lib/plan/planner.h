// Plans: what goes where, whether it fits, and how fast it will be. Reads a model's headers and a machine's
// description; allocates, loads and measures nothing. What a plan says of bytes the executor uses
// (tests/ranks holds them together).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/model.h"
#include "plan/dry_device.h"
#include "plan/machine.h"
#include "plan/shares.h"

namespace coterie {

// Of one sequence, when nobody asks for more. Never what the model says it was made for.
constexpr int64_t default_context_tokens = 8192;
constexpr int32_t plan_page_tokens = 64;

struct PlanRequest {
    int64_t context_tokens = 0;  // of one sequence; 0: what fits, at most default_context_tokens
    int32_t parallel = 1;        // sequences at once
    int64_t step_rows = 0;       // rows of a step; 0: 512
    Type key_type = Type::F16, value_type = Type::F16;
    Mode mode = Mode::automatic;
    std::vector<uint64_t> limits = {};  // most bytes to use per device; 0 or absent: all that is free
    bool host_experts = false;          // experts that don't fit may stay on the host and be computed there
    bool reuse_prefixes = true;
    int32_t drafts = 0;        // guessed tokens of a sequence that a step may check
    int32_t checkpoints = -1;  // of recurrent states; -1: four for every sequence, if prefixes are reused
};

struct RankPlan {
    std::string device;
    DeviceKind kind = DeviceKind::cuda;
    Share share;
    uint64_t weights_bytes = 0, kv_bytes = 0, state_bytes = 0, scratch_bytes = 0, comm_bytes = 0;
    uint64_t capacity_bytes = 0;
    uint64_t total_bytes() const {
        return weights_bytes + kv_bytes + state_bytes + scratch_bytes + comm_bytes;
    }
};

struct Plan {
    std::string model, machine;
    bool mixture = false;  // of experts
    bool fits = false;
    Mode mode = Mode::single;
    std::string reason;
    double imbalance = 1.0;  // how full the fullest rank is, over the mean
    std::vector<RankPlan> ranks;

    int64_t context_tokens = 0, step_rows = 0, step_outputs = 0;
    int32_t parallel = 1, pages = 0, state_slots = 0;
    Type key_type = Type::F16, value_type = Type::F16;

    // Tokens per second, at half of the context.
    double prefill_rate = 0;  // of a prompt, in full steps
    double decode_rate = 0;   // of one sequence alone
    double batch_rate = 0;    // of all parallel sequences together
    double row_cost = 0;      // in layer mode: of one more row in a step, over that of a step without any
    Work decode_work;         // of one token of one sequence, on the rank that takes longest

    uint64_t host_bytes = 0;               // tables and experts left on the host
    int32_t host_experts = 0;              // of every layer
    std::vector<std::string> problems;     // why it does not fit: sentences
    std::vector<std::string> suggestions;  // what would fit instead
    std::vector<std::string> notes;
    int64_t largest_context = 0;  // that would fit as placed; 0: none
};

// Throws invalid_argument for a request that contradicts itself. A plan that does not fit is a plan that says
// so.
Plan make_plan(const Model& model, const Machine& machine, const PlanRequest& request);

std::string plan_text(const Plan& plan);
std::string plan_json(const Plan& plan);
std::string bytes_text(uint64_t bytes);  // "12.34 GB"
// The problems and suggestions as one sentence after another, for a refusal.
std::string refusal_text(const Plan& plan);

}  // namespace coterie
