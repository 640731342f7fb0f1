// Weights of the reference device: the kept rows and columns decoded to F32, [experts][out][in]; products and
// look-ups with them.
#include <algorithm>
#include <new>
#include <vector>

#include "base/failure.h"
#include "device/checks.h"
#include "device/reference/reference_device.h"
#include "quant/decode.h"

namespace coterie {

namespace {

class ReferenceWeight final : public Weight {
  public:
    ReferenceWeight(Type of, int64_t i, int64_t o, int64_t e)
        : Weight(of, i, o, e), values(size_t(i) * size_t(o) * size_t(e)) {}
    std::vector<float> values;
    uint64_t bytes() const override { return values.size() * sizeof(float); }
    const float* row(int64_t expert, int64_t r) const { return values.data() + (expert * out + r) * in; }
};

const ReferenceWeight& held(const Weight& weight) {
    const auto* reference = dynamic_cast<const ReferenceWeight*>(&weight);
    COTERIE_CHECK(reference != nullptr);
    return *reference;
}

// sum over i of w[i] x[i]
double dot(const float* w, const float* x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += double(w[i]) * double(x[i]);
    return sum;
}

}  // namespace

bool ReferenceDevice::supports(const WeightSource& source, std::string* why) const {
    const auto no = [&](std::string reason) {
        if (why) *why = std::move(reason);
        return false;
    };
    if (!quant::can_decode(source.type))
        return no(fmt::format("{} is {}, which is not a weight type that can be decoded here", source.name,
                              type_name(source.type)));
    const TypeTraits& type = traits(source.type);
    if (source.file_in % type.block_elements)
        return no(fmt::format("{} has rows of {} weights, which is no multiple of {}'s block of {}",
                              source.name, source.file_in, type.name, type.block_elements));
    for (const Range& rows : source.rows)
        if (rows.begin < 0 || rows.begin > rows.end || rows.end > source.file_out)
            return no(fmt::format("the rows {} to {} of {} do not exist: it has {}", rows.begin, rows.end,
                                  source.name, source.file_out));
    for (const Range& columns : source.columns) {
        if (columns.begin < 0 || columns.begin > columns.end || columns.end > source.file_in)
            return no(fmt::format("the columns {} to {} of {} do not exist: it has {}", columns.begin,
                                  columns.end, source.name, source.file_in));
        if (type.quantised && (columns.begin % 32 || columns.end % 32))
            return no(fmt::format("{} is {} and can be cut at multiples of 32 columns, not at {} to {}",
                                  source.name, type.name, columns.begin, columns.end));
    }
    return true;
}

std::unique_ptr<Weight> ReferenceDevice::prepare(const WeightSource& source) {
    std::string why;
    if (!supports(source, &why)) throw Failure(Status::unsupported, why);
    try {
        auto weight =
            std::make_unique<ReferenceWeight>(source.type, source.in(), source.out(), source.experts());
        const uint64_t bytes = row_bytes(source.type, uint64_t(source.file_in));
        std::vector<float> row(size_t(source.file_in));
        float* to = weight->values.data();
        for (const std::byte* matrix : source.matrices) {
            for (const Range& rows : source.rows)
                for (int64_t r = rows.begin; r < rows.end; ++r) {
                    quant::decode(source.type, matrix + uint64_t(r) * bytes, row.data(), source.file_in);
                    for (const Range& columns : source.columns)
                        to = std::copy(row.begin() + columns.begin, row.begin() + columns.end, to);
                }
            if (source.release) source.release(matrix, bytes * uint64_t(source.file_out));
        }
        return weight;
    } catch (const std::bad_alloc&) {
        fail(Status::out_of_memory, "the host has no memory for {} as F32", source.name);
    }
}

void ReferenceDevice::embed(Rows y, const Weight& table, const Step& step, float scale, int64_t first) {
    const ReferenceWeight& rows = held(table);
    check_step(step);
    check_shape(y, step.rows(), table.in);
    COTERIE_CHECK(table.experts == 1);
    for (int64_t r = 0; r < y.rows; ++r) {
        const int64_t token = int64_t(step.tokens[size_t(r)]) - first;
        const bool here = token >= 0 && token < table.out;
        for (int64_t i = 0; i < y.width; ++i)
            y.row(r)[i] = here ? float(double(scale) * double(rows.row(0, token)[i])) : 0.0f;
    }
}

void ReferenceDevice::linear(Rows y, const Weight& weight, Rows x, const float* bias) {
    const ReferenceWeight& w = held(weight);
    check_shape(x, x.rows, weight.in);
    check_shape(y, x.rows, weight.out);
    COTERIE_CHECK(weight.experts == 1);
    for (int64_t r = 0; r < x.rows; ++r)
        for (int64_t o = 0; o < weight.out; ++o)
            y.row(r)[o] = float(dot(w.row(0, o), x.row(r), weight.in) + (bias ? double(bias[o]) : 0.0));
}

void ReferenceDevice::expert_linear(Rows y, const ExpertWeight& weight, Rows x, const Routing& routing) {
    COTERIE_CHECK(weight.weight != nullptr);
    const ReferenceWeight& w = held(*weight.weight);
    check_routing(routing);
    const int64_t choices = routing.rows * routing.used;
    COTERIE_CHECK(x.rows == routing.rows || x.rows == choices);
    check_shape(x, x.rows, w.in);
    check_shape(y, choices, w.out);
    for (int64_t c = 0; c < choices; ++c) {
        const int64_t expert = int64_t(routing.experts[c]) - weight.first;
        const float* from = x.row(x.rows == choices ? c : c / routing.used);
        const bool here = expert >= 0 && expert < w.experts;
        for (int64_t o = 0; o < w.out; ++o) {
            double sum = 0;
            if (here) sum = dot(w.row(expert, o), from, w.in);
            if (here && weight.bias) sum += double(weight.bias[expert * w.out + o]);
            y.row(c)[o] = float(sum);
        }
    }
}

}  // namespace coterie
