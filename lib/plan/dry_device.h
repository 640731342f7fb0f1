// A device that computes nothing: forward() runs on it to learn what a step needs. It hands out addresses
// that are never read, counts operations, and so tells scratch bytes, weight bytes read, multiplications,
// launches and reductions from the one description there is of the model. Allocates no activation memory.
#pragma once
#include "device/communicator.h"
#include "device/device.h"
#include "model/model.h"

namespace coterie {

// What one step of a rank costs.
struct Work {
    uint64_t scratch_bytes = 0;    // peak of activations
    uint64_t weight_bytes = 0;     // read from weights, as in the file; each chosen expert once
    uint64_t expert_bytes = 0;     // of these, of routed experts, expected for a uniform router
    uint64_t cache_bytes = 0;      // keys and values read
    uint64_t multiplications = 0;  // of weights with activations
    int64_t operations = 0;        // device calls (launches)
    int64_t reductions = 0;        // meetings: all-reduces, gathers, messages
    uint64_t reduction_bytes = 0;  // their payload
};

struct DryStep {
    int64_t rows = 1;       // in the step
    int64_t outputs = 1;    // rows whose logits are wanted
    int64_t position = 0;   // of each sequence's first row: tokens already held
    int64_t sequences = 1;  // that share the rows equally
};

// forward() of a rank's share, run without a file's contents being touched, as often as one likes.
class DryRun {
  public:
    DryRun(const Model& model, const Share& share, const CacheShape& cache);
    ~DryRun();
    Work step(const DryStep& step);

  private:
    struct State;
    std::unique_ptr<State> state_;
};
Work dry_run(const Model& model, const Share& share, const CacheShape& cache, const DryStep& step);

// The shapes of a rank's cache and states, without pages and slots.
CacheShape cache_shape(const Hyperparameters& h, const Share& share);
StateShape state_shape(const Hyperparameters& h, const Share& share);

}  // namespace coterie
