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

    Type type;  // as it lies on the device
    Format format;
    int64_t in = 0, out = 0, experts = 0;
    int32_t groups = 0, super_blocks = 0, lead = 0, shift = 0, stride = 0;

    // Planes in the order codes, high, scales, supers. A float matrix has the first only.
    static constexpr int planes = 4;
    int64_t row_bytes(int plane) const { return row_bytes_[plane]; }
    int64_t offset(int plane) const { return offset_[plane]; }  // in the weight's memory
    int64_t bytes() const { return bytes_; }
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
    int64_t row_bytes_[planes] = {}, offset_[planes] = {}, bytes_ = 0;
};

}  // namespace coterie::cuda
