#include "cuda/step_mirror.h"

#include <algorithm>
#include <cstring>

namespace coterie::cuda {

static_assert(sizeof(SpanView) == sizeof(Span), "spans are copied as they are");

void StepMirror::grow(const Step& step) {
    if (step.tokens.size() <= rows_ && step.spans.size() <= spans_ && step.pages.size() <= pages_ &&
        memory_.bytes())
        return;
    rows_ = std::max<size_t>({rows_, step.tokens.size(), 16});
    spans_ = std::max<size_t>({spans_, step.spans.size(), 16});
    pages_ = std::max(pages_, step.pages.size());
    const size_t span_ints = sizeof(Span) / sizeof(int32_t);
    const size_t ints = 4 + 4 * rows_ + span_ints * spans_ + pages_;
    memory_ = {};
    host_ = {};
    memory_ = DeviceMemory(device_, ints * sizeof(int32_t), "a step");
    host_ = PinnedMemory(device_, ints * sizeof(int32_t));
    std::memset(host_.data(), 0, host_.bytes());
    auto* at = memory_.data<int32_t>();
    view_.pages_per_sequence = at;
    view_.tokens = at += 4;
    view_.positions = at += rows_;
    view_.span_of = at += rows_;
    view_.outputs = at += rows_;
    view_.spans = reinterpret_cast<const SpanView*>(at += rows_);
    view_.pages = at + span_ints * spans_;
    ++generation_;
}

int32_t* StepMirror::host(const void* device_address) const {
    return host_.data<int32_t>() + (static_cast<const int32_t*>(device_address) - memory_.data<int32_t>());
}

void StepMirror::write(const Step& step, cudaStream_t stream, double deadline_s) {
    copied_.wait(deadline_s);
    grow(step);
    const auto put = [&](const void* to, const auto& from) {
        if (!from.empty()) std::memcpy(host(to), from.data(), from.size() * sizeof(from[0]));
    };
    *host(view_.pages_per_sequence) = step.pages_per_sequence;
    put(view_.tokens, step.tokens);
    put(view_.positions, step.positions);
    put(view_.span_of, step.span_of);
    put(view_.outputs, step.outputs);
    put(view_.spans, step.spans);
    put(view_.pages, step.pages);  // last, so that the copy ends with them
    const size_t bytes = size_t(view_.pages + step.pages.size() - memory_.data<int32_t>()) * sizeof(int32_t);
    check(cudaMemcpyAsync(memory_.data(), host_.data(), bytes, cudaMemcpyHostToDevice, stream), device_,
          "copy a step");
    copied_.record(stream);
}

}  // namespace coterie::cuda
