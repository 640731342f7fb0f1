#include "device/cpu/weight.h"

#include <algorithm>

#include "base/failure.h"
#include "device/cpu/cpu_device.h"
#include "quant/decode.h"

namespace coterie {
namespace cpu {

CpuWeight::CpuWeight(const WeightSource& source, std::shared_ptr<Packer> packer)
    : Weight(source.type, source.in(), source.out(), source.experts()),
      shape(source.type, source.out(), source.columns),
      source_(source),
      states_(std::make_unique<std::atomic<State>[]>(size_t(source.experts()))),
      packer_(std::move(packer)) {
    int64_t row = 0;
    for (const Range& range : source.rows) {
        first_row_.push_back(row);
        row += range.end - range.begin;
    }
    if (!source.gather) arena_ = HostMemory(uint64_t(shape.bytes() * experts), source.name.c_str());
    if (packer_) packer_->enter(*this);
}
CpuWeight::~CpuWeight() {
    if (packer_) packer_->leave(*this);
}

uint64_t CpuWeight::bytes() const {
    if (gathered()) return Weight::bytes();
    return uint64_t(shape.bytes() * experts);
}

const std::byte* CpuWeight::file_row(int64_t expert, int64_t row) const {
    size_t range =
        size_t(std::upper_bound(first_row_.begin(), first_row_.end(), row) - first_row_.begin()) - 1;
    const int64_t index = source_.rows[range].begin + row - first_row_[range];
    return source_.matrices[size_t(expert)] + uint64_t(index) * row_bytes(type, uint64_t(source_.file_in));
}

uint64_t CpuWeight::unpacked_bytes() const {
    uint64_t matrices = 0;
    for (int64_t e = 0; e < experts; ++e) matrices += !packed(e);
    return matrices * uint64_t(shape.bytes());
}

bool CpuWeight::first_use(int64_t expert) {
    State raw = State::raw;
    return state(expert).compare_exchange_strong(raw, State::used, std::memory_order_relaxed);
}

bool CpuWeight::claim(int64_t expert) {
    for (State now = state(expert).load(std::memory_order_relaxed); now < State::claimed;)
        if (state(expert).compare_exchange_weak(now, State::claimed, std::memory_order_acq_rel)) return true;
    return false;
}

void CpuWeight::pack_to(std::byte* to, int64_t expert, int64_t group) const {
    const std::byte* rows[group_rows] = {};
    for (int i = 0; i < shape.rows_of_group(group); ++i) rows[i] = file_row(expert, group * group_rows + i);
    pack_group(shape, rows, to);
}

void CpuWeight::pack(int64_t expert, Range groups, const std::atomic<bool>* dropped) {
    for (int64_t g = groups.begin; g < groups.end; ++g) {
        if (dropped && dropped->load(std::memory_order_relaxed)) return;
        pack_to(arena_.data() + expert * shape.bytes() + g * shape.group_bytes, expert, g);
    }
}

void CpuWeight::finish(int64_t expert) {
    if (source_.release)
        source_.release(source_.matrices[size_t(expert)],
                        row_bytes(type, uint64_t(source_.file_in)) * uint64_t(source_.file_out));
    state(expert).store(State::packed, std::memory_order_release);
}

void CpuWeight::row(int64_t index, float* to, std::vector<float>& whole) const {
    const std::byte* from = file_row(0, index);
    if (source_.columns.size() == 1 && in == source_.file_in) return quant::decode(type, from, to, in);
    whole.resize(size_t(source_.file_in));
    quant::decode(type, from, whole.data(), source_.file_in);
    for (const Range& range : source_.columns)
        to = std::copy(whole.begin() + range.begin, whole.begin() + range.end, to);
}

CpuWeight& held(const Weight& weight) {
    auto* mine = dynamic_cast<CpuWeight*>(const_cast<Weight*>(&weight));
    COTERIE_CHECK(mine != nullptr);
    return *mine;
}

}  // namespace cpu

bool CpuDevice::supports(const WeightSource& source, std::string* why) const {
    const auto no = [&](std::string reason) {
        if (why) *why = std::move(reason);
        return false;
    };
    const TypeTraits& type = traits(source.type);
    if (source.file_in % type.block_elements)
        return no(fmt::format("{} has rows of {} weights, which is no multiple of {}'s block of {}",
                              source.name, source.file_in, type.name, type.block_elements));
    for (const Range& rows : source.rows)
        if (rows.begin < 0 || rows.begin > rows.end || rows.end > source.file_out)
            return no(fmt::format("the rows {} to {} of {} do not exist: it has {}", rows.begin, rows.end,
                                  source.name, source.file_out));
    for (const Range& columns : source.columns)
        if (columns.begin < 0 || columns.begin > columns.end || columns.end > source.file_in)
            return no(fmt::format("the columns {} to {} of {} do not exist: it has {}", columns.begin,
                                  columns.end, source.name, source.file_in));
    try {
        const cpu::PackedShape shape(source.type, source.out(), source.columns);
    } catch (const Failure& failure) {
        return no(fmt::format("{}: {}", source.name, failure.message()));
    }
    return true;
}

std::unique_ptr<Weight> CpuDevice::prepare(const WeightSource& source) {
    std::string why;
    if (!supports(source, &why)) throw Failure(Status::unsupported, why);
    const bool at_once = !source.gather && source.experts() == 1;
    auto weight = std::make_unique<cpu::CpuWeight>(source, source.gather || at_once ? nullptr : packer_);
    if (at_once) {
        weight->populate();
        team_.run(
            [&](int member) { weight->pack(0, part_of(weight->shape.groups(), member, team_.size())); });
        weight->finish(0);
    }
    return weight;
}

void CpuDevice::embed(Rows y, const Weight& table, const Step& step, float scale, int64_t first) {
    const cpu::CpuWeight& rows = cpu::held(table);
    COTERIE_CHECK(y.rows == step.rows() && y.width == table.in && table.experts == 1);
    for_rows(y.rows, 8 * y.width, [&](int64_t begin, int64_t end) {
        std::vector<float> whole;
        for (int64_t r = begin; r < end; ++r) {
            const int64_t token = int64_t(step.tokens[size_t(r)]) - first;
            if (token < 0 || token >= table.out) {
                std::fill_n(y.row(r), y.width, 0.0f);
                continue;
            }
            if (rows.gathered())
                rows.row(token, y.row(r), whole);
            else
                unpack_row(rows.shape, rows.group(0, token / cpu::group_rows), int(token % cpu::group_rows),
                           y.row(r));
            if (scale != 1.0f) elements_.scale(y.row(r), y.row(r), scale, nullptr, y.width);
        }
    });
}

}  // namespace coterie
