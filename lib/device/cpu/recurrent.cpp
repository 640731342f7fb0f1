// Recurrent states, the causal convolution and the gated delta rule.
//
// A slot is slot_bytes() long; in it layer by layer the history [taps - 1][channels], oldest first, then the
// states [value head][value dim][key dim]: the reference device's order.
#include <array>
#include <cmath>
#include <cstring>

#include "base/failure.h"
#include "device/checks.h"
#include "device/cpu/cpu_device.h"

namespace coterie {

namespace {

constexpr int32_t most_taps = 16;
// From here on turning the state costs less than it saves.
constexpr int64_t rows_worth_a_chunk = 4;

class CpuStates final : public States {
  public:
    explicit CpuStates(const StateShape& of)
        : States(of),
          memory(of.slot_bytes() * uint64_t(of.slots), "recurrent states; ask for fewer sequences") {
        uint64_t at = 0;
        for (const StateShape::Layer& l : of.layers) {
            offsets.push_back(at);
            at += uint64_t(l.history_floats() + l.state_floats());
        }
    }
    cpu::HostMemory memory;
    std::vector<uint64_t> offsets;

    float* slot(int32_t number) {
        COTERIE_CHECK(number >= 0 && number < shape.slots);
        return reinterpret_cast<float*>(memory.data() + uint64_t(number) * shape.slot_bytes());
    }
    const StateShape::Layer& layer(int32_t index) const {
        COTERIE_CHECK(index >= 0 && size_t(index) < shape.layers.size());
        return shape.layers[size_t(index)];
    }
    float* history(int32_t index, int32_t number) { return slot(number) + offsets[size_t(index)]; }
    float* state(int32_t index, int32_t number) {
        return history(index, number) + layer(index).history_floats();
    }
};

CpuStates& held(States& states) {
    auto* mine = dynamic_cast<CpuStates*>(&states);
    COTERIE_CHECK(mine != nullptr);
    return *mine;
}
CpuStates& held(const States& states) {
    return held(const_cast<States&>(states));
}

}  // namespace

std::unique_ptr<States> CpuDevice::make_states(const StateShape& shape) {
    COTERIE_CHECK(shape.slots >= 0);
    for (const StateShape::Layer& layer : shape.layers) {
        COTERIE_CHECK(layer.taps >= 1 && layer.channels >= 0 && layer.value_heads >= 0 &&
                      layer.key_dim >= 0 && layer.value_dim >= 0);
        if (layer.taps > most_taps)
            fail(Status::unsupported, "a convolution of {} taps: the CPU device has {} at most", layer.taps,
                 most_taps);
    }
    return std::make_unique<CpuStates>(shape);
}
void CpuDevice::clear_state(States& states, int32_t slot) {
    if (states.shape.slot_bytes()) std::memset(held(states).slot(slot), 0, states.shape.slot_bytes());
}
void CpuDevice::copy_state(States& states, int32_t from, int32_t to) {
    if (states.shape.slot_bytes())
        std::memmove(held(states).slot(to), held(states).slot(from), states.shape.slot_bytes());
}
void CpuDevice::read_state(const States& states, int32_t slot, std::byte* to) {
    if (states.shape.slot_bytes()) std::memcpy(to, held(states).slot(slot), states.shape.slot_bytes());
}
void CpuDevice::write_state(States& states, int32_t slot, const std::byte* from) {
    if (states.shape.slot_bytes()) std::memcpy(held(states).slot(slot), from, states.shape.slot_bytes());
}

void CpuDevice::convolve(Rows y, Rows x, const float* taps, States& states, int32_t layer, const Step& step) {
    CpuStates& s = held(states);
    const StateShape::Layer& l = s.layer(layer);
    check_slots(step, s.shape);
    check_shape(x, step.rows(), l.channels);
    check_shape(y, step.rows(), l.channels);
    COTERIE_CHECK(taps != nullptr && (x.rows == 0 || y.data != x.data));
    const int32_t past = l.taps - 1;
    const auto columns = [&](int64_t begin, int64_t end) {
        for (const Span& span : step.spans) {
            float* history = s.history(layer, span.state);
            std::array<const float*, most_taps> u;
            // Row i of the span's inputs with its history before it.
            const auto input = [&](int64_t i) -> const float* {
                return i < past ? history + i * l.channels : x.row(span.first_row + i - past);
            };
            for (int64_t i = 0; i < span.rows; ++i) {
                for (int32_t k = 0; k < l.taps; ++k) u[size_t(k)] = input(i + k);
                elements_.convolve(y.row(span.first_row + i), u.data(), taps, l.taps, begin, end);
            }
            // The last inputs become the history; the oldest first, so none is overwritten before it is
            // moved.
            for (int64_t k = 0; k < past; ++k)
                std::memmove(history + k * l.channels + begin, input(span.rows + k) + begin,
                             size_t(end - begin) * sizeof(float));
        }
    };
    const int64_t width = l.channels;
    if (team_.size() == 1 || x.rows * width * l.taps < parallel_floats) return columns(0, width);
    team_.run([&](int member) {
        const Range part = part_of(width, member, team_.size(), 16);
        if (part.begin < part.end) columns(part.begin, part.end);
    });
}

void CpuDevice::delta_gates(Rows decay, Rows beta, const float* dt, const float* a) {
    check_same_shape(decay, beta);
    COTERIE_CHECK(dt != nullptr && a != nullptr);
    for_rows(decay.rows, 64 * decay.width, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
            for (int64_t h = 0; h < decay.width; ++h) {
                float& g = decay.row(r)[h];
                float& b = beta.row(r)[h];
                const float x = g + dt[h];
                g = (x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x))) * a[h];
                b = 1.0f / (1.0f + std::exp(-b));
            }
    });
}

