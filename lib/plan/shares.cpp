#include "plan/shares.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/failure.h"

namespace coterie {
namespace {

int64_t units_of(int64_t extent) {
    return (extent + column_unit - 1) / column_unit;
}

// Consecutive ranges in an order of ranks that turns by one each time, so that what depends on the place
// (a KV head that two ranks need) is shared out as well.
class Cut {
  public:
    explicit Cut(std::span<const double> capacity) : ranks_(capacity.size()), apportionment_(capacity) {}

    // [ranks], of `extent` elements in units of `unit`; the last unit may be short.
    std::vector<Range> next(int64_t extent, int64_t unit) {
        const std::vector<int64_t> counts = apportionment_.next((extent + unit - 1) / unit);
        std::vector<Range> ranges(ranks_, Range{0, 0});
        int64_t at = 0;
        for (size_t place = 0; place < ranks_; ++place) {
            const size_t rank = (place + turn_) % ranks_;
            const int64_t end = std::min(extent, at + counts[rank] * unit);
            if (end > at) ranges[rank] = {at, end};
            at = end;
        }
        turn_ = (turn_ + 1) % ranks_;
        return ranges;
    }

  private:
    size_t ranks_, turn_ = 0;
    Apportionment apportionment_;
};

// Heads: whole groups of a KV head where that is nearly even, else any head, with the KV heads it needs.
class HeadCut {
  public:
    explicit HeadCut(std::span<const double> capacity)
        : capacity_(capacity.begin(), capacity.end()), by_group_(capacity), by_head_(capacity) {}

    void next(int32_t heads, int32_t kv_heads, std::vector<Share>& shares, size_t layer) {
        const int64_t group = kv_heads > 0 ? heads / kv_heads : 1;
        const std::vector<Range> ranges =
            kv_heads > 0 && even(kv_heads) ? by_group_.next(heads, group) : by_head_.next(heads, 1);
        for (size_t r = 0; r < ranges.size(); ++r) {
            LayerShare& s = shares[r].layer[layer];
            s.heads = ranges[r];
            if (ranges[r].end > ranges[r].begin && kv_heads > 0)
                s.kv_heads = {ranges[r].begin / group, (ranges[r].end + group - 1) / group};
        }
    }

  private:
    // Whether `units` can be given out with nobody more than an eighth above their due.
    bool even(int64_t units) const {
        const double sum = std::accumulate(capacity_.begin(), capacity_.end(), 0.0);
        const std::vector<int64_t> counts = Apportionment(capacity_).next(units);
        for (size_t r = 0; r < counts.size(); ++r)
            if (double(counts[r]) > 1.125 * double(units) * capacity_[r] / sum) return false;
        return true;
    }
    std::vector<double> capacity_;
    Cut by_group_, by_head_;
};

Share empty_share(const Hyperparameters& h, int32_t rank, int32_t ranks) {
    Share share;
    share.rank = rank;
    share.ranks = ranks;
    share.layers = {0, h.layers};
    share.layer.resize(size_t(h.layers));
    return share;
}

}  // namespace

const char* mode_name(Mode mode) {
    switch (mode) {
        case Mode::automatic:
            return "auto";
        case Mode::single:
            return "single";
        case Mode::tensor:
            return "tensor";
        case Mode::expert:
            return "expert";
        case Mode::layer:
            return "layer";
    }
    return "unknown";
}

Apportionment::Apportionment(std::span<const double> weights) : owed_(weights.size(), 0.0) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (const double w : weights) due_.push_back(sum > 0 ? w / sum : 1.0 / double(weights.size()));
}

std::vector<int64_t> Apportionment::next(int64_t units) {
    std::vector<int64_t> counts(due_.size(), 0);
    int64_t given = 0;
    for (size_t r = 0; r < due_.size(); ++r) {
        owed_[r] += double(units) * due_[r];
        // Rounding noise must not cost a whole unit.
        counts[r] = std::clamp(int64_t(owed_[r] + 1e-9), int64_t(0), units - given);
        given += counts[r];
        owed_[r] -= double(counts[r]);
    }
    for (; given < units; ++given) {  // to whom most is owed; ties go to the first
        size_t most = 0;
        for (size_t r = 1; r < owed_.size(); ++r)
            if (owed_[r] > owed_[most] + 1e-9) most = r;
        ++counts[most];
        owed_[most] -= 1.0;
    }
    return counts;
}

