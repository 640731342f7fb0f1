#include "workbench.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/failure.h"
#include "quant/decode.h"
#include "quant/encode.h"

namespace coterie::test {

double nmse(const Floats& found, const Floats& expected) {
    const double infinity = std::numeric_limits<double>::infinity();
    if (found.size() != expected.size()) return infinity;
    double error = 0, size = 0;
    for (size_t i = 0; i < found.size(); ++i) {
        if (std::isnan(expected[i]) && std::isnan(found[i])) continue;
        if (!std::isfinite(found[i]) || !std::isfinite(expected[i])) {
            if (found[i] == expected[i]) continue;
            return infinity;
        }
        const double difference = double(found[i]) - double(expected[i]);
        error += difference * difference;
        size += double(expected[i]) * double(expected[i]);
    }
    return error == 0 ? 0 : size == 0 ? infinity : error / size;
}

uint64_t Random::bits() {  // splitmix64
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
double Random::uniform() {
    return double(bits() >> 11) * 0x1p-53;
}
float Random::normal() {  // near enough: four uniforms, variance 1
    double sum = -2;
    for (int i = 0; i < 4; ++i) sum += uniform();
    return float(sum * 1.7320508);
}

Floats numbers(Random& random, int64_t n, Data data, float size) {
    Floats x(size_t(n), 0.0f);
    for (int64_t i = 0; i < n; ++i) {
        float value = random.normal() * size;
        if (data == Data::outliers && random.below(29) == 0) value *= 50;
        if (data == Data::zeros && (i / 37) % 3 != 1) value = 0;
        if (data == Data::small) value *= 1e-4f;
        x[size_t(i)] = value;
    }
    return x;
}

float* Bench::put(const Floats& values) {
    buffers_.push_back(device.allocate(values.size() * sizeof(float)));
    device.write(buffers_.back()->data(), values.data(), values.size() * sizeof(float));
    return static_cast<float*>(buffers_.back()->data());
}

int32_t* Bench::put(const std::vector<int32_t>& values) {
    buffers_.push_back(device.allocate(values.size() * sizeof(int32_t)));
    device.write(buffers_.back()->data(), values.data(), values.size() * sizeof(int32_t));
    return static_cast<int32_t*>(buffers_.back()->data());
}

static const float untouched = -12345.0f;

Rows Bench::rows(const Floats& values, int64_t rows, int64_t width, int64_t gap) {
    COTERIE_CHECK(int64_t(values.size()) == rows * width);
    Floats spread(size_t(rows * (width + gap)), untouched);
    for (int64_t r = 0; r < rows; ++r)
        std::memcpy(spread.data() + r * (width + gap), values.data() + r * width,
                    size_t(width) * sizeof(float));
    Rows x(put(spread), rows, width);
    x.stride = width + gap;
    return x;
}

Rows Bench::blank(int64_t rows, int64_t width, int64_t gap) {
    return this->rows(Floats(size_t(rows * width), std::numeric_limits<float>::quiet_NaN()), rows, width,
                      gap);
}

Floats Bench::read(Rows x) {
    Floats spread(size_t(x.rows * x.stride)), values;
    device.read(spread.data(), x.data, spread.size() * sizeof(float));
    for (int64_t r = 0; r < x.rows; ++r)
        for (int64_t i = 0; i < x.stride; ++i) {
            const float value = spread[size_t(r * x.stride + i)];
            if (i < x.width) values.push_back(value);
            if (i >= x.width && value != untouched)
                fail(Status::internal, "row {} was written beyond its width of {}", r, x.width);
        }
    return values;
}

std::vector<int32_t> Bench::read(const int32_t* x, int64_t n) {
    std::vector<int32_t> values(static_cast<size_t>(n));
    device.read(values.data(), x, values.size() * sizeof(int32_t));
    return values;
}

Routing Bench::routing(int64_t rows, int32_t used) {
    return routing(std::vector<int32_t>(size_t(rows * used), -1), Floats(size_t(rows * used)), used);
}

Routing Bench::routing(const std::vector<int32_t>& experts, const Floats& weights, int32_t used) {
    return {put(experts), put(weights), int64_t(experts.size()) / used, used};
}

std::unique_ptr<Weight> Bench::weight(const Floats& values, int64_t in, int64_t out, int64_t experts,
                                      bool gather) {
    COTERIE_CHECK(int64_t(values.size()) == in * out * experts);
    WeightSource source;
    source.name = "test.weight";
    source.file_in = in;
    source.file_out = out;
    for (int64_t e = 0; e < experts; ++e)
        source.matrices.push_back(reinterpret_cast<const std::byte*>(values.data() + e * in * out));
    source.rows = {{0, out}};
    source.columns = {{0, in}};
    source.gather = gather;
    return device.prepare(source);
}

Step step_of(const std::vector<Part>& parts, int32_t sequences, int32_t pages_per_sequence,
             int32_t page_tokens) {
    Step step;
    step.pages_per_sequence = pages_per_sequence;
    step.page_tokens = page_tokens;
    const int32_t pages = sequences * pages_per_sequence;
    for (int32_t s = 0; s < sequences; ++s)
        for (int32_t p = 0; p < pages_per_sequence; ++p)
            step.pages.push_back(pages - 1 - (p * sequences + s));
    for (const Part& part : parts) {
        const int32_t span = int32_t(step.spans.size());
        step.spans.push_back({part.sequence, part.state < 0 ? part.sequence : part.state,
                              int32_t(step.rows()), part.rows, part.position});
        for (int32_t i = 0; i < part.rows; ++i) {
            step.tokens.push_back((part.sequence * 31 + (part.position + i) * 7) % 101);
            step.positions.push_back(part.position + i);
            step.span_of.push_back(span);
        }
        step.outputs.push_back(int32_t(step.rows()) - 1);
    }
    return step;
}

TestWeight::TestWeight(Type type, int64_t in, int64_t out, int64_t experts, uint64_t seed) {
    Random random(seed * 7919 + uint64_t(type));
    const TypeTraits& t = traits(type);
    const uint64_t row = row_bytes(type, uint64_t(in));
    bytes.resize(row * uint64_t(out * experts));
    const float size = 1.0f / std::sqrt(float(in));
    for (int64_t r = 0; r < out * experts; ++r) {
        std::byte* to = bytes.data() + uint64_t(r) * row;
        if (quant::can_encode(type)) {
            const Floats values = numbers(random, in, r % 5 == 3 ? Data::outliers : Data::normal, size);
            quant::encode(type, values.data(), to, in);
            continue;
        }
        // Random bits; a block whose weights are not finite or huge is drawn again.
        for (int64_t b = 0; b < in / t.block_elements; ++b)
            for (bool sane = false; !sane;) {
                std::byte* block = to + b * t.block_bytes;
                for (int i = 0; i < t.block_bytes; ++i) block[i] = std::byte(random.bits());
                Floats values(static_cast<size_t>(t.block_elements));
                quant::decode(type, block, values.data(), t.block_elements);
                sane = true;
                for (const float value : values) sane &= std::fabs(value) < 100.0f * size;  // false for NaN
            }
    }
    source.name = fmt::format("{} {}x{}x{}", t.name, in, out, experts);
    source.type = type;
    source.file_in = in;
    source.file_out = out;
    for (int64_t e = 0; e < experts; ++e) source.matrices.push_back(bytes.data() + uint64_t(e * out) * row);
    source.rows = {{0, out}};
    source.columns = {{0, in}};
}

}  // namespace coterie::test
