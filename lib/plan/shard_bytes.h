// How many bytes a rank's part of a tensor takes on a kind of device, without the device: its layouts are
// known here in so far as they change sizes.
#pragma once
#include <cstdint>
#include <vector>

#include "model/tensor_table.h"
#include "plan/machine.h"

namespace coterie {

struct ShardShape {
    int64_t in = 0, out = 0, experts = 0;
    std::vector<Range> columns;  // of the input dimension
    bool empty() const { return in == 0 || out == 0 || experts == 0; }
    uint64_t elements() const { return uint64_t(in) * uint64_t(out) * uint64_t(experts); }
};

// Sizes of what shard_source() keeps.
ShardShape shard_shape(const TensorEntry& entry, const Hyperparameters& h, const Share& share);

// Kept as F32 numbers, not as a weight.
inline bool is_numbers(Kind kind) {
    return kind == Kind::vector || kind == Kind::taps;
}

// Throws unsupported for columns the device can't cut the type at.
uint64_t shard_bytes(const TensorEntry& entry, const ShardShape& shard, DeviceKind kind);

}  // namespace coterie
