// Memory of the CPU device, and what works element by element or row by row.
#include "device/cpu/cpu_device.h"

#include <cmath>
#include <cstring>

#include "base/failure.h"
#include "device/checks.h"
#include "device/cpu/input.h"
#include "device/cpu/rotation.h"

namespace coterie {

namespace {

class CpuBuffer final : public Buffer {
  public:
    explicit CpuBuffer(uint64_t bytes) : memory_(bytes ? bytes : 1, "activations; ask for less context") {
        data_ = memory_.data();
        bytes_ = bytes;
    }

  private:
    cpu::HostMemory memory_;
};

}  // namespace

CpuDevice::CpuDevice(const CpuOptions& options)
    : kernels_(cpu::kernels(cpu::isa_named(options.isa))),
      elements_(cpu::elements(kernels_.isa)),
      team_(options.threads, options.pin),
      log_(options.log),
      fine_(options.fine),
      input_(std::make_unique<Input>()),
      grouped_(std::make_unique<Grouped>()),
      thread_scratch_(size_t(team_.size())),
      thread_group_(size_t(team_.size())) {
    log_line(log_, LogLevel::info, description());
}
CpuDevice::~CpuDevice() = default;

std::string CpuDevice::description() const {
    return fmt::format("{}, {}, {} thread{}{}", cpu::processor_name(), cpu::isa_name(kernels_.isa), threads(),
                       threads() == 1 ? "" : "s", fine_ ? ", 16-bit activations" : "");
}

std::unique_ptr<Buffer> CpuDevice::allocate(uint64_t bytes) {
    return std::make_unique<CpuBuffer>(bytes);
}
void CpuDevice::write(void* to, const void* from, uint64_t bytes) {
    if (bytes) std::memcpy(to, from, bytes);
}
void CpuDevice::read(void* to, const void* from, uint64_t bytes) {
    if (bytes) std::memcpy(to, from, bytes);
}
void CpuDevice::begin(const Step& step) {
    check_step(step);
}

void CpuDevice::rms_norm(Rows y, Rows x, const float* gain, float eps) {
    check_same_shape(x, y);
    for_rows(x.rows, x.width, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            const float mean = elements_.sum_of_squares(x.row(r), x.width) / float(x.width);
            elements_.scale(y.row(r), x.row(r), 1.0f / std::sqrt(mean + eps), gain, x.width);
        }
    });
}

void CpuDevice::add_rms_norm(Rows x, Rows y, Rows h, const float* gain, float eps) {
    check_same_shape(x, y);
    check_same_shape(x, h);
    for_rows(x.rows, 2 * x.width, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            const float mean = elements_.add_sum_of_squares(x.row(r), y.row(r), x.width) / float(x.width);
            elements_.scale(h.row(r), x.row(r), 1.0f / std::sqrt(mean + eps), gain, x.width);
        }
    });
}

void CpuDevice::l2_norm(Rows x, int32_t heads, float eps) {
    check_rows(x);
    COTERIE_CHECK(heads > 0 && x.width % heads == 0);
    const int64_t dim = x.width / heads;
    for_rows(x.rows, x.width, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
            for (int32_t head = 0; head < heads; ++head) {
                float* part = x.row(r) + head * dim;
                const float factor = 1.0f / std::sqrt(elements_.sum_of_squares(part, dim) + eps);
                elements_.scale(part, part, factor, nullptr, dim);
            }
    });
}

void CpuDevice::add(Rows x, Rows y) {
    check_same_shape(x, y);
    for_rows(x.rows, x.width, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) elements_.add(x.row(r), y.row(r), x.width);
    });
}

void CpuDevice::act(float* y, const float* gate, const float* up, int64_t n, Activation activation) const {
    switch (activation) {
        case Activation::silu:
            return elements_.silu(y, gate, up, n);
        case Activation::gelu_tanh:
            return elements_.gelu(y, gate, up, n);
        case Activation::clamped_swiglu:
            return elements_.clamped_swiglu(y, gate, up, n);
    }
    fail(Status::internal, "there is no activation {}", int(activation));
}

void CpuDevice::activate(Rows y, Rows gate, Rows up, Activation activation) {
    check_same_shape(y, gate);
    check_same_shape(y, up);
    for_rows(y.rows, 4 * y.width, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) act(y.row(r), gate.row(r), up.row(r), y.width, activation);
    });
}

void CpuDevice::sigmoid_gate(Rows y, Rows gate) {
    check_rows(y);
    COTERIE_CHECK(gate.width == y.width || gate.width == 1);
    check_shape(gate, y.rows, gate.width);
    for_rows(y.rows, 4 * y.width, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
            if (gate.width == 1)
                elements_.scale(y.row(r), y.row(r), 1.0f / (1.0f + std::exp(-gate.row(r)[0])), nullptr,
                                y.width);
            else
                elements_.sigmoid_gate(y.row(r), gate.row(r), y.width);
    });
}

void CpuDevice::softcap(Rows x, float cap) {
    check_rows(x);
    COTERIE_CHECK(cap > 0);
    for_rows(x.rows, 4 * x.width, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) elements_.softcap(x.row(r), cap, x.width);
    });
}

void CpuDevice::select_rows(Rows y, Rows x, const Step& step) {
    check_shape(x, step.rows(), x.width);
    check_shape(y, int64_t(step.outputs.size()), x.width);
    // Outputs ascend, so y may be x.
    for (int64_t i = 0; i < y.rows; ++i)
        std::memmove(y.row(i), x.row(step.outputs[size_t(i)]), size_t(x.width) * sizeof(float));
}

}  // namespace coterie
