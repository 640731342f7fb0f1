#include "device/cuda_layout.h"

#include "base/failure.h"

namespace coterie::cuda {

RowLayout row_layout(Type type, std::span<const Range> columns, bool gather) {
    RowLayout row;
    row.type = type;
    int64_t kept = 0;
    for (const Range& range : columns) {
        if (traits(type).quantised && (range.begin % group_columns || range.end % group_columns))
            fail(Status::unsupported, "{} can be cut at multiples of {} columns, not at {} to {}",
                 type_name(type), group_columns, range.begin, range.end);
        kept += range.end - range.begin;
    }
    const Format f = format_of(type);
    if (f.bits == 0) {
        // Types without a packed form are multiplied as F16, and looked up as F32, which is exact.
        if (type != Type::F32 && type != Type::F16 && type != Type::BF16)
            row.type = gather ? Type::F32 : Type::F16;
        row.stride = (kept + 7) / 8 * 8;
        row.bytes[0] = row.stride * (row.type == Type::F32 ? 4 : 2);
        return row;
    }
    row.groups = kept / group_columns;
    if (super_bytes(f) > 0 && row.groups > 0) {
        // One range: super-blocks as in the file, the first and last perhaps in part. Several: one per group.
        row.super_blocks = row.groups;
        if (columns.size() == 1) {
            const int64_t first = columns[0].begin / group_columns;
            row.lead = first % 8;
            row.shift = 3;
            row.super_blocks = (row.lead + row.groups - 1) / 8 + 1;
        }
    }
    row.bytes[0] = row.groups * code_bytes(f);
    row.bytes[1] = row.groups * high_bytes(f);
    row.bytes[2] = row.groups * scale_bytes(f);
    row.bytes[3] = row.super_blocks * super_bytes(f);
    return row;
}

}  // namespace coterie::cuda
