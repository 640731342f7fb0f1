// SHA-256, once in plain C++ and once with the SHA extensions of x86.
#include "store/sha256.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace coterie::store {
namespace {

using State = std::array<uint32_t, 8>;

alignas(16) constexpr uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void compress_plain(State& state, const std::byte* blocks, size_t count) {
    using std::rotr;
    for (; count > 0; --count, blocks += 64) {
        uint32_t w[64];
        for (int i = 0; i < 16; ++i) {
            const std::byte* b = blocks + 4 * i;
            w[i] = uint32_t(b[0]) << 24 | uint32_t(b[1]) << 16 | uint32_t(b[2]) << 8 | uint32_t(b[3]);
        }
        for (int i = 16; i < 64; ++i) {
            const uint32_t x = w[i - 15], y = w[i - 2];
            w[i] = w[i - 16] + w[i - 7] + (rotr(x, 7) ^ rotr(x, 18) ^ (x >> 3)) +
                   (rotr(y, 17) ^ rotr(y, 19) ^ (y >> 10));
        }
        State s = state;
        for (int i = 0; i < 64; ++i) {
            const uint32_t one = s[7] + (rotr(s[4], 6) ^ rotr(s[4], 11) ^ rotr(s[4], 25)) +
                                 ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants[i] + w[i];
            const uint32_t two = (rotr(s[0], 2) ^ rotr(s[0], 13) ^ rotr(s[0], 22)) +
                                 ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
            s = {one + two, s[0], s[1], s[2], s[3] + one, s[4], s[5], s[6]};
        }
        for (size_t i = 0; i < 8; ++i) state[i] += s[i];
    }
}

#if defined(__x86_64__)
// The instructions want the state as (a b e f) and (c d g h), from the highest lane down, and do two rounds
// each; four words of the schedule are made at a time.
__attribute__((target("sha,sse4.1"))) void compress_sha(State& state, const std::byte* blocks, size_t count) {
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    __m128i abef = _mm_set_epi32(int(state[0]), int(state[1]), int(state[4]), int(state[5]));
    __m128i cdgh = _mm_set_epi32(int(state[2]), int(state[3]), int(state[6]), int(state[7]));
    for (; count > 0; --count, blocks += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
        for (int i = 0; i < 16; ++i) {
            __m128i& now = w[i & 3];
            if (i < 4) {
                now = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(blocks + 16 * i)),
                                       big_endian);
            } else {
                const __m128i last = w[(i + 3) & 3], before = w[(i + 2) & 3];
                now = _mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) & 3]),
                                    _mm_alignr_epi8(last, before, 4));
                now = _mm_sha256msg2_epu32(now, last);
            }
            const __m128i sum =
                _mm_add_epi32(now, _mm_load_si128(reinterpret_cast<const __m128i*>(constants + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    state = {uint32_t(_mm_extract_epi32(abef, 3)), uint32_t(_mm_extract_epi32(abef, 2)),
             uint32_t(_mm_extract_epi32(cdgh, 3)), uint32_t(_mm_extract_epi32(cdgh, 2)),
             uint32_t(_mm_extract_epi32(abef, 1)), uint32_t(_mm_extract_epi32(abef, 0)),
             uint32_t(_mm_extract_epi32(cdgh, 1)), uint32_t(_mm_extract_epi32(cdgh, 0))};
}

bool has_sha() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1u << 29)) != 0;
}
#endif

}  // namespace

Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
      compress_(compress_plain) {
#if defined(__x86_64__)
    static const bool fast = has_sha();
    if (fast) compress_ = compress_sha;
#endif
}

void Sha256::add(std::span<const std::byte> bytes) {
    length_ += bytes.size();
    if (held_ > 0) {
        const size_t taken = std::min(bytes.size(), 64 - held_);
        std::copy_n(bytes.begin(), taken, rest_.begin() + long(held_));
        held_ += taken;
        bytes = bytes.subspan(taken);
        if (held_ < 64) return;
        compress_(state_, rest_.data(), 1);
        held_ = 0;
    }
    const size_t blocks = bytes.size() / 64;
    compress_(state_, bytes.data(), blocks);
    bytes = bytes.subspan(blocks * 64);
    std::copy(bytes.begin(), bytes.end(), rest_.begin());
    held_ = bytes.size();
}

std::string Sha256::hex() {
    const uint64_t bits = length_ * 8;
    std::array<std::byte, 72> tail{std::byte{0x80}};
    // Zeros up to 8 bytes before the end of a block, then the length in bits.
    const size_t zeros = (119 - held_ % 64) % 64;
    for (size_t i = 0; i < 8; ++i) tail[1 + zeros + i] = std::byte(bits >> (56 - 8 * i));
    add({tail.data(), 1 + zeros + 8});
    std::string text;
    for (const uint32_t word : state_)
        for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[(word >> shift) & 15];
    return text;
}

std::string sha256_hex(std::string_view text) {
    Sha256 hash;
    hash.add(std::as_bytes(std::span(text)));
    return hash.hex();
}

bool is_hex_digest(std::string_view text) {
    return text.size() == 64 &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
}

}  // namespace coterie::store
