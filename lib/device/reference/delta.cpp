// Recurrent states, the causal convolution and the gated delta rule, token by token.
//
// A slot is slot_bytes() long; in it layer by layer the history [taps - 1][channels], oldest first, then the
// states [value head][value dim][key dim].
#include <cmath>
#include <cstring>
#include <vector>

#include "base/failure.h"
#include "device/checks.h"
#include "device/reference/functions.h"
#include "device/reference/reference_device.h"

namespace coterie {

using namespace reference;

namespace {

class ReferenceStates final : public States {
  public:
    explicit ReferenceStates(const StateShape& of)
        : States(of), floats(of.slot_bytes() / sizeof(float) * uint64_t(of.slots)) {}
    std::vector<float> floats;

    float* slot(int32_t number) {
        COTERIE_CHECK(number >= 0 && number < shape.slots);
        return floats.data() + uint64_t(number) * (shape.slot_bytes() / sizeof(float));
    }
    const StateShape::Layer& layer(int32_t index) const {
        COTERIE_CHECK(index >= 0 && size_t(index) < shape.layers.size());
        return shape.layers[size_t(index)];
    }
    float* history(int32_t index, int32_t number) {
        float* at = slot(number);
        for (int32_t i = 0; i < index; ++i) at += layer(i).history_floats() + layer(i).state_floats();
        return at;
    }
    float* state(int32_t index, int32_t number) {
        return history(index, number) + layer(index).history_floats();
    }
};

ReferenceStates& held(States& states) {
    auto* reference = dynamic_cast<ReferenceStates*>(&states);
    COTERIE_CHECK(reference != nullptr);
    return *reference;
}
ReferenceStates& held(const States& states) {
    return held(const_cast<States&>(states));
}

}  // namespace

std::unique_ptr<States> ReferenceDevice::make_states(const StateShape& shape) {
    COTERIE_CHECK(shape.slots >= 0);
    for (const StateShape::Layer& layer : shape.layers)
        COTERIE_CHECK(layer.taps >= 1 && layer.channels >= 0 && layer.value_heads >= 0 &&
                      layer.key_dim >= 0 && layer.value_dim >= 0);
    try {
        return std::make_unique<ReferenceStates>(shape);
    } catch (const std::exception&) {
        fail(Status::out_of_memory,
             "the host has no memory for {} states of {} bytes; ask for fewer parallel sequences",
             shape.slots, shape.slot_bytes());
    }
}

void ReferenceDevice::clear_state(States& states, int32_t slot) {
    std::memset(held(states).slot(slot), 0, states.shape.slot_bytes());
}
void ReferenceDevice::copy_state(States& states, int32_t from, int32_t to) {
    std::memmove(held(states).slot(to), held(states).slot(from), states.shape.slot_bytes());
}
void ReferenceDevice::read_state(const States& states, int32_t slot, std::byte* to) {
    std::memcpy(to, held(states).slot(slot), states.shape.slot_bytes());
}
void ReferenceDevice::write_state(States& states, int32_t slot, const std::byte* from) {
    std::memcpy(held(states).slot(slot), from, states.shape.slot_bytes());
}

void ReferenceDevice::convolve(Rows y, Rows x, const float* taps, States& states, int32_t layer,
                               const Step& step) {
    ReferenceStates& s = held(states);
    const StateShape::Layer& l = s.layer(layer);
    check_step(step);
    check_slots(step, s.shape);
    check_shape(x, step.rows(), l.channels);
    check_shape(y, step.rows(), l.channels);
    COTERIE_CHECK(taps != nullptr && (x.rows == 0 || y.data != x.data));
    for (const Span& span : step.spans) {
        float* history = s.history(layer, span.state);
        for (int64_t r = span.first_row; r < span.first_row + span.rows; ++r)
            for (int64_t c = 0; c < l.channels; ++c) {
                double sum = double(taps[c * l.taps + l.taps - 1]) * double(x.row(r)[c]);
                for (int64_t k = 0; k < l.taps - 1; ++k)
                    sum += double(taps[c * l.taps + k]) * double(history[k * l.channels + c]);
                y.row(r)[c] = float(silu(sum));
                for (int64_t k = 0; k < l.taps - 2; ++k)
                    history[k * l.channels + c] = history[(k + 1) * l.channels + c];
                if (l.taps > 1) history[(l.taps - 2) * l.channels + c] = x.row(r)[c];
            }
    }
}

void ReferenceDevice::delta_gates(Rows decay, Rows beta, const float* dt, const float* a) {
    check_same_shape(decay, beta);
    COTERIE_CHECK(dt != nullptr && a != nullptr);
    for (int64_t r = 0; r < decay.rows; ++r)
        for (int64_t h = 0; h < decay.width; ++h) {
            float& g = decay.row(r)[h];
            float& b = beta.row(r)[h];
            g = float(softplus(double(g) + double(dt[h])) * double(a[h]));
            b = float(sigmoid(double(b)));
        }
}

void ReferenceDevice::delta_rule(Rows y, Rows q, Rows k, Rows v, Rows decay, Rows beta, States& states,
                                 int32_t layer, const DeltaRule& rule, const Step& step) {
    ReferenceStates& s = held(states);
    const StateShape::Layer& l = s.layer(layer);
    check_step(step);
    check_slots(step, s.shape);
    COTERIE_CHECK(rule.value_heads == l.value_heads && rule.key_dim == l.key_dim &&
                  rule.value_dim == l.value_dim);
    COTERIE_CHECK(rule.key_heads > 0 && rule.value_heads % rule.key_heads == 0);
    const int64_t key_dim = rule.key_dim, value_dim = rule.value_dim;
    check_shape(q, step.rows(), rule.key_heads * key_dim);
    check_shape(k, step.rows(), rule.key_heads * key_dim);
    check_shape(v, step.rows(), rule.value_heads * value_dim);
    check_shape(y, step.rows(), rule.value_heads * value_dim);
    check_shape(decay, step.rows(), rule.value_heads);
    check_shape(beta, step.rows(), rule.value_heads);
    for (const Span& span : step.spans)
        for (int64_t j = 0; j < rule.value_heads; ++j) {
            const int64_t head = rule.tiled ? j % rule.key_heads : j / (rule.value_heads / rule.key_heads);
            float* stored = s.state(layer, span.state) + j * value_dim * key_dim;
            std::vector<double> S(stored, stored + value_dim * key_dim);  // [value_dim][key_dim]
            for (int64_t r = span.first_row; r < span.first_row + span.rows; ++r) {
                const double factor = std::exp(double(decay.row(r)[j]));
                const float* key = k.row(r) + head * key_dim;
                const float* query = q.row(r) + head * key_dim;
                for (int64_t o = 0; o < value_dim; ++o) {
                    double* row = S.data() + o * key_dim;
                    double seen = 0, out = 0;
                    for (int64_t i = 0; i < key_dim; ++i) seen += (row[i] *= factor) * double(key[i]);
                    const double d = double(beta.row(r)[j]) * (double(v.row(r)[j * value_dim + o]) - seen);
                    for (int64_t i = 0; i < key_dim; ++i)
                        out += (row[i] += d * double(key[i])) * double(query[i]) * double(rule.query_scale);
                    y.row(r)[j * value_dim + o] = float(out);
                }
            }
            for (size_t i = 0; i < S.size(); ++i) stored[i] = float(S[i]);
        }
}

}  // namespace coterie
