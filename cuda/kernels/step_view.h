// A step as kernels see it: at fixed device addresses, with contents that change (cuda/step_mirror.h fills
// it).
#pragma once
#include <cstdint>

namespace coterie::cuda {

struct SpanView {
    int32_t sequence, state, first_row, rows, position;
};

struct StepView {
    const int32_t* tokens = nullptr;     // [rows]
    const int32_t* positions = nullptr;  // [rows]
    const int32_t* span_of = nullptr;    // [rows]
    const int32_t* outputs = nullptr;
    const SpanView* spans = nullptr;
    const int32_t* pages_per_sequence = nullptr;  // one number
    const int32_t* pages = nullptr;               // [sequences][pages_per_sequence]
};

}  // namespace coterie::cuda
