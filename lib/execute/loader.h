// Puts a rank's share of a model's weights onto its device, straight from the mapped file.
#pragma once
#include "base/progress.h"
#include "model/model.h"

namespace coterie {

// context_tokens chooses between the short and long rope factors of models that have both.
RankWeights load_weights(const Model& model, const Share& share, Device& device, int64_t context_tokens,
                         const ProgressCallback& progress);

}  // namespace coterie