std::vector<Share> cut_within_layers(const Hyperparameters& h, Mode mode, std::span<const double> capacity,
                                     int32_t device_experts) {
    const int32_t ranks = int32_t(capacity.size());
    COTERIE_CHECK(ranks > 0 && device_experts >= 0 && device_experts <= h.router.experts);
    std::vector<Share> shares;
    for (int32_t r = 0; r < ranks; ++r) shares.push_back(empty_share(h, r, ranks));

    Cut dense(capacity), width(capacity), whole(capacity), shared(capacity), keys(capacity);
    HeadCut heads(capacity);
    for (size_t i = 0; i < size_t(h.layers); ++i) {
        const auto set = [&](Range LayerShare::*axis, const std::vector<Range>& ranges) {
            for (size_t r = 0; r < size_t(ranks); ++r) shares[r].layer[i].*axis = ranges[r];
        };
        if (h.recurrent[i])
            set(&LayerShare::key_heads, keys.next(h.key_heads, 1));
        else
            heads.next(h.heads[i], h.kv_heads[i], shares, i);
        if (h.feed_forward[i] > 0) set(&LayerShare::feed_forward, dense.next(h.feed_forward[i], column_unit));
        if (h.router.experts > 0) {
            if (mode == Mode::expert) {
                set(&LayerShare::experts, whole.next(device_experts, 1));
                for (Share& s : shares) s.layer[i].expert_width = {0, h.expert_feed_forward};
            } else {
                set(&LayerShare::expert_width, width.next(h.expert_feed_forward, column_unit));
                for (Share& s : shares) s.layer[i].experts = {0, device_experts};
            }
        }
        if (h.shared_feed_forward > 0)
            set(&LayerShare::shared_width, shared.next(h.shared_feed_forward, column_unit));
    }
    // The vocabulary in rank order: gathered logits lie side by side.
    const std::vector<int64_t> rows = Apportionment(capacity).next(units_of(h.vocabulary));
    int64_t at = 0;
    for (size_t r = 0; r < size_t(ranks); ++r) {
        const int64_t end = std::min<int64_t>(h.vocabulary, at + rows[r] * column_unit);
        shares[r].vocabulary = {at, end};
        at = end;
    }
    return shares;
}

Share host_share(const Hyperparameters& h, int32_t device_experts, int32_t rank, int32_t ranks) {
    Share share = empty_share(h, rank, ranks);
    share.vocabulary = {h.vocabulary, h.vocabulary};
    for (LayerShare& s : share.layer) {
        s.expert_width = {0, h.expert_feed_forward};
        s.experts = {device_experts, h.router.experts};
    }
    return share;
}

std::vector<Share> cut_between_layers(const Hyperparameters& h, std::span<const double> capacity,
                                      std::span<const double> layer_bytes, double first, double last) {
    const size_t ranks = capacity.size(), layers = layer_bytes.size();
    COTERIE_CHECK(ranks > 0 && layers == size_t(h.layers));
    std::vector<double> before(layers + 1, 0.0);  // bytes of layers [0, i)
    for (size_t i = 0; i < layers; ++i) before[i + 1] = before[i] + layer_bytes[i];
    const auto fullness = [&](size_t rank, size_t begin, size_t end) {
        const double ends = (rank == 0 ? first : 0) + (rank + 1 == ranks ? last : 0);
        return (before[end] - before[begin] + ends) / std::max(capacity[rank], 1.0);
    };
    // best[r][i]: the least fullness of the fullest of ranks [0, r) that hold layers [0, i).
    const double never = std::numeric_limits<double>::infinity();
    std::vector<std::vector<double>> best(ranks + 1, std::vector<double>(layers + 1, never));
    std::vector<std::vector<size_t>> from(ranks + 1, std::vector<size_t>(layers + 1, 0));
    best[0][0] = 0;
    for (size_t r = 0; r < ranks; ++r)
        for (size_t end = 0; end <= layers; ++end)
            for (size_t begin = 0; begin <= end; ++begin) {
                const double most = std::max(best[r][begin], fullness(r, begin, end));
                if (most < best[r + 1][end]) {
                    best[r + 1][end] = most;
                    from[r + 1][end] = begin;
                }
            }
    std::vector<Share> shares(ranks, whole_share(h));
    size_t end = layers;
    for (size_t r = ranks; r-- > 0;) {
        const size_t begin = from[r + 1][end];
        Share& share = shares[r];
        share.rank = int32_t(r);
        share.ranks = int32_t(ranks);
        share.layers = {int64_t(begin), int64_t(end)};
        share.has_embedding = r == 0;
        share.has_head = r + 1 == ranks;
        end = begin;
    }
    return shares;
}

}  // namespace coterie
