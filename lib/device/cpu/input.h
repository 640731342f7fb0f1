// What an operation multiplies with: rows of activations, quantised once, and pointers to them and to their
// results. And the choices of a routing, sorted by expert.
#pragma once
#include <vector>

#include "device/cpu/cpu_device.h"

namespace coterie {

struct CpuDevice::Input {
    std::vector<cpu::ActivationBlock> blocks;  // [rows][planes][width / 32]
    std::vector<const void*> quantised, floats;
    int64_t blocks_per_row = 0;  // of one plane
    // 2: the second plane holds what rounding to the first left over.
    int64_t planes = 1;
    int64_t fine_bytes() const {
        return planes > 1 ? blocks_per_row * int64_t(sizeof(cpu::ActivationBlock)) : 0;
    }
    const void* const* of(const cpu::PackedShape& shape) const {
        return shape.container == cpu::Container::blocks ? quantised.data() : floats.data();
    }
    std::vector<float*> y, y2;
};

struct CpuDevice::Grouped {
    struct Member {
        int64_t expert;        // here
        int64_t first, count;  // of `choices`
    };
    std::vector<Member> members;                 // experts that were chosen, ascending
    std::vector<int32_t> choices;                // by expert, ascending
    std::vector<int64_t> counts;                 // by expert; scratch
    std::vector<const void*> quantised, floats;  // rows of activations, in the order of choices
    std::vector<float*> y, y2;                   // likewise, set by the operation
    std::vector<int64_t> claimed;                // experts to pack; scratch
    std::vector<int32_t> elsewhere;              // choices of experts that aren't here
    struct Task {
        int32_t member;
        Range groups;
    };
    std::vector<Task> tasks;
    void cut(int64_t groups, int64_t rows_per_task, int threads);
    const void* const* of(const cpu::PackedShape& shape) const {
        return shape.container == cpu::Container::blocks ? quantised.data() : floats.data();
    }
};

}  // namespace coterie
