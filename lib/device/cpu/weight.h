// A weight prepared for the CPU. Matrices of experts are packed one by one, when they are used for the second
// time or when the processor is idle, into one arena that is reserved for all of them; others at once. A
// first use takes an expert from the file, group by group: new memory costs more than packing does, and many
// experts of a first prompt are not asked for again soon. Tables that are only looked up stay in the file.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "device/cpu/layout.h"
#include "device/cpu/memory.h"
#include "device/cpu/packer.h"
#include "device/device.h"

namespace coterie::cpu {

class CpuWeight final : public Weight {
    enum class State : uint8_t { raw, used, claimed, packed };

  public:
    // With a packer, which then packs the experts in the background.
    explicit CpuWeight(const WeightSource& source, std::shared_ptr<Packer> packer = nullptr);
    ~CpuWeight() override;

    uint64_t bytes() const override;
    bool gathered() const { return source_.gather; }
    uint64_t unpacked_bytes() const;
    bool packed(int64_t expert) const {
        return state(expert).load(std::memory_order_acquire) == State::packed;
    }
    bool first_use(int64_t expert);  // true once
    // True for one caller, who then packs every group of the expert (from any threads) and calls finish().
    bool claim(int64_t expert);
    // Stops early when `dropped` becomes true.
    void pack(int64_t expert, Range groups, const std::atomic<bool>* dropped = nullptr);
    void finish(int64_t expert);
    // One group, packed from the file to `to` (64-byte aligned, shape.group_bytes).
    void pack_to(std::byte* to, int64_t expert, int64_t group) const;
    void populate() const { arena_.populate(); }
    const std::byte* group(int64_t expert, int64_t group) const {
        return arena_.data() + expert * shape.bytes() + group * shape.group_bytes;
    }

    // A row of a gathered table, decoded; `whole` holds file_in floats of scratch if columns() is cut.
    void row(int64_t index, float* to, std::vector<float>& whole) const;

    const PackedShape shape;

  private:
    const std::byte* file_row(int64_t expert, int64_t row) const;
    WeightSource source_;
    std::vector<int64_t> first_row_;  // of the kept rows, for each range
    std::atomic<State>& state(int64_t expert) const { return states_[size_t(expert)]; }
    std::unique_ptr<std::atomic<State>[]> states_;  // one per expert
    std::shared_ptr<Packer> packer_;
    HostMemory arena_;
};

// Failure(internal) for a weight of another device.
CpuWeight& held(const Weight& weight);

}  // namespace coterie::cpu
