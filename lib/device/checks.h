// Argument checks that devices share: shapes of views, consistency of a step, and the way from a position to
// its page. They look at sizes and integers only, never at activations. What doesn't hold is a Failure, so
// that a wrong model or executor is a message and not a damaged memory.
#pragma once
#include <cstdint>

#include "base/failure.h"
#include "device/device.h"

namespace coterie {

// Memory behind every element that the view speaks of.
inline void check_rows(const Rows& x) {
    COTERIE_CHECK(x.rows >= 0 && x.width >= 0);
    COTERIE_CHECK(x.rows <= 1 || x.stride >= x.width);
    COTERIE_CHECK(x.data != nullptr || x.rows * x.width == 0);
}
inline void check_shape(const Rows& x, int64_t rows, int64_t width) {
    check_rows(x);
    COTERIE_CHECK(x.rows == rows);
    COTERIE_CHECK(x.width == width);
}
inline void check_same_shape(const Rows& x, const Rows& y) {
    check_rows(x);
    check_shape(y, x.rows, x.width);
}

// The spans cover the rows in order and agree with positions and span_of; outputs ascend within the rows;
// every span's page table lies inside `pages`.
void check_step(const Step& step);

// Every position up to the last of each span has a page of the cache.
void check_pages(const Step& step, const CacheShape& shape);

// Every span has a state slot.
void check_slots(const Step& step, const StateShape& shape);

// Where a position of a span's sequence lies, in token places: page * page_tokens + offset. Needs
// check_pages().
inline int64_t place_of(const Step& step, const int32_t* pages, int64_t position) {
    return int64_t(pages[position / step.page_tokens]) * step.page_tokens + position % step.page_tokens;
}

void check_routing(const Routing& routing);

}  // namespace coterie
