#include "plan/shard_bytes.h"

#include "base/failure.h"
#include "device/cpu/layout.h"
#include "device/cuda_layout.h"

namespace coterie {
namespace {

int64_t total(const std::vector<Range>& ranges) {
    int64_t sum = 0;
    for (const Range& range : ranges) sum += range.end - range.begin;
    return sum;
}

}  // namespace

ShardShape shard_shape(const TensorEntry& entry, const Hyperparameters& h, const Share& share) {
    ShardShape shape;
    shape.out = total(cut(entry.rows, entry.out, h, share, entry.layer));
    shape.columns = entry.kind == Kind::vector ? std::vector<Range>{{0, 1}}
                                               : cut(entry.columns, entry.in, h, share, entry.layer);
    shape.in = total(shape.columns);
    shape.experts = total(cut(entry.slabs, entry.experts, h, share, entry.layer));
    return shape;
}

uint64_t shard_bytes(const TensorEntry& entry, const ShardShape& shard, DeviceKind kind) {
    if (shard.empty()) return 0;
    // The reference device decodes everything.
    if (is_numbers(entry.kind) || kind == DeviceKind::reference) return shard.elements() * sizeof(float);
    if (kind == DeviceKind::cuda)
        return cuda::weight_bytes(cuda::row_layout(entry.type, shard.columns, entry.kind == Kind::gather),
                                  shard.out * shard.experts);
    if (entry.kind == Kind::gather) return Weight(entry.type, shard.in, shard.out, shard.experts).bytes();
    return uint64_t(cpu::PackedShape(entry.type, shard.out, shard.columns).bytes()) * uint64_t(shard.experts);
}

}  // namespace coterie
