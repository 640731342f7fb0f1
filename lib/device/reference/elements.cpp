// Norms, activations and other operations row by row or element by element.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/failure.h"
#include "device/checks.h"
#include "device/reference/functions.h"
#include "device/reference/reference_device.h"

namespace coterie {

using namespace reference;

namespace {

double sum_of_squares(const float* x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += double(x[i]) * double(x[i]);
    return sum;
}

double activated(double gate, double up, Activation activation) {
    switch (activation) {
        case Activation::silu:
            return silu(gate) * up;
        case Activation::gelu_tanh:
            return gelu_tanh(gate) * up;
        case Activation::clamped_swiglu:
            gate = std::min(gate, 7.0);
            up = std::clamp(up, -7.0, 7.0);
            return gate * sigmoid(1.702 * gate) * (up + 1.0);
    }
    fail(Status::internal, "there is no activation {}", int(activation));
}

}  // namespace

void ReferenceDevice::rms_norm(Rows y, Rows x, const float* gain, float eps) {
    check_same_shape(x, y);
    for (int64_t r = 0; r < x.rows; ++r) {
        const double mean = sum_of_squares(x.row(r), x.width) / double(x.width);
        const double factor = 1.0 / std::sqrt(mean + double(eps));
        for (int64_t i = 0; i < x.width; ++i)
            y.row(r)[i] = float(double(x.row(r)[i]) * factor * (gain ? double(gain[i]) : 1.0));
    }
}

void ReferenceDevice::l2_norm(Rows x, int32_t heads, float eps) {
    check_rows(x);
    COTERIE_CHECK(heads > 0 && x.width % heads == 0);
    const int64_t dim = x.width / heads;
    for (int64_t r = 0; r < x.rows; ++r)
        for (int32_t head = 0; head < heads; ++head) {
            float* part = x.row(r) + head * dim;
            const double factor = 1.0 / std::sqrt(sum_of_squares(part, dim) + double(eps));
            for (int64_t i = 0; i < dim; ++i) part[i] = float(double(part[i]) * factor);
        }
}

void ReferenceDevice::add(Rows x, Rows y) {
    check_same_shape(x, y);
    for (int64_t r = 0; r < x.rows; ++r)
        for (int64_t i = 0; i < x.width; ++i) x.row(r)[i] = float(double(x.row(r)[i]) + double(y.row(r)[i]));
}

void ReferenceDevice::clear(Rows y) {
    for (int64_t r = 0; r < y.rows; ++r) std::fill_n(y.row(r), y.width, 0.0f);
}

void ReferenceDevice::activate(Rows y, Rows gate, Rows up, Activation activation) {
    check_same_shape(y, gate);
    check_same_shape(y, up);
    for (int64_t r = 0; r < y.rows; ++r)
        for (int64_t i = 0; i < y.width; ++i)
            y.row(r)[i] = float(activated(double(gate.row(r)[i]), double(up.row(r)[i]), activation));
}

void ReferenceDevice::sigmoid_gate(Rows y, Rows gate) {
    check_rows(y);
    COTERIE_CHECK(gate.width == y.width || gate.width == 1);
    check_shape(gate, y.rows, gate.width);
    for (int64_t r = 0; r < y.rows; ++r)
        for (int64_t i = 0; i < y.width; ++i)
            y.row(r)[i] = float(double(y.row(r)[i]) * sigmoid(double(gate.row(r)[gate.width == 1 ? 0 : i])));
}

void ReferenceDevice::softcap(Rows x, float cap) {
    check_rows(x);
    COTERIE_CHECK(cap > 0);
    for (int64_t r = 0; r < x.rows; ++r)
        for (int64_t i = 0; i < x.width; ++i)
            x.row(r)[i] = float(double(cap) * std::tanh(double(x.row(r)[i]) / double(cap)));
}

void ReferenceDevice::select_rows(Rows y, Rows x, const Step& step) {
    check_step(step);
    check_shape(x, step.rows(), x.width);
    check_shape(y, int64_t(step.outputs.size()), x.width);
    // Outputs ascend, so y may be x.
    for (int64_t i = 0; i < y.rows; ++i)
        std::memmove(y.row(i), x.row(step.outputs[size_t(i)]), size_t(x.width) * sizeof(float));
}

}  // namespace coterie
