// Shares: every unit is held exactly once, sizes follow capacities, and rounding evens out over the layers.
#include "plan/shares.h"

#include <algorithm>
#include <numeric>

#include "catch.h"

using namespace coterie;

namespace {

Hyperparameters numbers(int heads, int kv_heads, int width) {
    Hyperparameters h;
    h.layers = 12;
    h.vocabulary = 1000;
    h.heads.assign(12, heads);
    h.kv_heads.assign(12, kv_heads);
    h.feed_forward.assign(12, 0);
    h.recurrent.assign(12, 0);
    h.expert_feed_forward = width;
    h.shared_feed_forward = width;
    h.router.experts = 10;
    h.key_heads = 4;
    for (int i = 0; i < 12; i += 3) h.recurrent[size_t(i)] = 1;
    return h;
}

// Ranges that together are [0, extent), none overlapping.
void check_partition(std::vector<Range> ranges, int64_t extent) {
    ranges.erase(std::remove_if(ranges.begin(), ranges.end(), [](Range r) { return r.begin == r.end; }),
                 ranges.end());
    std::sort(ranges.begin(), ranges.end(), [](Range a, Range b) { return a.begin < b.begin; });
    int64_t at = 0;
    for (const Range& r : ranges) {
        CHECK(r.begin == at);
        at = r.end;
    }
    CHECK(at == extent);
}

}  // namespace

TEST_CASE("every unit is held once, whatever the number of ranks") {
    for (const auto& [heads, kv_heads] : {std::pair(16, 2), {24, 2}, {32, 8}, {5, 5}, {7, 1}})
        for (const int width : {768, 640, 512, 40})
            for (int ranks = 1; ranks <= 16; ++ranks)
                for (const Mode mode : {Mode::tensor, Mode::expert}) {
                    CAPTURE(heads, kv_heads, width, ranks, mode_name(mode));
                    const Hyperparameters h = numbers(heads, kv_heads, width);
                    const std::vector<Share> shares =
                        cut_within_layers(h, mode, std::vector<double>(size_t(ranks), 1.0), 10);
                    const auto all = [&](size_t layer, Range LayerShare::*axis) {
                        std::vector<Range> ranges;
                        for (const Share& s : shares) ranges.push_back(s.layer[layer].*axis);
                        return ranges;
                    };
                    for (size_t i = 0; i < 12; ++i) {
                        if (h.recurrent[i])
                            check_partition(all(i, &LayerShare::key_heads), 4);
                        else
                            check_partition(all(i, &LayerShare::heads), heads);
                        check_partition(all(i, &LayerShare::shared_width), width);
                        check_partition(
                            all(i, mode == Mode::expert ? &LayerShare::experts : &LayerShare::expert_width),
                            mode == Mode::expert ? 10 : width);
                        const int group = heads / kv_heads;
                        for (const Share& s : shares) {
                            const LayerShare& l = s.layer[i];
                            if (l.heads.begin == l.heads.end) continue;
                            CHECK(l.kv_heads.begin == l.heads.begin / group);
                            CHECK(l.kv_heads.end == (l.heads.end - 1) / group + 1);
                        }
                    }
                    int64_t at = 0;
                    for (const Share& s : shares) {
                        CHECK(s.vocabulary.begin == at);
                        at = s.vocabulary.end;
                    }
                    CHECK(at == 1000);
                }
}

TEST_CASE("widths that 256 does not divide are even at 32 columns") {
    const std::vector<double> three(3, 1.0), four(4, 1.0);
    const auto widths = [](const std::vector<Share>& shares) {
        std::vector<int64_t> sums(shares.size(), 0);
        for (size_t r = 0; r < shares.size(); ++r)
            for (const LayerShare& l : shares[r].layer) sums[r] += l.expert_width.end - l.expert_width.begin;
        return sums;
    };
    for (const int width : {768, 640, 512}) {
        const auto four_ways = widths(cut_within_layers(numbers(16, 2, width), Mode::tensor, four, 10));
        CHECK(four_ways == std::vector<int64_t>(4, 12 * width / 4));
        // 20 units on 3 ranks: 7, 7, 6, and somebody else has the 6 in the next layer.
        const auto three_ways = widths(cut_within_layers(numbers(16, 2, width), Mode::tensor, three, 10));
        CHECK(three_ways == std::vector<int64_t>(3, 12 * width / 3));
    }
}

TEST_CASE("unequal capacities get unequal shares") {
    const std::vector<double> capacity{3.0, 1.0};
    const std::vector<Share> shares = cut_within_layers(numbers(16, 4, 768), Mode::tensor, capacity, 10);
    for (const LayerShare& l : shares[0].layer) CHECK(l.expert_width.end - l.expert_width.begin == 576);
    CHECK(shares[0].vocabulary.end == 768);  // 24 of 32 units
    CHECK(shares[1].vocabulary.begin == 768);
}

TEST_CASE("layers are cut where the fullest rank is least full") {
    Hyperparameters h = numbers(16, 2, 512);
    const auto cuts = [&](const std::vector<double>& capacity, const std::vector<double>& bytes, double first,
                          double last) {
        std::vector<int64_t> counts;
        int64_t at = 0;
        for (const Share& s : cut_between_layers(h, capacity, bytes, first, last)) {
            CHECK(s.layers.begin == at);
            at = s.layers.end;
            counts.push_back(s.layers.end - s.layers.begin);
            CHECK(s.has_embedding == (s.rank == 0));
            CHECK(s.has_head == (s.rank + 1 == s.ranks));
        }
        CHECK(at == h.layers);
        return counts;
    };
    const std::vector<double> equal(12, 1.0);
    CHECK(cuts({1, 1, 1}, equal, 0, 0) == std::vector<int64_t>{4, 4, 4});
    CHECK(cuts({1, 1}, equal, 0, 4) == std::vector<int64_t>{8, 4});  // the head is worth four layers
    CHECK(cuts({2, 1}, equal, 0, 0) == std::vector<int64_t>{8, 4});
    CHECK(cuts(std::vector<double>(16, 1.0), equal, 0, 0).size() == 16);
    std::vector<double> heavy(12, 1.0);
    heavy[0] = 11.0;
    CHECK(cuts({1, 1}, heavy, 0, 0) == std::vector<int64_t>{1, 11});
}

TEST_CASE("apportionment pays what it owes") {
    Apportionment a(std::vector<double>{1, 1, 1});
    std::vector<int64_t> sums(3, 0);
    for (int i = 0; i < 30; ++i) {
        const auto counts = a.next(20);
        CHECK(std::accumulate(counts.begin(), counts.end(), int64_t(0)) == 20);
        for (size_t r = 0; r < 3; ++r) {
            CHECK(counts[r] >= 6);
            CHECK(counts[r] <= 7);
            sums[r] += counts[r];
        }
    }
    CHECK(sums == std::vector<int64_t>(3, 200));
    CHECK(Apportionment(std::vector<double>{0, 1}).next(5) == std::vector<int64_t>{0, 5});
    CHECK(Apportionment(std::vector<double>{1, 1, 1, 1}).next(1) == std::vector<int64_t>{1, 0, 0, 0});
}
