// The access checker: our own answer to the calls that -fsanitize=thread puts before every load and store.
// That sanitizer's library is not linked. Kernels are compiled with the flag, everything else without.
//
// It knows for every byte of device and shared memory who wrote and who read it last, and finds races
// whatever order the threads ran in: two accesses are ordered by a barrier of their block, a __syncwarp of
// their warp, an atomic with a fence between blocks, or the launch between them. It finds accesses outside
// every allocation, of another device's memory, off their alignment, and reads of shared memory that the
// block never wrote. And it counts (access_checker.h).
#include <access_checker.h>
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <unordered_map>

#include "../fibers.h"

namespace emulator {

namespace {

// Who touched a byte: launch 11 bits, atomic 1, block 18, thread 10, barriers passed 12, warp clock 12.
struct Mark {
    uint64_t bits = 0;
    static Mark of(uint32_t launch, bool atomic, uint32_t block, uint32_t thread, uint32_t epoch,
                   uint32_t clock) {
        return {uint64_t(launch & 2047) << 53 | uint64_t(atomic) << 52 | uint64_t(block & 0x3ffff) << 34 |
                uint64_t(thread & 1023) << 24 | uint64_t(epoch & 4095) << 12 | (clock & 4095)};
    }
    uint32_t launch() const { return uint32_t(bits >> 53); }
    bool atomic() const { return bits >> 52 & 1; }
    uint32_t block() const { return bits >> 34 & 0x3ffff; }
    uint32_t thread() const { return bits >> 24 & 1023; }
    uint32_t epoch() const { return bits >> 12 & 4095; }
    uint32_t clock() const { return bits & 4095; }
};
struct Cell {
    Mark mark;
    uint32_t code = 0, unused = 0;
};
struct Shadow {
    Cell written, read;
};

constexpr uintptr_t shadow_address = 0x100000000000;  // 32 bytes per byte; untouched pages cost nothing
constexpr size_t most_tracked_reads = 1 << 20;        // reads of larger allocations are not remembered

bool prepare_shadow() {
    void* memory =
        mmap(reinterpret_cast<void*>(shadow_address), arena_bytes * sizeof(Shadow), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory == MAP_FAILED) {
        std::perror("the access checker cannot reserve its addresses");
        std::abort();
    }
    madvise(memory, arena_bytes * sizeof(Shadow), MADV_NOHUGEPAGE);
    return true;
}
const bool shadow_ready = prepare_shadow();
Shadow* shadow_of(uintptr_t address) {
    return reinterpret_cast<Shadow*>(shadow_address + (address - arena_address) * sizeof(Shadow));
}

struct WarpClock {
    uint16_t seen[32][32];  // [lane][other]: how far this lane knows the other to have come
};
using Blocks = std::vector<bool>;

struct State {
    uint32_t launch = 0;
    Grid grid;
    std::unordered_map<const Warp*, WarpClock> warps;
    std::unordered_map<uintptr_t, Blocks> released;  // by an atomic's address: blocks published there
    std::unordered_map<uint32_t, Blocks> acquired, fenced;
    std::map<std::pair<uint32_t, uint32_t>, bool> told;
    struct Range {
        uintptr_t begin = 1, end = 0;
    } known[4];
    unsigned next_known = 0;
    uint64_t random = 0x2545F4914F6CDD1D;
};
State& state() {
    static State state;
    return state;
}

uint32_t number_of(const Block* block) {
    const dim3 g = state().grid.grid;
    return block->index.x + g.x * (block->index.y + g.y * block->index.z);
}

uintptr_t program_base() {
    static const uintptr_t base = [] {
        uintptr_t found = 0;
        dl_iterate_phdr(
            [](dl_phdr_info* info, size_t, void* to) {
                *static_cast<uintptr_t*>(to) = info->dlpi_addr;
                return 1;
            },
            &found);
        return found;
    }();
    return base;
}

// File and line of a return address of the program.
std::string line_of(uint32_t code) {
    static std::map<uint32_t, std::string> known;
    std::string& line = known[code];
    if (!line.empty()) return line;
    char command[200];
    std::snprintf(command, sizeof command, "addr2line -s -i -e /proc/%d/exe 0x%x 2>/dev/null", int(getpid()),
                  code - 1);
    if (FILE* pipe = popen(command, "r")) {
        // Innermost first: the first place that is not the language itself.
        char text[300] = "";
        while (std::fgets(text, sizeof text, pipe)) {
            text[std::strcspn(text, "\n (")] = 0;
            line = text;
            if (line.rfind("emulated_cuda.h", 0) != 0 && line.rfind("kernel_language.h", 0) != 0) break;
        }
        pclose(pipe);
    }
    if (line.empty()) line = "?";
    return line;
}

std::string who(Mark m) {
    return "block " + std::to_string(m.block()) + " thread " + std::to_string(m.thread());
}

bool ordered(Mark before, Mark now, const Fiber* fiber, bool shared) {
    if (before.launch() != now.launch()) return true;  // or never touched
    if (before.atomic() && now.atomic()) return true;
    if (before.block() != now.block()) {
        if (shared) return true;  // memory of a block that has ended
        const auto acquired = state().acquired.find(now.block());
        return acquired != state().acquired.end() && acquired->second.size() > before.block() &&
               acquired->second[before.block()];
    }
    if (before.thread() == now.thread() || before.epoch() != now.epoch()) return true;
    if (before.thread() / 32 != now.thread() / 32) return false;
    const auto clock = state().warps.find(fiber->warp);
    return clock != state().warps.end() &&
           clock->second.seen[fiber->lane][before.thread() & 31] >= before.clock();
}

void race(const char* what, Mark now, uint32_t code, const Cell& other, bool shared) {
    bool& told = state().told[{std::min(code, other.code), std::max(code, other.code)}];
    if (told) return;
    told = true;
    report(shared ? "race in shared memory" : "race in global memory",
           std::string(what) + ": " + who(now) + " at " + line_of(code) + " and " + who(other.mark) + " at " +
               line_of(other.code) + " (" + state().grid.name + ")",
           false);
}

// --- counting
struct Request {
    std::vector<std::pair<uintptr_t, uint16_t>> accesses;
    bool shared, write;
    uint32_t code;
};
struct Counter {
    bool on = false;
    std::map<uint32_t, Traffic> places;
    std::unordered_map<uint64_t, uint32_t> turns;  // how often a thread came by a place
    std::unordered_map<uint64_t, Request> open;    // a warp's lanes at the same turn of the same place
    std::map<uintptr_t, uint64_t> read;            // bytes by 256-byte line of global memory
};
Counter& counter() {
    static Counter counter;
    return counter;
}

void close(const Request& request) {
    Traffic& t = counter().places[request.code];
    t.shared = request.shared;
    t.write = request.write;
    ++t.requests;
    uint64_t bytes = 0;
    if (request.shared) {
        std::map<uintptr_t, std::vector<uintptr_t>> banks;  // words by bank
        std::vector<uintptr_t> words;
        for (const auto& [at, n] : request.accesses) {
            bytes += n;
            for (uintptr_t word = at / 4; word <= (at + n - 1) / 4; ++word) {
                std::vector<uintptr_t>& bank = banks[word % 32];
                if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
                words.push_back(word);
            }
        }
        std::sort(words.begin(), words.end());
        words.erase(std::unique(words.begin(), words.end()), words.end());
        size_t most = 0;
        for (const auto& [bank, all] : banks) most = std::max(most, all.size());
        t.passes += most;
        t.ideal_passes += std::max<size_t>(1, (words.size() + 31) / 32);
    } else {
        std::vector<uintptr_t> sectors, distinct;
        for (const auto& [at, n] : request.accesses) {
            bytes += n;
            for (uintptr_t s = at / 32; s <= (at + n - 1) / 32; ++s) sectors.push_back(s);
            for (uintptr_t b = at; b < at + n; ++b) distinct.push_back(b);
        }
        for (auto* list : {&sectors, &distinct}) {
            std::sort(list->begin(), list->end());
            list->erase(std::unique(list->begin(), list->end()), list->end());
        }
        t.sectors += sectors.size();
        t.ideal += (distinct.size() + 31) / 32;
        // Lanes that ask for the same byte in one request are served by one transfer.
        if (!request.write)
            for (const uintptr_t b : distinct) ++counter().read[b / 256];
    }
    t.bytes += bytes;
}

void count(uintptr_t at, unsigned n, bool write, bool shared, uint32_t code, const Fiber* f) {
    Counter& c = counter();
    const uint64_t block = number_of(f->block);
    const uint32_t turn = c.turns[(block << 42) ^ (uint64_t(f->index) << 32) ^ code]++;
    const uint64_t key =
        ((block << 5 | f->warp->index) * 0x9e3779b97f4a7c15u) ^ (uint64_t(code) << 24) ^ turn;
    Request& request = c.open[key];
    request.shared = shared;
    request.write = write;
    request.code = code;
    request.accesses.emplace_back(at, uint16_t(n));
    if (request.accesses.size() == 32) {
        close(request);
        c.open.erase(key);
    }
}

bool inside_allocation(uintptr_t at, unsigned n) {
    State& s = state();
    for (const State::Range& range : s.known)
        if (at >= range.begin && at + n <= range.end) return true;
    uintptr_t begin, end;
    if (!range_of(reinterpret_cast<void*>(at), begin, end) || at + n > end) return false;
    s.known[s.next_known++ & 3] = {begin, end};
    return true;
}

struct Kind {
    bool write = false, atomic = false;
    bool may_yield = true;  // a place where other threads may be let through
    bool recorded = true;   // remembered and counted
};

void access(uintptr_t at, unsigned n, Kind kind, void* return_address) {
    const uintptr_t offset = at - arena_address;
    if (offset >= arena_bytes) return;  // stacks, constants, the emulator's own
    Fiber* f = running;
    if (!f || !f->block) return;
    State& s = state();
    const unsigned preempt = options().preempt;
    if (preempt && kind.may_yield && (next_random(s.random) >> 20) % preempt == 0) give_way();
    Block* block = f->block;
    const bool shared = offset >= shared_offset;
    const uint32_t code = uint32_t(reinterpret_cast<uintptr_t>(return_address) - program_base());
    const Mark now = Mark::of(s.launch, kind.atomic, number_of(block), f->index, block->epoch, f->clock);
    const auto at_place = [&] { return line_of(code) + ", " + who(now) + " (" + s.grid.name + ")"; };
    if (n > 1 && (n & (n - 1)) == 0 && (at & (n - 1)))
        report("misaligned",
               std::to_string(n) + " bytes at an address that is no multiple of them, at " + line_of(code),
               false);
    const std::string what =
        std::string(kind.write ? "a write" : "a read") + " of " + std::to_string(n) + " bytes";
    if (shared) {
        const uintptr_t inside = at - reinterpret_cast<uintptr_t>(block->shared);
        const auto holds_it = [&](const SharedArray& a) {
            return inside >= a.offset && inside + n <= a.offset + a.bytes;
        };
        if (std::none_of(block->arrays.begin(), block->arrays.end(), holds_it))
            report("outside shared memory", what + " outside every array, at " + at_place(), true);
    } else {
        if (!inside_allocation(at, n))
            report("outside global memory",
                   what + ": " + describe(reinterpret_cast<void*>(at)) + ", at " + at_place(), true);
        if (int(offset / device_slice) != current_device())
            report("another device's memory",
                   what + " of device " + std::to_string(offset / device_slice) + " by device " +
                       std::to_string(current_device()) + ", at " + at_place(),
                   false);
    }
    if (kind.recorded) {
        Counts& c = counts();
        (shared       ? kind.write ? c.shared_written : c.shared_read
         : kind.write ? c.global_written
                      : c.global_read) += n;
        if (counter().on && !kind.atomic) count(at, n, kind.write, shared, code, f);
    }
    bool track = shared || kind.write;
    if (!track)
        for (const State::Range& range : s.known)
            if (at >= range.begin && at < range.end) track = range.end - range.begin <= most_tracked_reads;
    Shadow* shadow = shadow_of(at);
    for (unsigned i = 0; i < n; ++i) {
        Cell &written = shadow[i].written, &read = shadow[i].read;
        if (shared && !kind.write &&
            (written.mark.launch() != now.launch() || written.mark.block() != now.block())) {
            bool& told = s.told[{code, 0}];
            if (!told)
                report("unwritten shared memory", what + " that this block never wrote, at " + at_place(),
                       false);
            told = true;
        }
        if (!ordered(written.mark, now, f, shared))
            race(kind.write ? "two writes" : "a read after a write", now, code, written, shared);
        if (kind.write) {
            if (!ordered(read.mark, now, f, shared)) race("a write after a read", now, code, read, shared);
            if (kind.recorded) written.mark = now, written.code = code;
        } else if (track) {
            read.mark = now;
            read.code = code;
        }
    }
}

uintptr_t address(const volatile void* memory) {
    return reinterpret_cast<uintptr_t>(memory);
}

}  // namespace

void note_grid(const Grid& grid) {
    State& s = state();
    ++s.launch;
    if (!(s.launch & 2047)) ++s.launch;
    s.grid = grid;
    s.warps.clear();
    s.released.clear();
    s.acquired.clear();
    s.fenced.clear();
    s.told.clear();
    for (State::Range& range : s.known) range = {};
    counter().turns.clear();
    for (const auto& [key, request] : counter().open) close(request);
    counter().open.clear();
}
void note_barrier(Block* block) {
    ++block->epoch;
}
void note_block(Block* block) {
    for (const Warp& warp : block->warps) state().warps.erase(&warp);
}
void note_warp(Warp* warp, uint32_t lanes) {
    WarpClock& clock = state().warps[warp];
    uint16_t most[32] = {};
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int i = std::countr_zero(m);
        for (int j = 0; j < 32; ++j) most[j] = std::max(most[j], clock.seen[i][j]);
        most[i] = uint16_t(warp->lanes[i]->clock);
    }
    for (uint32_t m = lanes; m; m &= m - 1) {
        const int i = std::countr_zero(m);
        std::memcpy(clock.seen[i], most, sizeof most);
        ++warp->lanes[i]->clock;
    }
}
void note_fence() {
    const uint32_t block = number_of(running->block);
    Blocks& own = state().fenced[block];
    if (own.size() <= block) own.resize(block + 1);
    own[block] = true;
}
// An atomic is itself ordered, and carries what its block fenced before to whoever comes by the same address.
void note_atomic(void* memory, unsigned bytes) {
    ++counts().atomics;
    access(address(memory), bytes, {true, true, true, true}, __builtin_return_address(0));
    const uint32_t block = number_of(running->block);
    Blocks &released = state().released[address(memory)], &acquired = state().acquired[block];
    if (acquired.size() < released.size()) acquired.resize(released.size());
    for (size_t i = 0; i < released.size(); ++i)
        if (released[i]) acquired[i] = true;
    if (!state().fenced.count(block)) return;
    const size_t size = std::max<size_t>(block + 1, acquired.size());
    if (released.size() < size) released.resize(size);
    released[block] = true;
    for (size_t i = 0; i < acquired.size(); ++i)
        if (acquired[i]) released[i] = true;
}
void note_read(const void* memory, unsigned bytes) {
    access(address(memory), bytes, {}, __builtin_return_address(0));
}
void note_write(void* memory, unsigned bytes) {
    access(address(memory), bytes, {true, false, true, true}, __builtin_return_address(0));
}
void note_async_read(const void* memory, unsigned bytes) {
    access(address(memory), bytes, {}, __builtin_return_address(0));
}
void note_async_issue(void* memory, unsigned bytes) {
    access(address(memory), bytes, {true, false, false, false}, __builtin_return_address(0));
}
void note_async_write(void* memory, unsigned bytes) {
    access(address(memory), bytes, {true, false, false, true}, __builtin_return_address(0));
}

