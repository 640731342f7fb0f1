// A weight on a CUDA device: its planes in one piece of memory.
#pragma once
#include "base/failure.h"
#include "cuda/memory.h"
#include "cuda/packing.h"

namespace coterie::cuda {

class CudaWeight final : public Weight {
  public:
    CudaWeight(const WeightSource& source, int device)
        : Weight(source.type, source.in(), source.out(), source.experts()),
          packing(source),
          memory(device, uint64_t(packing.bytes()), source.name.c_str()),
          packed(packing.view(memory.data<uint8_t>())) {}
    uint64_t bytes() const override { return memory.bytes(); }

    const Packing packing;
    const DeviceMemory memory;
    const Packed packed;
};

inline const Packed& held(const Weight& weight) {
    const auto* own = dynamic_cast<const CudaWeight*>(&weight);
    COTERIE_CHECK(own != nullptr);
    return own->packed;
}

}  // namespace coterie::cuda
