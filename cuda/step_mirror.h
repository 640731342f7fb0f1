// A step's contents at fixed device addresses: written into pinned memory and copied in one piece when a step
// begins. The addresses change only when a step is larger than every one before; whoever recorded calls asks
// generation().
#pragma once
#include <cstdint>

#include "cuda/kernels/step_view.h"
#include "cuda/memory.h"
#include "device/step.h"

namespace coterie::cuda {

class StepMirror {
  public:
    explicit StepMirror(int device) : device_(device), copied_(device) {}
    // Waits for the copy of the step before, then copies this one on the stream.
    void write(const Step& step, cudaStream_t stream, double deadline_s);
    const StepView& view() const { return view_; }
    uint64_t generation() const { return generation_; }

  private:
    void grow(const Step& step);
    int32_t* host(const void* device_address) const;

    int device_;
    PinnedMemory host_;
    DeviceMemory memory_;
    Event copied_;
    StepView view_;
    size_t rows_ = 0, spans_ = 0, pages_ = 0;  // room for
    uint64_t generation_ = 0;
};

}  // namespace coterie::cuda
