// A weight prepared for the CPU. Matrices of experts are packed one by one when they are first used, into one
// arena that is reserved for all of them; others at once. Tables that are only looked up stay in the file.
#pragma once
#include <vector>

#include "device/cpu/layout.h"
#include "device/cpu/memory.h"
#include "device/device.h"

namespace coterie::cpu {

class CpuWeight final : public Weight {
  public:
    explicit CpuWeight(const WeightSource& source);

    uint64_t bytes() const override;
    bool gathered() const { return source_.gather; }
    bool packed(int64_t expert) const { return packed_[size_t(expert)] != 0; }
    // Packs groups of one expert; every group once, from any thread; then finish().
    void pack(int64_t expert, Range groups);
    void finish(int64_t expert);
    void populate() const { arena_.populate(); }
    const std::byte* matrix(int64_t expert) const { return arena_.data() + expert * shape.bytes(); }

    // A row of a gathered table, decoded; `whole` holds file_in floats of scratch if columns() is cut.
    void row(int64_t index, float* to, std::vector<float>& whole) const;

    const PackedShape shape;

  private:
    const std::byte* file_row(int64_t expert, int64_t row) const;
    WeightSource source_;
    std::vector<int64_t> first_row_;  // of the kept rows, for each range
    std::vector<uint8_t> packed_;
    HostMemory arena_;
};

// Failure(internal) for a weight of another device.
CpuWeight& held(const Weight& weight);

}  // namespace coterie::cpu
