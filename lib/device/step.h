// One step: the rows of one or more sequences that go through the model together, and where their past lies.
// The contents change from step to step, the object and its buffers do not: a device may mirror it at fixed
// addresses (Device::begin) and replay recorded calls with new contents.
#pragma once
#include <cstdint>
#include <vector>

namespace coterie {

// The rows of one sequence in a step: consecutive in the step and in position.
struct Span {
    int32_t sequence;   // index into the page table
    int32_t state;      // slot of the recurrent state; -1 when the model has none
    int32_t first_row;  // in the step
    int32_t rows;
    int32_t position;  // of the first row; the sequence already holds positions [0, position)
};

struct Step {
    std::vector<int32_t> tokens;     // [rows]
    std::vector<int32_t> positions;  // [rows]
    std::vector<int32_t> span_of;    // [rows] index into spans
    std::vector<Span> spans;         // ordered by first_row, without gaps
    std::vector<int32_t> outputs;    // rows whose logits are wanted, ascending
    std::vector<int32_t> pages;      // [sequences][pages_per_sequence] page numbers
    int32_t pages_per_sequence = 0;
    int32_t page_tokens = 0;

    int64_t rows() const { return int64_t(tokens.size()); }
    const int32_t* pages_of(const Span& span) const {
        return pages.data() + int64_t(span.sequence) * pages_per_sequence;
    }
};

}  // namespace coterie
