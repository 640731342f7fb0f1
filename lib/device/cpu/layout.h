// The packed layout of a weight matrix: groups of 16 rows, each a contiguous stream of fragments.
//
// A fragment is up to 8 blocks of 32 columns from one super-block of the file (a shard may begin or end
// inside a super-block: it keeps a copy of the two factors). It is a header of scales, then per block the
// quants of 16 rows:
//   4 bits: 4 x 64 bytes; byte 4r + c of vector i holds row r's columns 4i + c (low) and 16 + 4i + c (high)
//   5 bits: the same, then 64 bytes; bit i of byte 4r + c is bit 4 of column 4i + c
//   6 bits: the same, then 2 x 64 bytes; bits 2(i mod 4).. of byte 4r + c of vector i / 4 are bits 4, 5
//   3 bits: 2 x 64 bytes of bits 0, 1 as in the line above, then 64 bytes of bit 2 as in 5 bits
//   8 bits: 8 x 64 bytes; byte 4r + c of vector i holds column 4i + c
// so that 4-byte activation groups broadcast against 16 rows. F16, BF16 and F32 are [column][16 rows]. Types
// with no packed form keep their blocks as in the file, [fragment][16 rows], and are decoded when they are
// used.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/threads.h"
#include "device/cpu/format.h"

namespace coterie::cpu {

enum class Container : uint8_t { blocks, floats, native };

struct Fragment {
    int32_t source;  // block of the file's row
    uint8_t first;   // of its parts of 32 columns
    uint8_t count;
};

class PackedShape {
  public:
    // Failure(unsupported) for column ranges the type can't be cut at.
    PackedShape(Type type, int64_t rows, std::span<const Range> columns);

    Type type;
    Container container;
    Format format;
    int64_t rows, columns;            // kept
    int64_t group_bytes;              // a multiple of 64
    std::vector<Fragment> fragments;  // empty for floats
    std::vector<Range> ranges;        // floats: the columns kept

    int64_t groups() const { return (rows + group_rows - 1) / group_rows; }
    int64_t bytes() const { return groups() * group_bytes; }
    int64_t blocks() const { return columns / block_columns; }
    int rows_of_group(int64_t group) const {
        return int(rows - group * group_rows < group_rows ? rows - group * group_rows : group_rows);
    }
};

// Packs up to 16 rows of the file (null: padding). `to` is 64-byte aligned and group_bytes long.
void pack_group(const PackedShape& shape, const std::byte* const rows[group_rows], std::byte* to);

// The values of one packed row, for tests and row look-ups: exactly what the file's block format says, in
// F32.
void unpack_row(const PackedShape& shape, const std::byte* group, int row, float* to);

}  // namespace coterie::cpu
