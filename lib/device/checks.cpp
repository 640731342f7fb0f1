// Checks of steps and routings.
#include "device/checks.h"

namespace coterie {

void check_step(const Step& step) {
    const int64_t rows = step.rows();
    COTERIE_CHECK(int64_t(step.positions.size()) == rows);
    COTERIE_CHECK(int64_t(step.span_of.size()) == rows);
    COTERIE_CHECK(step.pages_per_sequence >= 0);
    int64_t next = 0;
    for (size_t s = 0; s < step.spans.size(); ++s) {
        const Span& span = step.spans[s];
        COTERIE_CHECK(span.first_row == next && span.rows > 0 && span.rows <= rows - next);
        COTERIE_CHECK(span.position >= 0 && span.sequence >= 0);
        COTERIE_CHECK((int64_t(span.sequence) + 1) * step.pages_per_sequence <= int64_t(step.pages.size()));
        for (int32_t i = 0; i < span.rows; ++i) {
            COTERIE_CHECK(step.span_of[size_t(next + i)] == int32_t(s));
            COTERIE_CHECK(step.positions[size_t(next + i)] == int64_t(span.position) + i);
        }
        next += span.rows;
    }
    COTERIE_CHECK(next == rows);
    int32_t previous = -1;
    for (int32_t row : step.outputs) {
        COTERIE_CHECK(row > previous && row < rows);
        previous = row;
    }
}

void check_pages(const Step& step, const CacheShape& shape) {
    COTERIE_CHECK(step.page_tokens == shape.page_tokens);
    for (const Span& span : step.spans) {
        const int64_t tokens = int64_t(span.position) + span.rows;
        const int64_t needed = (tokens + step.page_tokens - 1) / step.page_tokens;
        if (needed > step.pages_per_sequence)
            fail(Status::internal,
                 "sequence {} has {} tokens, which need {} pages of {} tokens, but its page table holds {}",
                 span.sequence, tokens, needed, step.page_tokens, step.pages_per_sequence);
        const int32_t* pages = step.pages_of(span);
        for (int64_t p = 0; p < needed; ++p)
            if (pages[p] < 0 || pages[p] >= shape.pages)
                fail(Status::internal, "page {} of sequence {} is {}, but the cache has {} pages", p,
                     span.sequence, pages[p], shape.pages);
    }
}

void check_slots(const Step& step, const StateShape& shape) {
    for (const Span& span : step.spans)
        if (span.state < 0 || span.state >= shape.slots)
            fail(Status::internal, "sequence {} has the state slot {}, but there are {} slots", span.sequence,
                 span.state, shape.slots);
}

void check_routing(const Routing& routing) {
    COTERIE_CHECK(routing.rows >= 0 && routing.used > 0);
    COTERIE_CHECK(routing.rows == 0 || (routing.experts != nullptr && routing.weights != nullptr));
}

}  // namespace coterie
