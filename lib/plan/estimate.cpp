#include "plan/estimate.h"

#include <algorithm>
#include <cmath>

#include "plan/shard_bytes.h"

namespace coterie {

uint64_t extra_page_bytes(const Hyperparameters& h, const Share& share, int64_t page_tokens) {
    uint64_t bytes = 0;
    for (int64_t i = share.layers.begin; i < share.layers.end; ++i) {
        const Range heads = share.layer[size_t(i)].heads;
        if (!h.recurrent[size_t(i)] && heads.end > heads.begin)
            bytes += uint64_t(page_tokens) * uint64_t(h.indexer_dim) * 2;  // F16, one key per token
    }
    return bytes;
}

uint64_t extra_slot_bytes(const Hyperparameters& h, const Share& share) {
    if (h.ngram_layer < share.layers.begin || h.ngram_layer >= share.layers.end) return 0;
    return uint64_t(h.ngram_history) * uint64_t(h.streams) * uint64_t(h.embedding) * sizeof(float);
}

Work table_work(const Model& model, const Share& share, const DryStep& step) {
    const Hyperparameters& h = model.numbers();
    const double rows = double(step.rows), all = double(std::max(h.router.experts, 1));
    Work work;
    double widest = 0;  // outputs of one block, in floats per row
    std::vector<double> outputs(size_t(h.layers) + 1, 0.0);
    for (const TensorEntry& entry : model.table().entries()) {
        if (!holds(entry, share) || is_numbers(entry.kind)) continue;
        const ShardShape shard = shard_shape(entry, h, share);
        if (shard.empty()) continue;
        const Weight one(entry.type, shard.in, shard.out, 1);
        ++work.operations;
        if (entry.kind == Kind::gather) {
            work.weight_bytes += uint64_t(rows * double(one.bytes()) / double(shard.out));
            continue;
        }
        double matrices = 1, multiplied = rows;
        if (entry.kind == Kind::experts) {
            matrices = double(shard.experts) * (1.0 - std::pow(1.0 - h.router.used / all, rows));
            multiplied = rows * h.router.used * double(shard.experts) / all;
            work.expert_bytes += uint64_t(matrices * double(one.bytes()));
        } else if (entry.layer < 0) {
            multiplied = double(step.outputs);
        }
        work.weight_bytes += uint64_t(matrices * double(one.bytes()));
        work.multiplications += uint64_t(multiplied * double(shard.in) * double(shard.out));
        outputs[size_t(entry.layer + 1)] +=
            double(shard.out) * (entry.kind == Kind::experts ? h.router.used : 1);
    }
    for (const double width : outputs) widest = std::max(widest, width);
    const CacheShape cache = cache_shape(h, share);
    for (const CacheShape::Layer& l : cache.layers)
        work.cache_bytes += uint64_t(step.position + step.rows / step.sequences) * uint64_t(step.sequences) *
                            uint64_t(l.kv_heads) * uint64_t(l.key_dim + l.value_dim) * 2;
    work.cache_bytes += 2 * state_shape(h, share).slot_bytes() * uint64_t(step.sequences);

    const int64_t held = share.layers.end - share.layers.begin;
    // Per layer a cache or state operation, attention, routing, and three norms or gates for each block.
    work.operations += 9 * held;
    const uint64_t streams = uint64_t(std::max(h.streams, 1));
    const uint64_t row_bytes = uint64_t(h.embedding) * sizeof(float);
    if (share.sums()) {
        work.reductions = 2 * held + 2;
        work.reduction_bytes = uint64_t(step.rows) * row_bytes * uint64_t(2 * held + 1);
    } else if (share.ranks > 1) {
        work.reductions = (share.has_embedding ? 0 : 1) + (share.has_head ? 0 : 1);
        work.reduction_bytes = uint64_t(work.reductions) * uint64_t(step.rows) * row_bytes * streams;
    }
    // The residual streams twice (before and after a gate), the normed input, the sum, and a block.
    work.scratch_bytes =
        uint64_t(step.rows) * (2 * streams + 2) * row_bytes + uint64_t(rows * widest) * sizeof(float);
    return work;
}

}  // namespace coterie
