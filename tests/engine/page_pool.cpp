// The page pool against a plain account of who holds what, through thousands of random operations.
#include "engine/page_pool.h"

#include <map>
#include <random>
#include <set>

#include "base/failure.h"
#include "catch.h"
#include "engine/checkpoint_pool.h"

using namespace coterie;

TEST_CASE("random operations on the page pool keep its accounts") {
    for (uint32_t seed = 1; seed <= 4; ++seed) {
        std::mt19937 random(seed);
        const int32_t pages = 12 + int32_t(seed) * 4, tokens = 4;
        std::set<uint64_t> live;  // published and not forgotten
        PagePool pool(pages, tokens, [&](uint64_t id) { CHECK(live.erase(id) == 1); });
        struct Holder {
            std::vector<int32_t> pages, text;
            uint64_t last = 0;
        };
        std::vector<Holder> holders;
        std::map<int32_t, int> count;
        const auto let_go = [&](size_t i) {
            while (!holders[i].pages.empty()) {
                const int32_t page = holders[i].pages.back();
                pool.release(page);
                if (--count[page] == 0) count.erase(page);
                holders[i].pages.pop_back();
            }
            holders.erase(holders.begin() + long(i));
        };
        for (int operation = 0; operation < 3000; ++operation) {
            const uint32_t what = random() % 5;
            if (what == 0 || holders.empty()) {
                holders.emplace_back();
                // A prefix of a text drawn from few tokens, so that many are alike.
                Holder& h = holders.back();
                for (;;) {
                    std::vector<int32_t> next(size_t(tokens), int32_t(random() % 2));
                    uint64_t id = 0;
                    const int32_t page = pool.find(h.last, next, &id);
                    if (page < 0) break;
                    CHECK(live.contains(id));
                    h.pages.push_back(page);
                    ++count[page];
                    h.last = id;
                }
            } else if (what == 1) {
                let_go(random() % holders.size());
            } else {
                Holder& h = holders[random() % holders.size()];
                int32_t page = pool.take();
                if (page < 0) {
                    CHECK(int32_t(count.size()) == pages);
                    let_go(random() % holders.size());
                    continue;
                }
                CHECK(!count.contains(page));
                const std::vector<int32_t> next(size_t(tokens), int32_t(random() % 2));
                h.last = pool.publish(page, h.last, next);
                live.insert(h.last);
                h.pages.push_back(page);
                ++count[page];
            }
            pool.check();
            CHECK(pool.held() == int32_t(count.size()));
            for (const auto& [page, n] : count) CHECK(pool.holders(page) == n);
        }
        while (!holders.empty()) let_go(0);
        pool.check();
        CHECK(pool.available() == pages);
        CHECK(pool.cached() == int32_t(live.size()));
    }
}

TEST_CASE("a page's prefix is forgotten from its end") {
    PagePool pool(3, 2);
    const std::vector<int32_t> a = {1, 2}, b = {3, 4}, c = {5, 6};
    int32_t first = pool.take(), second = pool.take();
    const uint64_t one = pool.publish(first, 0, a);
    pool.publish(second, one, b);
    pool.release(second);
    pool.release(first);
    uint64_t id = 0;
    CHECK(pool.find(0, b, &id) == -1);  // known as a successor only
    CHECK(pool.find(0, a, &id) == first);
    pool.release(first);
    int32_t fresh = pool.take();
    CHECK(fresh != first);
    fresh = pool.take();
    CHECK(fresh == second);
    CHECK(pool.find(one, b, &id) == -1);
    CHECK(pool.find(0, a, &id) == first);
    CHECK_THROWS_AS(pool.publish(first, 0, c), Failure);  // it has a name already
}

TEST_CASE("checkpoints go by usefulness") {
    using Place = CheckpointPool::Place;
    CheckpointPool pool(10, 3);
    CHECK(pool.take(1, Place::prompt_end) == 10);
    pool.take(2, Place::interval);
    pool.take(3, Place::interval);
    CHECK(pool.use(2) == 11);
    CHECK(pool.use(9) == -1);
    pool.take(4, Place::answer);  // 3 was never used and is worth least
    CHECK(pool.find(3) == -1);
    CHECK(pool.find(1) >= 0);
    CHECK(pool.find(2) >= 0);
    pool.drop_unused(2);
    CHECK(pool.find(2) >= 0);
    pool.drop_unused(4);
    CHECK(pool.find(4) == -1);
    pool.check();
    // Nothing stays for ever.
    for (uint64_t id = 100; id < 140; ++id) pool.take(id, Place::interval);
    CHECK(pool.find(1) == -1);
    CHECK(pool.find(2) == -1);
    pool.check();
}
