// Runs a grid: blocks one after the other (or several interleaved), the threads of a block as fibers that
// change only where they meet. Which fiber goes on is drawn at random from a seed, so a missing barrier shows
// as a wrong number under some seed, and a fault repeats under the same one.
#include "fibers.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#define EMULATOR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATOR_ASAN 1
#endif
#endif
#if defined(EMULATOR_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" void emulator_switch(void** save, void* load);

constinit thread_local uint3 threadIdx{}, blockIdx{}, blockDim{}, gridDim{};

namespace emulator {

constinit thread_local Fiber* running = nullptr;

namespace {

struct Wave {
    std::vector<std::unique_ptr<Block>> blocks;
    std::vector<Fiber*> ready;
    size_t head = 0;
    uint64_t random = 1;
    bool abandoned = false;
    void (*call)(void*) = nullptr;
    void* arguments = nullptr;
    Fiber main{};
    Counts counts;
    const void* stack_low = nullptr;  // where the last change came from, for AddressSanitizer
    size_t stack_bytes = 0;
};
constinit thread_local Wave* wave = nullptr;

#if defined(EMULATOR_ASAN)
constexpr size_t stack_bytes = 256 << 10;
#else
constexpr size_t stack_bytes = 64 << 10;
#endif

class Stacks {
  public:
    char* at(size_t index) {
        while (stacks_.size() <= index) {
            constexpr size_t guard = 4096;
            void* memory = mmap(nullptr, stack_bytes + guard, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (memory == MAP_FAILED) std::abort();
            mprotect(memory, guard, PROT_NONE);
            stacks_.push_back(static_cast<char*>(memory) + guard);
        }
        return stacks_[index];
    }
    ~Stacks() {
        for (char* stack : stacks_) munmap(stack - 4096, stack_bytes + 4096);
    }

  private:
    std::vector<char*> stacks_;
};
thread_local Stacks stacks;

void begin_fiber();

void prepare(Fiber& fiber, char* stack, size_t index) {
    // Stacks are shifted so that equal frames don't fall into the same cache set.
    const size_t colour = (index % 61) * 64;
    fiber.stack = stack;
    fiber.stack_bytes = stack_bytes;
    auto* top = reinterpret_cast<uint64_t*>((reinterpret_cast<uintptr_t>(stack) + stack_bytes - colour) &
                                            ~uintptr_t(15));
#if defined(__x86_64__)
    *--top = 0;
    *--top = reinterpret_cast<uint64_t>(&begin_fiber);
    for (int i = 0; i < 6; ++i) *--top = 0;
#else
    top -= 22;
    for (int i = 0; i < 22; ++i) top[i] = 0;
    top[11] = reinterpret_cast<uint64_t>(&begin_fiber);
#endif
    fiber.stack_pointer = top;
}

Fiber* next_fiber() {
    std::vector<Fiber*>& ready = wave->ready;
    const size_t n = ready.size() - wave->head;
    if (n == 0) return nullptr;
    if (options().order == Order::descending) {
        Fiber* last = ready.back();
        ready.pop_back();
        if (wave->head == ready.size()) ready.clear(), wave->head = 0;
        return last;
    }
    if (options().order == Order::random)
        std::swap(ready[wave->head], ready[wave->head + ((next_random(wave->random) >> 32) * n >> 32)]);
    Fiber* first = ready[wave->head++];
    if (wave->head == ready.size()) {
        ready.clear();
        wave->head = 0;
    } else if (wave->head > 4096 && wave->head * 2 > ready.size()) {
        ready.erase(ready.begin(), ready.begin() + long(wave->head));
        wave->head = 0;
    }
    return first;
}

void change(Fiber* from, Fiber* to) {
    ++wave->counts.switches;
#if defined(EMULATOR_ASAN)
    __sanitizer_start_switch_fiber(from->done ? nullptr : &from->sanitizer_stack, to->stack, to->stack_bytes);
#endif
    running = to;
    if (to->block) {
        threadIdx = to->thread;
        blockIdx = to->block->index;
    }
    emulator_switch(&from->stack_pointer, to->stack_pointer);
#if defined(EMULATOR_ASAN)
    __sanitizer_finish_switch_fiber(from->sanitizer_stack, &wave->stack_low, &wave->stack_bytes);
#endif
}

std::string where(const Fiber* f) {
    const char* file = f->waits_at.file ? f->waits_at.file : "?";
    if (const char* slash = std::strrchr(file, '/')) file = slash + 1;
    char text[256];
    std::snprintf(text, sizeof text, "block (%u, %u, %u) thread (%u, %u, %u) at %s %s:%u", f->block->index.x,
                  f->block->index.y, f->block->index.z, f->thread.x, f->thread.y, f->thread.z,
                  f->waits_in ? f->waits_in : "?", file, f->waits_at.line);
    return text;
}

[[noreturn]] void abandon() {
    wave->abandoned = true;
    Fiber* me = running;
    me->done = true;
    change(me, &wave->main);
    __builtin_unreachable();
}

void report_deadlock() {
    std::string text = "no thread can go on; waiting: ";
    int waiting = 0;
    for (const auto& block : wave->blocks)
        for (const Fiber& fiber : block->fibers)
            if (!fiber.done && waiting++ < 3) text += where(&fiber) + "; ";
    report("deadlock", text + std::to_string(waiting) + " threads in all", false);
    wave->abandoned = true;
}

void wait() {
    Fiber* me = running;
    Fiber* next = next_fiber();
    if (next == me) return;
    if (!next) {
        report_deadlock();
        next = &wave->main;
        me->done = true;
    }
    change(me, next);
}

void open(Block* block, Barrier& barrier) {
    ++wave->counts.barriers;
    if (note_barrier) note_barrier(block);
    wave->ready.insert(wave->ready.end(), barrier.waiting.begin(), barrier.waiting.end());
    barrier.waiting.clear();
    barrier.arrived = 0;
}

void complete(Warp* warp, Meeting& meeting, const Fiber* self) {
    ++wave->counts.warp_operations;
    const uint32_t lanes = warp->alive & meeting.mask;
    meeting.exchange(warp->requests, meeting.mask, lanes);
    // Of the warp operations only __syncwarp orders memory.
    if (note_warp && meeting.exchange == &no_exchange) note_warp(warp, lanes);
    meeting.mask = meeting.arrived = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        Fiber* fiber = warp->lanes[std::countr_zero(m)];
        if (fiber != self) wave->ready.push_back(fiber);
    }
}

void end_fiber() {
    Fiber* me = running;
    Block* block = me->block;
    Warp* warp = me->warp;
    me->done = true;
    --block->alive;
    warp->alive &= ~(1u << me->lane);
    for (Meeting& meeting : warp->meetings)
        if (meeting.mask && meeting.arrived && meeting.arrived == (meeting.mask & warp->alive))
            complete(warp, meeting, nullptr);
    if (block->barrier.arrived && block->barrier.arrived == block->alive) open(block, block->barrier);
    Fiber* next = next_fiber();
    if (!next) {
        for (const auto& other : wave->blocks)
            if (other->alive) {
                report_deadlock();
                break;
            }
        next = &wave->main;
    }
    change(me, next);
    __builtin_unreachable();
}

void begin_fiber() {
#if defined(EMULATOR_ASAN)
    __sanitizer_finish_switch_fiber(nullptr, &wave->stack_low, &wave->stack_bytes);
#endif
    wave->call(wave->arguments);
    end_fiber();
}

char* shared_of(size_t slot) {
    return arena() + shared_offset + slot * shared_region;
}

void* take_shared(Block* block, size_t bytes, size_t alignment) {
    constexpr size_t gap = 64;
    const size_t offset = (block->shared_top + gap + alignment - 1) & ~(alignment - 1);
    if (offset + bytes + gap > shared_region)
        report("shared memory", "a block takes more shared memory than there is", true);
    block->shared_top = offset + ((bytes + 7) & ~size_t(7));
    char* memory = block->shared + offset;
#if defined(EMULATOR_ASAN)
    __asan_unpoison_memory_region(memory, bytes);
#endif
    block->arrays.push_back({uint32_t(offset), uint32_t(bytes)});
    if (options().poison_shared) {
        const uint32_t nan = 0x7fe1dead;
        for (size_t i = 0; i + 4 <= bytes; i += 4) std::memcpy(memory + i, &nan, 4);
    } else {
        std::memset(memory, 0, bytes);
    }
    return memory;
}

void reset(Block& block, uint3 index, const Grid& grid, size_t slot) {
    const unsigned n = grid.block.x * grid.block.y * grid.block.z;
    block.index = index;
    block.alive = n;
    ++block.epoch;
    if (block.fibers.size() != n) {
        block.fibers.assign(n, Fiber{});
        block.warps.assign((n + 31) / 32, Warp{});
    }
    for (Warp& warp : block.warps) {
        warp.alive = 0;
        for (Meeting& meeting : warp.meetings) meeting.mask = meeting.arrived = 0;
    }
    block.barrier.arrived = 0;
    block.barrier.waiting.clear();
    std::memset(block.votes, 0, sizeof block.votes);
    std::memset(block.vote_slot, 0, sizeof block.vote_slot);
    block.shared = shared_of(slot);
    block.shared_top = 0;
    block.statics.clear();
    block.arrays.clear();
#if defined(EMULATOR_ASAN)
    __asan_poison_memory_region(block.shared, shared_region);
#endif
    if (note_block) note_block(&block);
    block.dynamic = grid.shared_bytes ? take_shared(&block, grid.shared_bytes, 128) : nullptr;
    for (unsigned i = 0; i < n; ++i) {
        Fiber& fiber = block.fibers[i];
        Warp& warp = block.warps[i >> 5];
        fiber.thread = {i % grid.block.x, i / grid.block.x % grid.block.y, i / (grid.block.x * grid.block.y)};
        fiber.index = i;
        fiber.lane = uint8_t(i & 31);
        fiber.warp = &warp;
        fiber.block = &block;
        fiber.done = false;
        fiber.sanitizer_stack = nullptr;
        fiber.waits_in = nullptr;
        fiber.waits_at = {};
        fiber.copies.clear();
        fiber.copy_group = 0;
        fiber.clock = 1;
        warp.alive |= 1u << fiber.lane;
        warp.lanes[fiber.lane] = &fiber;
        warp.index = i >> 5;
        warp.block = &block;
        prepare(fiber, stacks.at(slot * n + i), slot * n + i);
        wave->ready.push_back(&fiber);
    }
}

}  // namespace

Options& options() {
    static Options options;
    return options;
}
Counts& counts() {
    static Counts counts;
    return counts;
}
std::vector<Report>& reports() {
    static std::vector<Report> reports;
    return reports;
}

uint64_t next_random(uint64_t& state) {  // xorshift
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

void report(const char* kind, const std::string& text, bool fatal) {
    std::vector<Report>& all = reports();
    const auto same = [&](const Report& r) { return r.kind == kind && r.text == text; };
    if (all.size() < 1000 && std::none_of(all.begin(), all.end(), same)) all.push_back({kind, text});
    if (fatal) abandon();
}

void give_way() {
    wave->ready.push_back(running);
    wait();
}

void barrier(Place place) {
    Fiber* me = running;
    Block* block = me->block;
    Barrier& at = block->barrier;
    me->waits_in = "barrier";
    me->waits_at = place;
    if (at.arrived && at.line != place.line)
        report("barrier",
               "threads of one block wait at different barriers: " + where(me) + " and line " +
                   std::to_string(at.line),
               false);
    at.line = place.line;
    if (++at.arrived == block->alive) return open(block, at);
    at.waiting.push_back(me);
    wait();
}

int barrier_vote(int predicate, int kind, Place place) {
    Block* block = running->block;
    int* votes = block->votes[kind][block->vote_slot[kind] & 1];
    if (votes[1] == 0) votes[0] = kind == 1;
    ++votes[1];
    if (kind == 0) votes[0] += predicate != 0;
    if (kind == 1) votes[0] &= predicate != 0;
    if (kind == 2) votes[0] |= predicate != 0;
    barrier(place);
    const int result = votes[0];
    if (--votes[1] == 0) block->vote_slot[kind] = 0;
    barrier(place);
    return result;
}

void no_exchange(void**, uint32_t, uint32_t) {}
void vote_exchange(void** requests, uint32_t mask, uint32_t present) {
    uint32_t ballot = 0;
    for (uint32_t m = mask & present; m; m &= m - 1) {
        const int lane = std::countr_zero(m);
        if (static_cast<Vote*>(requests[lane])->predicate) ballot |= 1u << lane;
    }
    for (uint32_t m = mask & present; m; m &= m - 1)
        static_cast<Vote*>(requests[std::countr_zero(m)])->ballot = ballot;
}

void meet(uint32_t mask, void* request, Exchange exchange, const char* what, Place place) {
    Fiber* me = running;
    Warp* warp = me->warp;
    const uint32_t bit = 1u << me->lane;
    me->waits_in = what;
    me->waits_at = place;
    if (!(mask & bit)) report("warp mask", "the calling lane is not in its own mask: " + where(me), true);
    Meeting& meeting = warp->meetings[std::countr_zero(mask)];
    if (meeting.mask == 0)
        meeting = {mask, 0, exchange, place.line};
    else if (meeting.mask != mask || meeting.exchange != exchange)
        report("warp divergence",
               "lanes meet in different warp operations: " + where(me) + " and line " +
                   std::to_string(meeting.line),
               true);
    warp->requests[me->lane] = request;
    meeting.arrived |= bit;
    if (meeting.arrived == (mask & warp->alive)) return complete(warp, meeting, me);
    wait();
}

int lane() {
    return running->lane;
}
void* dynamic_shared() {
    return running->block->dynamic;
}
void* static_shared(const void* tag, size_t bytes) {
    Block* block = running->block;
    for (const auto& [known, memory] : block->statics)
        if (known == tag) return memory;
    void* memory = take_shared(block, bytes, 16);
    block->statics.emplace_back(tag, memory);
    return memory;
}

bool run(const Grid& grid, void (*call)(void*), void* arguments) {
    static thread_local Wave the_wave;
    Wave& w = the_wave;
    wave = &w;
    w.call = call;
    w.arguments = arguments;
    w.abandoned = false;
    w.ready.clear();
    w.head = 0;
    w.counts = {};
    w.random = options().seed * 0x9e3779b97f4a7c15u + 0x1234567;
    next_random(w.random);
    const size_t blocks = size_t(grid.grid.x) * grid.grid.y * grid.grid.z;
    const size_t resident = options().resident == 0 ? blocks : std::min<size_t>(options().resident, blocks);
    while (w.blocks.size() < resident) w.blocks.push_back(std::make_unique<Block>());
    w.blocks.resize(resident);
    w.main.block = nullptr;
    w.main.done = false;
    const uint3 outer_block = blockDim, outer_grid = gridDim;
    blockDim = {grid.block.x, grid.block.y, grid.block.z};
    gridDim = {grid.grid.x, grid.grid.y, grid.grid.z};
    std::vector<uint32_t> order(blocks);
    for (size_t i = 0; i < blocks; ++i) order[i] = uint32_t(i);
    if (options().order == Order::random)
        for (size_t i = blocks; i > 1; --i) std::swap(order[i - 1], order[next_random(w.random) % i]);
    if (options().order == Order::descending) std::reverse(order.begin(), order.end());
    if (note_grid) note_grid(grid);
#if defined(EMULATOR_ASAN)
    pthread_attr_t attributes;
    void* low = nullptr;
    size_t bytes = 0;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &low, &bytes);
    pthread_attr_destroy(&attributes);
    w.main.stack = static_cast<char*>(low);
    w.main.stack_bytes = bytes;
#endif
    for (size_t i = 0; i < blocks && !w.abandoned; i += resident) {
        const size_t now = std::min(resident, blocks - i);
        w.blocks.resize(now);
        for (size_t j = 0; j < now; ++j) {
            const uint32_t b = order[i + j];
            reset(*w.blocks[j],
                  {b % grid.grid.x, b / grid.grid.x % grid.grid.y, b / (grid.grid.x * grid.grid.y)}, grid, j);
        }
        w.counts.blocks += now;
        w.counts.threads += now * grid.block.x * grid.block.y * grid.block.z;
        change(&w.main, next_fiber());
        running = nullptr;
    }
    if (w.abandoned) {
        w.ready.clear();
        w.blocks.clear();
    }
    blockDim = outer_block;
    gridDim = outer_grid;
    Counts& total = counts();
    ++total.launches;
    total.blocks += w.counts.blocks;
    total.threads += w.counts.threads;
    total.switches += w.counts.switches;
    total.barriers += w.counts.barriers;
    total.warp_operations += w.counts.warp_operations;
    return !w.abandoned;
}

}  // namespace emulator