void CpuDevice::delta_rule(Rows y, Rows q, Rows k, Rows v, Rows decay, Rows beta, States& states,
                           int32_t layer, const DeltaRule& rule, const Step& step) {
    CpuStates& s = held(states);
    const StateShape::Layer& l = s.layer(layer);
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
    // One task per sequence and head: the state of a head stays in the caches over all of its tokens.
    const int64_t heads = rule.value_heads, scratch_floats = cpu::delta_scratch(value_dim, key_dim);
    for (auto& own : thread_scratch_)
        if (int64_t(own.size()) < scratch_floats) own.resize(size_t(scratch_floats));
    for_tasks(int64_t(step.spans.size()) * heads, [&](int64_t task, int member) {
        const Span& span = step.spans[size_t(task / heads)];
        const int64_t j = task % heads, r = span.first_row;
        const int64_t head = rule.tiled ? j % rule.key_heads : j / (rule.value_heads / rule.key_heads);
        float* S = s.state(layer, span.state) + j * value_dim * key_dim;
        const cpu::DeltaTokens t{span.rows,
                                 {q.row(r) + head * key_dim, q.stride},
                                 {k.row(r) + head * key_dim, k.stride},
                                 {v.row(r) + j * value_dim, v.stride},
                                 {decay.row(r) + j, decay.stride},
                                 {beta.row(r) + j, beta.stride},
                                 {y.row(r) + j * value_dim, y.stride},
                                 rule.query_scale};
        if (span.rows >= rows_worth_a_chunk)
            elements_.delta_tokens(S, int(value_dim), int(key_dim), t,
                                   thread_scratch_[size_t(member)].data());
        else
            for (int64_t i = 0; i < span.rows; ++i)
                elements_.delta_step(S, int(value_dim), int(key_dim), t.q[i], t.k[i], t.v[i],
                                     std::exp(*t.decay[i]), *t.beta[i], rule.query_scale, t.y[i]);
    });
}

}  // namespace coterie
