// From a file's blocks to the planes of a device (kernels/packed.h): which groups of 32 columns a shard
// keeps, where each plane lies, and the bytes of a row. Host code; reads the blocks, writes staging memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/kernels/packed.h"
#include "device/device.h"

namespace coterie::cuda {

class Packing {
  public:
    explicit Packing(const WeightSource& source);

    const RowLayout row;
    const Format format;
    const int64_t in, out, experts;

    static constexpr int planes = RowLayout::planes;
    int64_t row_bytes(int plane) const { return row.bytes[plane]; }
    int64_t offset(int plane) const { return offset_[plane]; }  // in the weight's memory
    uint64_t bytes() const { return weight_bytes(row, out * experts); }
    int64_t bytes_of_row() const;

    // Packs a row of the file: to[plane] is row_bytes(plane) long.
    void pack(const std::byte* file_row, std::byte* const to[planes]) const;
    // The kernels' view of a weight whose memory begins at `data`.
    Packed view(uint8_t* data) const;

  private:
    void pack_floats(const std::byte* file_row, std::byte* to) const;

    Type file_type_;
    int64_t file_in_ = 0;
    std::vector<Range> columns_;
    std::vector<int64_t> kept_;    // groups of the file's row
    std::vector<int64_t> supers_;  // super-blocks of the file's row, one per entry of the plane
    int64_t offset_[planes] = {};
};

}  // namespace coterie::cuda
