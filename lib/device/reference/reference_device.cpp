// Memory of the reference device: host memory, zeroed.
#include "device/reference/reference_device.h"

#include <cstdlib>
#include <cstring>

#include "base/failure.h"
#include "device/checks.h"

namespace coterie {

namespace {

class HostBuffer final : public Buffer {
  public:
    explicit HostBuffer(uint64_t bytes) {
        const uint64_t limit = uint64_t(1) << 46;  // more than an address space
        data_ = bytes > limit ? nullptr : std::calloc(bytes ? bytes : 1, 1);
        if (!data_)
            fail(Status::out_of_memory, "the host has no {} bytes for activations; ask for less context",
                 bytes);
        bytes_ = bytes;
    }
    ~HostBuffer() override { std::free(data_); }
};

}  // namespace

std::unique_ptr<Buffer> ReferenceDevice::allocate(uint64_t bytes) {
    return std::make_unique<HostBuffer>(bytes);
}
void ReferenceDevice::write(void* to, const void* from, uint64_t bytes) {
    if (bytes) std::memcpy(to, from, bytes);
}
void ReferenceDevice::read(void* to, const void* from, uint64_t bytes) {
    if (bytes) std::memcpy(to, from, bytes);
}
void ReferenceDevice::begin(const Step& step) {
    check_step(step);
}

}  // namespace coterie
