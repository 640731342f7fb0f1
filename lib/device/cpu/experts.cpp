// Products with chosen experts. Choices are sorted by expert, so that an expert's weights are read once for
// all of its rows; tasks of a few groups of one expert are handed out to the threads one by one. An expert
// that is not packed yet is multiplied as it is in the file when it is used for the first time, packed before
// the second.
#include <algorithm>
#include <array>

#include "base/failure.h"
#include "device/checks.h"
#include "device/cpu/input.h"
#include "device/cpu/products.h"
#include "device/cpu/weight.h"

namespace coterie {

using cpu::CpuWeight;
using cpu::group_rows;

void CpuDevice::group_choices(const Routing& routing, int64_t first, int64_t experts, bool row_per_choice,
                              Rows x) {
    Grouped& g = *grouped_;
    const Input& in = *input_;
    const int64_t choices = routing.rows * routing.used;
    if (int64_t(g.choices.size()) < choices) {
        g.choices.resize(size_t(choices));
        g.quantised.resize(size_t(choices));
        g.floats.resize(size_t(choices));
        g.y.resize(size_t(choices));
        g.y2.resize(size_t(choices));
        g.elsewhere.reserve(size_t(choices));
    }
    g.counts.assign(size_t(experts) + 1, 0);
    g.elsewhere.clear();
    g.members.clear();
    for (int64_t c = 0; c < choices; ++c) {
        const int64_t e = routing.experts[c] - first;
        if (e >= 0 && e < experts)
            ++g.counts[size_t(e) + 1];
        else
            g.elsewhere.push_back(int32_t(c));
    }
    for (int64_t e = 0; e < experts; ++e) {
        const int64_t count = g.counts[size_t(e) + 1];
        g.counts[size_t(e) + 1] += g.counts[size_t(e)];
        if (count > 0) g.members.push_back({e, g.counts[size_t(e)], count});
    }
    for (int64_t c = 0; c < choices; ++c) {
        const int64_t e = routing.experts[c] - first;
        if (e < 0 || e >= experts) continue;
        const int64_t place = g.counts[size_t(e)]++;
        const int64_t row = row_per_choice ? c : c / routing.used;
        g.choices[size_t(place)] = int32_t(c);
        g.quantised[size_t(place)] = in.quantised[size_t(row)];
        g.floats[size_t(place)] = x.row(row);
    }
}

// Tasks of equal work: an expert with many rows is cut finer.
void CpuDevice::Grouped::cut(int64_t groups, int64_t rows_per_task, int threads) {
    tasks.clear();
    // Few enough groups that each thread gets several tasks, and enough for a stream of memory to get going.
    const int64_t share = std::max<int64_t>(4, groups * int64_t(members.size()) / (8 * threads));
    for (size_t m = 0; m < members.size(); ++m) {
        const int64_t by_rows = std::max<int64_t>(1, rows_per_task / members[m].count);
        const int64_t each = std::min(groups, std::max<int64_t>(1, std::min(share, by_rows)));
        for (int64_t at = 0; at < groups; at += each)
            tasks.push_back({int32_t(m), {at, std::min(groups, at + each)}});
    }
}

// Gets memory for a group, too, if an expert stays as it is in the file.
void CpuDevice::pack_used_again(std::span<const ExpertWeight* const> weights) {
    const Grouped& g = *grouped_;
    for (const ExpertWeight* weight : weights) {
        CpuWeight& w = cpu::held(*weight->weight);
        std::vector<int64_t>& mine = grouped_->claimed;
        mine.clear();
        bool all = true;
        for (const Grouped::Member& member : g.members) {
            if (w.packed(member.expert)) continue;
            all = false;
            if (!w.first_use(member.expert) && w.claim(member.expert)) mine.push_back(member.expert);
        }
        if (all) continue;
        for (cpu::HostMemory& group : thread_group_)
            if (group.bytes() < uint64_t(w.shape.group_bytes))
                group = cpu::HostMemory(uint64_t(w.shape.group_bytes), "a group of weights");
        if (mine.empty()) continue;
        const int64_t groups = w.shape.groups(), each = std::max<int64_t>(1, groups / 4);
        const int64_t parts = (groups + each - 1) / each;
        for_tasks(int64_t(mine.size()) * parts, [&](int64_t i, int) {
            const int64_t at = i % parts * each;
            w.pack(mine[size_t(i / parts)], {at, std::min(groups, at + each)});
        });
        for (const int64_t expert : mine) w.finish(expert);
    }
}

namespace {

constexpr int64_t rows_per_task = 256;  // groups times rows: about 8 million multiply-adds of 2048 columns

struct Columns {
    int64_t begin, count;
};
Columns columns_of(Range groups, int64_t width) {
    const int64_t begin = groups.begin * group_rows;
    return {begin, std::min(groups.end * group_rows, width) - begin};
}

const CpuWeight& checked(const ExpertWeight& weight) {
    COTERIE_CHECK(weight.weight != nullptr);
    const CpuWeight& w = cpu::held(*weight.weight);
    COTERIE_CHECK(!w.gathered());
    return w;
}

}  // namespace

template <typename Function>
void CpuDevice::take_tasks(Rows x, int member, Function&& function) {
    quantise_part(x, member);
    if (team_.size() > 1) team_.barrier();
    const size_t tasks = grouped_->tasks.size();
    for (size_t i; (i = size_t(next_.fetch_add(1, std::memory_order_relaxed))) < tasks;) function(i);
}

void CpuDevice::multiply_chosen(const ExpertWeight& weight, size_t task, float* const* y, int member) {
    const CpuWeight& w = cpu::held(*weight.weight);
    Grouped& g = *grouped_;
    const Range groups = g.tasks[task].groups;
    const Grouped::Member& m = g.members[size_t(g.tasks[task].member)];
    const void* const* x = g.of(w.shape) + m.first;
    if (w.packed(m.expert)) {
        cpu::multiply(kernels_, w.shape, w.group(m.expert, groups.begin), groups, x, m.count, y + m.first,
                      input_->fine_bytes());
    } else {
        std::byte* const group = thread_group_[size_t(member)].data();
        for (int64_t i = groups.begin; i < groups.end; ++i) {
            w.pack_to(group, m.expert, i);
            cpu::multiply(kernels_, w.shape, group, {i, i + 1}, x, m.count, y + m.first,
                          input_->fine_bytes());
        }
    }
    if (!weight.bias) return;
    const Columns c = columns_of(groups, w.out);
    for (int64_t r = m.first; r < m.first + m.count; ++r)
        elements_.add(y[r] + c.begin, weight.bias + m.expert * w.out + c.begin, c.count);
}

void CpuDevice::expert_linear(Rows y, const ExpertWeight& weight, Rows x, const Routing& routing) {
    const CpuWeight& w = checked(weight);
    check_routing(routing);
    const int64_t choices = routing.rows * routing.used;
    COTERIE_CHECK(x.rows == routing.rows || x.rows == choices);
    check_shape(x, x.rows, w.in);
    check_shape(y, choices, w.out);
    prepare_input(x, w.shape.container == cpu::Container::blocks);
    group_choices(routing, weight.first, w.experts, x.rows == choices, x);
    const std::array<const ExpertWeight*, 1> all{&weight};
    pack_used_again(all);
    Grouped& g = *grouped_;
    for (int32_t c : g.elsewhere) std::fill_n(y.row(c), y.width, 0.0f);
    const int64_t here = choices - int64_t(g.elsewhere.size());
    for (int64_t i = 0; i < here; ++i) g.y[size_t(i)] = y.row(g.choices[size_t(i)]);
    g.cut(w.shape.groups(), rows_per_task, team_.size());
    next_.store(0, std::memory_order_relaxed);
    team_.run([&](int member) {
        take_tasks(x, member, [&](size_t task) { multiply_chosen(weight, task, g.y.data(), member); });
    });
}

void CpuDevice::expert_gate_up(Rows e, const ExpertWeight& gate, const ExpertWeight& up, Rows x,
                               const Routing& routing, Activation activation, Rows scratch) {
    const CpuWeight &wg = checked(gate), &wu = checked(up);
    check_routing(routing);
    const int64_t choices = routing.rows * routing.used;
    COTERIE_CHECK(wg.out == wu.out && wg.experts == wu.experts && gate.first == up.first);
    COTERIE_CHECK(x.rows == routing.rows || x.rows == choices);
    check_shape(x, x.rows, wg.in);
    check_shape(x, x.rows, wu.in);
    check_shape(e, choices, wg.out);
    check_same_shape(e, scratch);
    prepare_input(
        x, wg.shape.container == cpu::Container::blocks || wu.shape.container == cpu::Container::blocks);
    group_choices(routing, gate.first, wg.experts, x.rows == choices, x);
    const std::array<const ExpertWeight*, 2> all{&gate, &up};
    pack_used_again(all);
    Grouped& g = *grouped_;
    for (int32_t c : g.elsewhere) std::fill_n(e.row(c), e.width, 0.0f);
    const int64_t here = choices - int64_t(g.elsewhere.size());
    for (int64_t i = 0; i < here; ++i) {
        g.y[size_t(i)] = e.row(g.choices[size_t(i)]);
        g.y2[size_t(i)] = scratch.row(g.choices[size_t(i)]);
    }
    g.cut(wg.shape.groups(), rows_per_task / 2, team_.size());
    next_.store(0, std::memory_order_relaxed);
    team_.run([&](int member) {
        take_tasks(x, member, [&](size_t task) {
            multiply_chosen(gate, task, g.y.data(), member);
            multiply_chosen(up, task, g.y2.data(), member);
            const Grouped::Member& m = g.members[size_t(g.tasks[task].member)];
            const Columns c = columns_of(g.tasks[task].groups, wg.out);
            for (int64_t r = m.first; r < m.first + m.count; ++r)
                act(g.y[size_t(r)] + c.begin, g.y[size_t(r)] + c.begin, g.y2[size_t(r)] + c.begin, c.count,
                    activation);
        });
    });
}

void CpuDevice::expert_combine(Rows y, Rows e, const Routing& routing) {
    check_routing(routing);
    check_shape(y, routing.rows, y.width);
    check_shape(e, routing.rows * routing.used, y.width);
    COTERIE_CHECK(routing.used <= 256);
    for_rows(y.rows, y.width * routing.used, [&](int64_t begin, int64_t end) {
        const float* parts[256];
        for (int64_t r = begin; r < end; ++r) {
            for (int j = 0; j < routing.used; ++j) parts[j] = e.row(r * routing.used + j);
            elements_.weighted_sum(y.row(r), parts, routing.weights + r * routing.used, routing.used,
                                   y.width);
        }
    });
}

void CpuDevice::expert_down_combine(Rows y, const ExpertWeight& down, Rows e, const Routing& routing,
                                    Rows scratch) {
    const CpuWeight& w = checked(down);
    check_routing(routing);
    const int64_t choices = routing.rows * routing.used;
    check_shape(e, choices, w.in);
    check_shape(scratch, choices, w.out);
    check_shape(y, routing.rows, w.out);
    COTERIE_CHECK(routing.used <= 256);
    prepare_input(e, w.shape.container == cpu::Container::blocks);
    group_choices(routing, down.first, w.experts, true, e);
    const std::array<const ExpertWeight*, 1> all{&down};
    pack_used_again(all);
    Grouped& g = *grouped_;
    const int64_t here = choices - int64_t(g.elsewhere.size());
    for (int64_t i = 0; i < here; ++i) g.y[size_t(i)] = scratch.row(g.choices[size_t(i)]);
    g.cut(w.shape.groups(), rows_per_task * 2, team_.size());
    next_.store(0, std::memory_order_relaxed);
    team_.run([&](int member) {
        take_tasks(e, member, [&](size_t task) { multiply_chosen(down, task, g.y.data(), member); });
        if (team_.size() > 1) team_.barrier();
        // The sum over the choices here: split by columns, so that one row keeps all threads busy too.
        const Range columns = part_of(y.width, member, team_.size(), group_rows);
        const float* parts[256];
        for (int64_t r = 0; r < y.rows; ++r) {
            for (int j = 0; j < routing.used; ++j) {
                const int64_t c = r * routing.used + j, expert = routing.experts[c] - down.first;
                parts[j] = expert >= 0 && expert < w.experts ? scratch.row(c) + columns.begin : nullptr;
            }
            elements_.weighted_sum(y.row(r) + columns.begin, parts, routing.weights + r * routing.used,
                                   routing.used, columns.end - columns.begin);
        }
    });
}

}  // namespace coterie