void watch_traffic(bool on) {
    Counter& c = counter();
    c = {};
    c.on = on;
}
std::vector<Traffic> traffic() {
    for (const auto& [key, request] : counter().open) close(request);
    counter().open.clear();
    std::vector<Traffic> all;
    for (auto& [code, t] : counter().places) {
        t.place = line_of(code);
        all.push_back(t);
    }
    return all;
}
uint64_t bytes_read(const void* memory, uint64_t bytes) {
    for (const auto& [key, request] : counter().open) close(request);
    counter().open.clear();
    uint64_t sum = 0;
    const uintptr_t first = address(memory) / 256, last = (address(memory) + bytes - 1) / 256;
    for (auto line = counter().read.lower_bound(first); line != counter().read.end() && line->first <= last;
         ++line)
        sum += line->second;
    return sum;
}
double sectors_over_ideal() {
    uint64_t sectors = 0, ideal = 0;
    for (const Traffic& t : traffic())
        if (!t.shared) sectors += t.sectors, ideal += t.ideal;
    return ideal ? double(sectors) / double(ideal) : 1;
}
Worst worst_sectors() {
    Worst worst;
    for (const Traffic& t : traffic())
        if (!t.shared && t.requests >= 32 && double(t.sectors) / double(t.ideal) > worst.ratio)
            worst = {t.place, double(t.sectors) / double(t.ideal)};
    return worst;
}
Worst worst_banks() {
    Worst worst;
    for (const Traffic& t : traffic())
        if (t.shared && double(t.passes) / double(t.ideal_passes) > worst.ratio)
            worst = {t.place, double(t.passes) / double(t.ideal_passes)};
    return worst;
}

