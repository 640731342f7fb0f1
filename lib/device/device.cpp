// Bodies of the fused operations: their definition.
#include "device/device.h"

#include <algorithm>
#include <limits>

#include "device/checks.h"

namespace coterie {

static int64_t total(const std::vector<Range>& ranges) {
    int64_t sum = 0;
    for (const Range& range : ranges) sum += range.end - range.begin;
    return sum;
}

int64_t WeightSource::in() const {
    return total(columns);
}
int64_t WeightSource::out() const {
    return total(rows);
}

uint64_t CacheShape::page_bytes() const {
    uint64_t bytes = 0;
    for (const Layer& layer : layers)
        bytes +=
            uint64_t(page_tokens) * uint64_t(layer.kv_heads) *
            (row_bytes(key_type, uint64_t(layer.key_dim)) + row_bytes(value_type, uint64_t(layer.value_dim)));
    return bytes;
}

uint64_t StateShape::slot_bytes() const {
    uint64_t floats = 0;
    for (const Layer& layer : layers) floats += uint64_t(layer.history_floats() + layer.state_floats());
    return floats * sizeof(float);
}

void Device::clear(Rows y) {
    const std::vector<float> zeros(size_t(y.width));
    for (int64_t r = 0; r < y.rows; ++r) write(y.row(r), zeros.data(), uint64_t(y.width) * sizeof(float));
}

void Device::rank(Ranked* best, int32_t count, Rows x) {
    check_rows(x);
    COTERIE_CHECK(count >= 0 && (best != nullptr || count == 0 || x.rows == 0));
    std::vector<float> row(size_t(x.width));
    std::vector<int32_t> order;
    std::vector<Ranked> ranked;
    for (int64_t r = 0; r < x.rows && count > 0; ++r) {
        read(row.data(), x.row(r), row.size() * sizeof(float));
        order.clear();
        for (int64_t i = 0; i < x.width; ++i)
            if (row[size_t(i)] > -std::numeric_limits<float>::infinity()) order.push_back(int32_t(i));
        const auto end = order.begin() + std::min(std::ptrdiff_t(count), std::ptrdiff_t(order.size()));
        std::partial_sort(order.begin(), end, order.end(), [&](int32_t a, int32_t b) {
            const float x_a = row[size_t(a)], x_b = row[size_t(b)];
            return x_a > x_b || (x_a == x_b && a < b);
        });
        ranked.assign(size_t(count), {-1, -std::numeric_limits<float>::infinity()});
        for (auto at = order.begin(); at != end; ++at)
            ranked[size_t(at - order.begin())] = {*at, row[size_t(*at)]};
        write(best + r * count, ranked.data(), ranked.size() * sizeof(Ranked));
    }
}

void Device::linear_many(std::span<const Projection> projections, Rows x) {
    for (const Projection& p : projections) linear(p.y, *p.weight, x, p.bias);
}

void Device::add_rms_norm(Rows x, Rows y, Rows h, const float* gain, float eps) {
    add(x, y);
    rms_norm(h, x, gain, eps);
}

void Device::norm_rope_store(Rows q, Rows k, Rows v, const float* q_gain, const float* k_gain, float eps,
                             const Rope& rope, const Attention& attention, Cache& cache, int32_t layer,
                             const Step& step) {
    if (q_gain) rms_norm(q.split(attention.heads), q.split(attention.heads), q_gain, eps);
    if (k_gain) rms_norm(k.split(attention.kv_heads), k.split(attention.kv_heads), k_gain, eps);
    this->rope(q, attention.heads, rope, step);
    this->rope(k, attention.kv_heads, rope, step);
    store_kv(cache, layer, k, v, step);
}

void Device::gate_up(Rows y, const Weight& gate, const Weight& up, Rows x, Activation activation,
                     Rows scratch) {
    linear(y, gate, x, nullptr);
    linear(scratch, up, x, nullptr);
    activate(y, y, scratch, activation);
}

void Device::expert_gate_up(Rows e, const ExpertWeight& gate, const ExpertWeight& up, Rows x,
                            const Routing& routing, Activation activation, Rows scratch) {
    expert_linear(e, gate, x, routing);
    expert_linear(scratch, up, x, routing);
    activate(e, e, scratch, activation);
}

void Device::expert_down_combine(Rows y, const ExpertWeight& down, Rows e, const Routing& routing,
                                 Rows scratch) {
    expert_linear(scratch, down, e, routing);
    expert_combine(y, scratch, routing);
}

}  // namespace coterie
