// The weights one rank holds, as forward() asks for them: by part and layer. Filled by the loader, fixed
// afterwards.
#pragma once
#include <memory>
#include <vector>

#include "device/device.h"
#include "model/tensor_table.h"

namespace coterie {

class RankWeights {
  public:
    explicit RankWeights(int32_t layers) : slots_(size_t(layers + 1) * size_t(Part::count)) {}

    // Null when the file has no such part or this rank holds nothing of it.
    const Weight* matrix(Part part, int32_t layer = -1) const { return slot(part, layer).weight.get(); }
    const float* vector(Part part, int32_t layer = -1) const {
        const Slot& s = slot(part, layer);
        return s.vector ? static_cast<const float*>(s.vector->data()) : nullptr;
    }
    ExpertWeight experts(Part matrices, Part biases, int32_t layer, const Share& share) const {
        return {matrix(matrices, layer), vector(biases, layer),
                int32_t(share.layer[size_t(layer)].experts.begin)};
    }

    void set(Part part, int32_t layer, std::unique_ptr<Weight> weight) {
        slot(part, layer).weight = std::move(weight);
    }
    void set(Part part, int32_t layer, std::unique_ptr<Buffer> vector) {
        slot(part, layer).vector = std::move(vector);
    }

    uint64_t bytes() const {
        uint64_t sum = 0;
        for (const Slot& s : slots_) {
            if (s.weight) sum += s.weight->bytes();
            if (s.vector) sum += s.vector->bytes();
        }
        return sum;
    }

    Rope rope, rope_local;                                   // of global and of windowed layers
    std::unique_ptr<Buffer> frequencies, local_frequencies;  // what they point to

  private:
    struct Slot {
        std::unique_ptr<Weight> weight;
        std::unique_ptr<Buffer> vector;
    };
    const Slot& slot(Part part, int32_t layer) const {
        return slots_[size_t(layer + 1) * size_t(Part::count) + size_t(part)];
    }
    Slot& slot(Part part, int32_t layer) {
        return slots_[size_t(layer + 1) * size_t(Part::count) + size_t(part)];
    }
    std::vector<Slot> slots_;
};

}  // namespace coterie
