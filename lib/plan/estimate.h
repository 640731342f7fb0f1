// What a step costs by a model's tensor table alone, for architectures whose forward() is not there yet: as
// the dry device counts it, but with a bound for scratch and typical numbers of launches and reductions.
#pragma once
#include "plan/dry_device.h"

namespace coterie {

// What a page and a slot hold besides keys, values and delta-net states: an indexer's keys; the history of
// the n-gram convolution.
uint64_t extra_page_bytes(const Hyperparameters& h, const Share& share, int64_t page_tokens);
uint64_t extra_slot_bytes(const Hyperparameters& h, const Share& share);

Work table_work(const Model& model, const Share& share, const DryStep& step);

}  // namespace coterie
