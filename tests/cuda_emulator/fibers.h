// The insides of the emulator, shared by its parts: fibers, warps, blocks and the layout of its addresses.
#pragma once
#include <emulated_cuda.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace emulator {

constexpr uintptr_t arena_address = 0x200000000000;
constexpr int most_devices = 8;
constexpr size_t device_slice = size_t(8) << 30;
constexpr size_t shared_offset = most_devices * device_slice;
constexpr size_t arena_bytes = shared_offset + (size_t(1) << 30);
constexpr size_t shared_region = 256 << 10;  // of one resident block

struct Block;
struct Warp;

struct AsyncCopy {
    void* to;
    const void* from;
    unsigned bytes;
    int group;
};

struct Fiber {
    void* stack_pointer;
    Block* block;
    Warp* warp;
    uint3 thread;
    uint32_t index;  // in the block
    uint8_t lane;
    bool done;
    void* sanitizer_stack;
    char* stack;
    size_t stack_bytes;
    const char* waits_in;
    Place waits_at;
    std::vector<AsyncCopy> copies;
    int copy_group;
    uint32_t clock;  // of the access checker
};

// Lanes that wait for each other in one warp operation.
struct Meeting {
    uint32_t mask, arrived;
    Exchange exchange;
    unsigned line;
};
struct Warp {
    uint32_t alive;
    Meeting meetings[32];
    void* requests[32];
    Fiber* lanes[32];
    Block* block;
    unsigned index;
};
struct Barrier {
    unsigned arrived = 0;
    unsigned line = 0;
    std::vector<Fiber*> waiting;
};
struct SharedArray {
    uint32_t offset, bytes;
};
struct Block {
    uint3 index;
    unsigned alive = 0;
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    Barrier barrier;
    int votes[3][2][2], vote_slot[3];
    char* shared;
    size_t shared_top;
    std::vector<std::pair<const void*, void*>> statics;
    void* dynamic;
    std::vector<SharedArray> arrays;
    uint32_t epoch = 0;  // barriers passed, for the access checker
};

extern constinit thread_local Fiber* running;
char* arena();
bool range_of(const void* memory, uintptr_t& begin, uintptr_t& end);  // of a live allocation
uint64_t next_random(uint64_t& state);

// Told by the emulator where the access checker is linked in.
void note_barrier(Block* block) __attribute__((weak));
void note_warp(Warp* warp, uint32_t lanes) __attribute__((weak));
void note_block(Block* block) __attribute__((weak));
void note_grid(const Grid& grid) __attribute__((weak));
void note_async_read(const void* memory, unsigned bytes) __attribute__((weak));
void note_async_write(void* memory, unsigned bytes) __attribute__((weak));
void note_async_issue(void* memory, unsigned bytes) __attribute__((weak));

}  // namespace emulator
