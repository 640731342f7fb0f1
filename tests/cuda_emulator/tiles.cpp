// Tensor-core tiles as warp collectives, with the fragment layouts of the PTX manual, and asynchronous copies
// that land as late as the program allows (or at once, by a coin, in random order).
#include "base/half.h"
#include "fibers.h"

namespace emulator {

namespace {

struct Tile {
    void* d;
    const uint32_t *a, *b;
};
const Tile& tile(void** requests, int lane) {
    return *static_cast<Tile*>(requests[lane]);
}
float half_at(const uint32_t* registers, int i) {
    return coterie::half_to_float(uint16_t(registers[i >> 1] >> (16 * (i & 1))));
}
bool whole(uint32_t mask, uint32_t present) {
    if ((mask & present) == 0xffffffffu) return true;
    report("tile", "a tensor-core operation needs all 32 lanes", false);
    return false;
}

void exchange_f16_16816(void** requests, uint32_t mask, uint32_t present) {
    if (!whole(mask, present)) return;
    float a[16][16], b[8][16];  // b transposed
    for (int lane = 0; lane < 32; ++lane) {
        const Tile& t = tile(requests, lane);
        const int group = lane >> 2, in_group = lane & 3;
        for (int i = 0; i < 8; ++i)
            a[(i & 2) ? group + 8 : group][in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0)] = half_at(t.a, i);
        for (int i = 0; i < 4; ++i) b[group][in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0)] = half_at(t.b, i);
    }
    for (int lane = 0; lane < 32; ++lane) {
        auto* d = static_cast<float*>(tile(requests, lane).d);
        const int group = lane >> 2, in_group = lane & 3;
        for (int i = 0; i < 4; ++i) {
            const float *x = a[i < 2 ? group : group + 8], *y = b[in_group * 2 + (i & 1)];
            float sum = 0;
            for (int k = 0; k < 16; ++k) sum += x[k] * y[k];
            d[i] += sum;
        }
    }
}

// 16 x k by k x 8 with k = 32 or 16: registers of `a` are rows 0-7 and 8-15 of each 16 columns.
template <int depth>
void exchange_s8(void** requests, uint32_t mask, uint32_t present) {
    if (!whole(mask, present)) return;
    int8_t a[16][depth], b[8][depth];
    for (int lane = 0; lane < 32; ++lane) {
        const Tile& t = tile(requests, lane);
        const int group = lane >> 2, in_group = lane & 3;
        for (int i = 0; i < depth / 8; ++i)
            std::memcpy(&a[(i & 1) ? group + 8 : group][in_group * 4 + i / 2 * 16], &t.a[i], 4);
        for (int i = 0; i < depth / 16; ++i) std::memcpy(&b[group][in_group * 4 + i * 16], &t.b[i], 4);
    }
    for (int lane = 0; lane < 32; ++lane) {
        auto* d = static_cast<int*>(tile(requests, lane).d);
        const int group = lane >> 2, in_group = lane & 3;
        for (int i = 0; i < 4; ++i) {
            const int8_t *x = a[i < 2 ? group : group + 8], *y = b[in_group * 2 + (i & 1)];
            int sum = 0;
            for (int k = 0; k < depth; ++k) sum += x[k] * y[k];
            d[i] += sum;
        }
    }
}

// Four independent 8x8x4 products, one per quad pair.
void exchange_f16_884(void** requests, uint32_t mask, uint32_t present) {
    if (!whole(mask, present)) return;
    float a[4][8][4], b[4][8][4];  // [pair][row of a, column of b][k]
    for (int lane = 0; lane < 32; ++lane) {
        const Tile& t = tile(requests, lane);
        const int pair = (lane >> 2) & 3, row = (lane & 3) + (lane < 16 ? 0 : 4);
        for (int i = 0; i < 4; ++i) {
            a[pair][row][i] = half_at(t.a, i);
            b[pair][row][i] = half_at(t.b, i);
        }
    }
    for (int lane = 0; lane < 32; ++lane) {
        auto* d = static_cast<float*>(tile(requests, lane).d);
        const int pair = (lane >> 2) & 3;
        for (int i = 0; i < 8; ++i) {
            const int row = (lane & 1) + (i & 2) + (lane < 16 ? 0 : 4),
                      column = (i & 4) + (lane & 2) + (i & 1);
            float sum = 0;
            for (int k = 0; k < 4; ++k) sum += a[pair][row][k] * b[pair][column][k];
            d[i] += sum;
        }
    }
}

void land(const AsyncCopy& copy) {
    if (note_async_write) note_async_write(copy.to, copy.bytes);
    std::memcpy(copy.to, copy.from, copy.bytes);
}

}  // namespace

float half_value(uint16_t bits) {
    return coterie::half_to_float(bits);
}
uint16_t half_bits(float value) {
    return coterie::float_to_half(value);
}

void mma_f16_16816(float* d, const uint32_t* a, const uint32_t* b, Place place) {
    Tile t{d, a, b};
    meet(~0u, &t, &exchange_f16_16816, "mma m16n8k16 f16", place);
}
void mma_s8_16832(int* d, const uint32_t* a, const uint32_t* b, Place place) {
    Tile t{d, a, b};
    meet(~0u, &t, &exchange_s8<32>, "mma m16n8k32 s8", place);
}
void mma_s8_16816(int* d, const uint32_t* a, const uint32_t* b, Place place) {
    Tile t{d, a, b};
    meet(~0u, &t, &exchange_s8<16>, "mma m16n8k16 s8", place);
}
void mma_f16_884(float* d, const uint32_t* a, const uint32_t* b, Place place) {
    Tile t{d, a, b};
    meet(~0u, &t, &exchange_f16_884, "mma m8n8k4 f16", place);
}

void copy_async(void* shared, const void* global, unsigned bytes) {
    const uintptr_t both = reinterpret_cast<uintptr_t>(shared) | reinterpret_cast<uintptr_t>(global);
    if (both & (bytes - 1)) report("misaligned", "an asynchronous copy between addresses off its size", true);
    if (note_async_read) note_async_read(global, bytes);
    if (note_async_issue) note_async_issue(shared, bytes);  // from here on it may land
    static thread_local uint64_t coin = 88172645463325252u;
    const AsyncCopy copy{shared, global, bytes, running->copy_group};
    if (options().order == Order::random && (next_random(coin) & 1))
        land(copy);
    else
        running->copies.push_back(copy);
}
void commit_async() {
    ++running->copy_group;
}
void wait_async(int pending_groups) {
    Fiber* me = running;
    const int complete = me->copy_group - pending_groups;
    size_t left = 0;
    for (const AsyncCopy& copy : me->copies)
        if (copy.group < complete)
            land(copy);
        else
            me->copies[left++] = copy;
    me->copies.resize(left);
}

}  // namespace emulator
