#include "model/share.h"

#include "base/failure.h"

namespace coterie {
namespace {

Range scaled(Range r, int64_t unit) {
    return {r.begin * unit, r.end * unit};
}

bool holds_first(Range r) {
    return r.begin == 0 && r.end > 0;
}

// Value heads of key heads [begin, end): with tiled heads one run per repetition, else one run.
std::vector<Range> value_head_runs(Range keys, const Hyperparameters& h) {
    const int64_t repeat = h.value_heads / h.key_heads;
    if (!h.tiled) return {scaled(keys, repeat)};
    std::vector<Range> runs;
    for (int64_t r = 0; r < repeat; ++r) {
        const Range run{r * h.key_heads + keys.begin, r * h.key_heads + keys.end};
        if (!runs.empty() && runs.back().end == run.begin)
            runs.back().end = run.end;
        else
            runs.push_back(run);
    }
    return runs;
}

}  // namespace

Share whole_share(const Hyperparameters& h) {
    Share share;
    share.layers = {0, h.layers};
    share.vocabulary = {0, h.vocabulary};
    for (int32_t i = 0; i < h.layers; ++i) {
        LayerShare s;
        s.heads = {0, h.heads[size_t(i)]};
        s.kv_heads = {0, h.kv_heads[size_t(i)]};
        s.feed_forward = {0, h.feed_forward[size_t(i)]};
        s.expert_width = {0, h.expert_feed_forward};
        s.experts = {0, h.router.experts};
        s.shared_width = {0, h.shared_feed_forward};
        s.key_heads = {0, h.key_heads};
        share.layer.push_back(s);
    }
    return share;
}

std::vector<Range> cut(Axis axis, int64_t extent, const Hyperparameters& h, const Share& share,
                       int32_t layer) {
    const LayerShare whole{};
    const LayerShare& s = layer >= 0 ? share.layer[size_t(layer)] : whole;
    const auto units = [&](Range r, int64_t count) -> std::vector<Range> {
        COTERIE_CHECK(count > 0 && extent % count == 0);
        return {scaled(r, extent / count)};
    };
    switch (axis) {
        case Axis::none:
            return {{0, extent}};
        case Axis::heads:
            return units(s.heads, h.heads[size_t(layer)]);
        case Axis::kv_heads:
            return units(s.kv_heads, h.kv_heads[size_t(layer)]);
        case Axis::feed_forward:
            return {s.feed_forward};
        case Axis::expert_width:
            return {s.expert_width};
        case Axis::experts:
            return {s.experts};
        case Axis::shared_width:
            return {s.shared_width};
        case Axis::vocabulary:
            return {share.vocabulary};
        case Axis::heads_sum:
            return {holds_first(s.heads) ? Range{0, extent} : Range{0, 0}};
        case Axis::feed_forward_sum:
            return {holds_first(s.feed_forward) ? Range{0, extent} : Range{0, 0}};
        case Axis::expert_sum:
            return {holds_first(s.expert_width) ? Range{0, extent} : Range{0, 0}};
        case Axis::value_heads: {
            std::vector<Range> runs = value_head_runs(s.key_heads, h);
            for (Range& run : runs) run = scaled(run, extent / h.value_heads);
            return runs;
        }
        case Axis::delta_channels: {
            const int64_t key_width = h.key_width();
            const Range keys = scaled(s.key_heads, h.state_dim);
            std::vector<Range> runs{keys, {key_width + keys.begin, key_width + keys.end}};
            for (const Range& run : value_head_runs(s.key_heads, h)) {
                const Range values = scaled(run, h.state_dim);
                runs.push_back({2 * key_width + values.begin, 2 * key_width + values.end});
            }
            return runs;
        }
    }
    fail(Status::internal, "axis {} has no cut", int(axis));
}

Attention local_attention(const Hyperparameters& h, const Share& share, int32_t layer) {
    Attention a = h.attention(layer);
    const LayerShare& s = share.layer[size_t(layer)];
    a.heads = int32_t(s.heads.end - s.heads.begin);
    a.kv_heads = int32_t(s.kv_heads.end - s.kv_heads.begin);
    a.group_offset = int32_t(s.heads.begin - s.kv_heads.begin * a.group);
    return a;
}

}  // namespace coterie
