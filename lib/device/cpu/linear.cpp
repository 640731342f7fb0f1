// Products of whole matrices: quantise the rows once, then every thread takes its groups of each matrix.
#include "base/failure.h"
#include "device/checks.h"
#include "device/cpu/input.h"
#include "device/cpu/products.h"
#include "device/cpu/weight.h"

namespace coterie {

using cpu::CpuWeight;
using cpu::group_rows;

void CpuDevice::prepare_input(Rows x, bool quantised) {
    Input& in = *input_;
    in.blocks_per_row = quantised ? x.width / cpu::block_columns : 0;
    if (int64_t(in.floats.size()) < x.rows)
        in.floats.resize(size_t(x.rows)), in.quantised.resize(size_t(x.rows));
    in.planes = fine_ ? 2 : 1;
    if (int64_t(in.blocks.size()) < x.rows * in.planes * in.blocks_per_row)
        in.blocks.resize(size_t(x.rows * in.planes * in.blocks_per_row));
    for (int64_t r = 0; r < x.rows; ++r) {
        in.floats[size_t(r)] = x.row(r);
        in.quantised[size_t(r)] = in.blocks.data() + r * in.planes * in.blocks_per_row;
    }
}

void CpuDevice::quantise_part(Rows x, int member) {
    Input& in = *input_;
    if (in.blocks_per_row == 0) return;
    const Range part = part_of(x.rows * in.blocks_per_row, member, team_.size());
    for (int64_t at = part.begin; at < part.end;) {
        const int64_t row = at / in.blocks_per_row, block = at % in.blocks_per_row;
        const int64_t n = std::min(part.end - at, in.blocks_per_row - block);
        const float* values = x.row(row) + block * cpu::block_columns;
        cpu::ActivationBlock* to = in.blocks.data() + row * in.planes * in.blocks_per_row + block;
        kernels_.quantise(values, n * cpu::block_columns, to);
        if (in.planes > 1)
            for (int64_t b = 0; b < n; ++b) {
                float rest[cpu::block_columns];
                for (int i = 0; i < cpu::block_columns; ++i)
                    rest[i] = values[b * cpu::block_columns + i] - to[b].scale * float(to[b].q[i]);
                kernels_.quantise(rest, cpu::block_columns, to + in.blocks_per_row + b);
            }
        at += n;
    }
}

namespace {

void set_rows(std::vector<float*>& pointers, Rows y) {
    if (int64_t(pointers.size()) < y.rows) pointers.resize(size_t(y.rows));
    for (int64_t r = 0; r < y.rows; ++r) pointers[size_t(r)] = y.row(r);
}

// Columns of y that a range of groups writes.
Range columns_of(Range groups, int64_t width) {
    return {std::min(groups.begin * group_rows, width), std::min(groups.end * group_rows, width)};
}

}  // namespace

void CpuDevice::linear(Rows y, const Weight& weight, Rows x, const float* bias) {
    const Projection one{y, &weight, bias};
    linear_many({&one, 1}, x);
}

void CpuDevice::linear_many(std::span<const Projection> projections, Rows x) {
    check_rows(x);
    if (x.rows == 0) return;
    bool quantised = false;
    int64_t rows = 0;
    for (const Projection& p : projections) {
        const CpuWeight& w = cpu::held(*p.weight);
        COTERIE_CHECK(w.experts == 1 && !w.gathered());
        check_shape(x, x.rows, w.in);
        check_shape(p.y, x.rows, w.out);
        quantised |= w.shape.container == cpu::Container::blocks;
        rows += x.rows;
    }
    prepare_input(x, quantised);
    std::vector<float*>& y = input_->y;
    if (int64_t(y.size()) < rows) y.resize(size_t(rows));
    size_t at = 0;
    for (const Projection& p : projections)
        for (int64_t r = 0; r < x.rows; ++r) y[at++] = p.y.row(r);
    team_.run([&](int member) {
        quantise_part(x, member);
        if (quantised && team_.size() > 1) team_.barrier();
        float* const* to = y.data();
        // Odd projections give their odd group to the other end of the team.
        for (size_t i = 0; i < projections.size(); ++i, to += x.rows) {
            const Projection& p = projections[i];
            const CpuWeight& w = cpu::held(*p.weight);
            const int place = i % 2 ? team_.size() - 1 - member : member;
            const Range groups = part_of(w.shape.groups(), place, team_.size());
            if (groups.begin >= groups.end) continue;
            cpu::multiply(kernels_, w.shape, w.group(0, groups.begin), groups, input_->of(w.shape), x.rows,
                          to, input_->fine_bytes());
            if (p.bias) {
                const Range columns = columns_of(groups, w.out);
                for (int64_t r = 0; r < x.rows; ++r)
                    elements_.add(to[r] + columns.begin, p.bias + columns.begin, columns.end - columns.begin);
            }
        }
    });
}

void CpuDevice::gate_up(Rows y, const Weight& gate, const Weight& up, Rows x, Activation activation,
                        Rows scratch) {
    const CpuWeight &g = cpu::held(gate), &u = cpu::held(up);
    COTERIE_CHECK(g.experts == 1 && u.experts == 1 && g.out == u.out && !g.gathered() && !u.gathered());
    check_shape(x, x.rows, g.in);
    check_shape(x, x.rows, u.in);
    check_shape(y, x.rows, g.out);
    check_same_shape(y, scratch);
    if (x.rows == 0) return;
    const bool quantised =
        g.shape.container == cpu::Container::blocks || u.shape.container == cpu::Container::blocks;
    prepare_input(x, quantised);
    set_rows(input_->y, y);
    set_rows(input_->y2, scratch);
    team_.run([&](int member) {
        quantise_part(x, member);
        if (quantised && team_.size() > 1) team_.barrier();
        const Range groups = part_of(g.shape.groups(), member, team_.size());
        if (groups.begin >= groups.end) return;
        cpu::multiply(kernels_, g.shape, g.group(0, groups.begin), groups, input_->of(g.shape), x.rows,
                      input_->y.data(), input_->fine_bytes());
        cpu::multiply(kernels_, u.shape, u.group(0, groups.begin), groups, input_->of(u.shape), x.rows,
                      input_->y2.data(), input_->fine_bytes());
        const Range columns = columns_of(groups, g.out);
        for (int64_t r = 0; r < x.rows; ++r)
            act(y.row(r) + columns.begin, y.row(r) + columns.begin, scratch.row(r) + columns.begin,
                columns.end - columns.begin, activation);
    });
}

}  // namespace coterie
