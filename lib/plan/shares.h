// Cuts a model into shares: which units of every axis each rank holds. Pure arithmetic on the model's
// numbers. Every unit is held once (KV heads as often as their query heads need them), whatever the number of
// ranks; a rank may end up with nothing of an axis that has few units.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "model/share.h"

namespace coterie {

enum class Mode {
    automatic,
    single,  // one rank
    tensor,  // inside heads' groups, experts and matrices
    expert,  // as tensor, but experts are whole
    layer,   // contiguous layers
};
const char* mode_name(Mode mode);

constexpr int64_t column_unit = 32;  // matrices are cut at multiples of it

// Tensor or expert mode. capacity: a weight per rank, of which only the ratios matter. device_experts:
// experts of every layer that the ranks share; the others are left for a host rank (host_share).
std::vector<Share> cut_within_layers(const Hyperparameters& h, Mode mode, std::span<const double> capacity,
                                     int32_t device_experts);
// The rank after them, which holds experts [device_experts, all) of every layer and nothing else.
Share host_share(const Hyperparameters& h, int32_t device_experts, int32_t rank, int32_t ranks);

// Layer mode: the contiguous layers that leave the fullest rank least full. layer_bytes [layers]; first and
// last are what the ranks at the ends hold besides (embedding; head).
std::vector<Share> cut_between_layers(const Hyperparameters& h, std::span<const double> capacity,
                                      std::span<const double> layer_bytes, double first, double last);

// Gives out units again and again in proportion to weights, so that after any number of times everybody has
// had their due within one unit or so: what one layer's rounding takes from a rank, the next gives back.
class Apportionment {
  public:
    explicit Apportionment(std::span<const double> weights);
    // units each rank gets this time; their sum is `units`.
    std::vector<int64_t> next(int64_t units);

  private:
    std::vector<double> due_, owed_;  // share of one; units still owed from before
};

}  // namespace coterie