namespace {
void plain(const volatile void* memory, unsigned bytes, bool write, void* return_address) {
    access(address(memory), bytes, {write, false, true, true}, return_address);
}
}  // namespace

}  // namespace emulator

#define RETURN_ADDRESS __builtin_return_address(0)
#define CHECKED(n)                                    \
    void __tsan_read##n(void* p) {                    \
        emulator::plain(p, n, false, RETURN_ADDRESS); \
    }                                                 \
    void __tsan_write##n(void* p) {                   \
        emulator::plain(p, n, true, RETURN_ADDRESS);  \
    }                                                 \
    void __tsan_volatile_read##n(void* p) {           \
        emulator::plain(p, n, false, RETURN_ADDRESS); \
    }                                                 \
    void __tsan_volatile_write##n(void* p) {          \
        emulator::plain(p, n, true, RETURN_ADDRESS);  \
    }                                                 \
    void __tsan_unaligned_read##n(void* p) {          \
        emulator::plain(p, n, false, RETURN_ADDRESS); \
    }                                                 \
    void __tsan_unaligned_write##n(void* p) {         \
        emulator::plain(p, n, true, RETURN_ADDRESS);  \
    }
#define CHECKED_ATOMIC(bits, T)                                                             \
    T __tsan_atomic##bits##_load(const volatile T* p, int) {                                \
        return __atomic_load_n(p, 5);                                                       \
    }                                                                                       \
    void __tsan_atomic##bits##_store(volatile T* p, T v, int) {                             \
        __atomic_store_n(p, v, 5);                                                          \
    }                                                                                       \
    T __tsan_atomic##bits##_fetch_add(volatile T* p, T v, int) {                            \
        return __atomic_fetch_add(p, v, 5);                                                 \
    }                                                                                       \
    T __tsan_atomic##bits##_fetch_sub(volatile T* p, T v, int) {                            \
        return __atomic_fetch_sub(p, v, 5);                                                 \
    }                                                                                       \
    T __tsan_atomic##bits##_fetch_or(volatile T* p, T v, int) {                             \
        return __atomic_fetch_or(p, v, 5);                                                  \
    }                                                                                       \
    T __tsan_atomic##bits##_fetch_and(volatile T* p, T v, int) {                            \
        return __atomic_fetch_and(p, v, 5);                                                 \
    }                                                                                       \
    T __tsan_atomic##bits##_exchange(volatile T* p, T v, int) {                             \
        return __atomic_exchange_n(p, v, 5);                                                \
    }                                                                                       \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* e, T v, int, int) { \
        return __atomic_compare_exchange_n(p, e, v, 0, 5, 5);                               \
    }                                                                                       \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* e, T v, int, int) {   \
        return __atomic_compare_exchange_n(p, e, v, 0, 5, 5);                               \
    }

extern "C" {
void __tsan_init() {}
CHECKED(1)
CHECKED(2)
CHECKED(4)
CHECKED(8)
CHECKED(16)
void __tsan_read_range(void* p, size_t n) {
    emulator::plain(p, unsigned(n), false, RETURN_ADDRESS);
}
void __tsan_write_range(void* p, size_t n) {
    emulator::plain(p, unsigned(n), true, RETURN_ADDRESS);
}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}
CHECKED_ATOMIC(8, uint8_t)
CHECKED_ATOMIC(16, uint16_t)
CHECKED_ATOMIC(32, uint32_t)
CHECKED_ATOMIC(64, uint64_t)
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}
}
