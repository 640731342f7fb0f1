#include "ceilings.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "device/cpu/memory.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace coterie {
namespace {

constexpr int64_t read_bytes = int64_t(512) << 20;

template <typename Function>
double best_seconds(int times, Function function) {
    double best = 1e30;
    for (int i = 0; i < times; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        function();
        best =
            std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
}

typedef uint64_t Line __attribute__((vector_size(64)));

template <int streams>
uint64_t read(const std::byte* from, int64_t bytes) {
    Line sum[streams][2] = {};
    const int64_t part = bytes / streams / 128 * 128;
    for (int64_t i = 0; i < part; i += 128)
        for (int s = 0; s < streams; ++s)
            for (int j = 0; j < 2; ++j) {
                Line line;
                std::memcpy(&line, from + s * part + i + 64 * j, sizeof line);
                sum[s][j] ^= line;
            }
    Line total{};
    for (auto& s : sum) total ^= s[0] ^ s[1];
    uint64_t folded = 0;
    for (int i = 0; i < 8; ++i) folded ^= total[i];
    return folded;
}

#if defined(__x86_64__)
// Twelve chains: more than latency times throughput of any core so far.
#define CHAINS(op)                                                                                  \
    op("%12", "%13", "%0") op("%12", "%13", "%1") op("%12", "%13", "%2") op("%12", "%13", "%3")     \
        op("%12", "%13", "%4") op("%12", "%13", "%5") op("%12", "%13", "%6") op("%12", "%13", "%7") \
            op("%12", "%13", "%8") op("%12", "%13", "%9") op("%12", "%13", "%10") op("%12", "%13", "%11")
#define DPBUSD(a, b, c) "vpdpbusd " a "," b "," c ";"

__attribute__((target("avx512f,avx512vnni"))) void chains512(int64_t times) {
    const __m512i x = _mm512_set1_epi32(3), y = _mm512_set1_epi32(5);
    __m512i a[12];
    for (auto& v : a) v = x;
    for (int64_t i = 0; i < times; ++i)
        asm volatile(CHAINS(DPBUSD)
                     : "+v"(a[0]), "+v"(a[1]), "+v"(a[2]), "+v"(a[3]), "+v"(a[4]), "+v"(a[5]), "+v"(a[6]),
                       "+v"(a[7]), "+v"(a[8]), "+v"(a[9]), "+v"(a[10]), "+v"(a[11])
                     : "v"(x), "v"(y));
}

// The multiply that limits AVX2: pairs of products and their widening, one each per 32 multiply-adds.
__attribute__((target("avx2"))) void chains256(int64_t times) {
    const __m256i x = _mm256_set1_epi32(3), y = _mm256_set1_epi32(5), one = _mm256_set1_epi16(1);
    __m256i a[6];
    for (auto& v : a) v = x;
    for (int64_t i = 0; i < times; ++i)
        for (auto& v : a) {
            __m256i pairs = _mm256_maddubs_epi16(x, y);
            asm volatile("" : "+x"(pairs));
            v = _mm256_add_epi32(v, _mm256_madd_epi16(pairs, one));
        }
    asm volatile("" ::"x"(a[0]), "x"(a[1]), "x"(a[2]), "x"(a[3]), "x"(a[4]), "x"(a[5]));
}
#endif

}  // namespace

double read_bandwidth(ThreadTeam& team) {
    static const cpu::HostMemory memory = [] {
        cpu::HostMemory m(uint64_t(read_bytes), "the measurement of bandwidth");
        std::memset(m.data(), 1, size_t(read_bytes));
        return m;
    }();
    std::atomic<uint64_t> kept{0};
    double best = 1e30;
    for (int streams : {1, 4})
        best = std::min(best, best_seconds(3, [&] {
                            team.run([&](int member) {
                                const Range part = part_of(read_bytes, member, team.size(), 4096);
                                const std::byte* from = memory.data() + part.begin;
                                const int64_t bytes = part.end - part.begin;
                                kept ^= streams == 1 ? read<1>(from, bytes) : read<4>(from, bytes);
                            });
                        }));
    return double(read_bytes) / best;
}

double multiply_adds(ThreadTeam& team, cpu::Isa isa) {
#if defined(__x86_64__)
    const int64_t times = 2000000;
    if (isa == cpu::Isa::avx512)
        return double(team.size()) * double(times) * 12 * 64 /
               best_seconds(3, [&] { team.run([&](int) { chains512(times); }); });
    if (isa == cpu::Isa::avx2)
        return double(team.size()) * double(times) * 6 * 32 /
               best_seconds(3, [&] { team.run([&](int) { chains256(times); }); });
#endif
    (void)team, (void)isa;
    return 0;
}

}  // namespace coterie
