#include "plan/shard_bytes.h"

#include "base/failure.h"
#include "device/cpu/layout.h"

namespace coterie {
namespace {

constexpr int64_t part_columns = 32;
// A super-block that was cut keeps a copy of its factors.
constexpr uint64_t factor_bytes = 4;

int64_t total(const std::vector<Range>& ranges) {
    int64_t sum = 0;
    for (const Range& range : ranges) sum += range.end - range.begin;
    return sum;
}

// Bytes of a row as in the file, in which super-blocks may be cut at 32 columns.
uint64_t cut_row_bytes(Type type, const std::vector<Range>& columns) {
    const TypeTraits& t = traits(type);
    const int64_t block = t.block_elements;
    uint64_t bytes = 0;
    for (const Range& range : columns) {
        if (t.quantised && (range.begin % part_columns || range.end % part_columns))
            fail(Status::unsupported, "{} can be cut at multiples of 32 columns, not at {} to {}", t.name,
                 range.begin, range.end);
        const int64_t first = (range.begin + block - 1) / block * block, last = range.end / block * block;
        if (first <= last) bytes += uint64_t((last - first) / block * t.block_bytes);
        const auto piece = [&](int64_t elements) {
            if (elements > 0)
                bytes += factor_bytes +
                         uint64_t((int64_t(t.block_bytes) - int64_t(factor_bytes)) * elements / block);
        };
        if (first > last) {
            piece(range.end - range.begin);
        } else {
            piece(first - range.begin);
            piece(range.end - last);
        }
    }
    return bytes;
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
    const Weight as_in_file(entry.type, shard.in, shard.out, shard.experts);
    if (entry.kind == Kind::gather) return as_in_file.bytes();
    if (kind == DeviceKind::cpu)
        return uint64_t(cpu::PackedShape(entry.type, shard.out, shard.columns).bytes()) *
               uint64_t(shard.experts);
    return cut_row_bytes(entry.type, shard.columns) * uint64_t(shard.out) * uint64_t(shard.experts);
}

}  // namespace coterie
