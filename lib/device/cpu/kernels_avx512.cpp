// The kernels for AVX-512 with VNNI: a lane is a row of the weight, vpdpbusd adds four columns of 16 rows at
// once.
//
// Rows: the 8 vectors of a block of 32 columns are unpacked once and meet every row of activations from
// registers: 8 vpdpbusd, then convert, scale and add (3 to 4 more) per row. With 12 rows of accumulators the
// unpacking (20 to 40 instructions) is a tenth of the work. Streams: one row, so memory bounds it; four
// groups at once keep four streams in flight. Nothing here may be an inline function of another header with
// code worth sharing: see native.h.
#include <immintrin.h>

#include <cstring>

#include "device/cpu/kernels.h"
#include "device/cpu/product_table.h"

// Left to itself, GCC calls the longer ones and passes their vectors through memory.
#define INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

namespace coterie::cpu {
namespace {

__m512i load(const uint8_t* p) {
    return _mm512_loadu_si512(p);
}
// Kept in a register and in the order of the program: compilers fold such loads into their uses, several
// times over and out of order, and then the processor's prefetcher loses the stream (25 instead of 33 GB/s
// for Q6_K).
__m512i load_in_order(const uint8_t* p) {
    __m512i v = load(p);
    asm volatile("" : "+v"(v));
    return v;
}
__m512i bytes(int v) {
    return _mm512_set1_epi8(char(v));
}
__m512i four(const int8_t* p) {
    int32_t v;
    std::memcpy(&v, p, 4);
    return _mm512_set1_epi32(v);
}
__m512 halves(const uint8_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
__m512i unsigned16(const uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
__m512i signed16(const uint8_t* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
// Shift by a signed count known at compile time (bits cross bytes: mask afterwards).
template <int left>
__m512i shifted(__m512i v) {
    if constexpr (left > 0) return _mm512_slli_epi16(v, left);
    if constexpr (left < 0) return _mm512_srli_epi16(v, -left);
    return v;
}
// a | (b & mask)
__m512i merge(__m512i a, __m512i b, __m512i mask) {
    return _mm512_ternarylogic_epi32(a, b, mask, 0xf8);
}

// The values of a table type, made unsigned.
struct alignas(16) ShiftedTable {
    uint8_t values[16];
};
template <Type type>
constexpr ShiftedTable shifted_table = [] {
    ShiftedTable t{};
    for (int i = 0; i < 16; ++i) t.values[i] = uint8_t(format_of(type).table[i] + format_of(type).offset);
    return t;
}();

// w[i] = u of columns 4i..4i+3. Q3_K's u is scaled by 8, so that its offset is Q6_K's 32.
template <Type type>
INLINE void unpack(const uint8_t* q, __m512i w[8]) {
    constexpr Format f = format_of(type);
    if constexpr (f.bits == 8) {
        UNROLL
        for (int i = 0; i < 8; ++i) w[i] = load(q + 64 * i);
    } else if constexpr (f.bits == 3) {
        const __m512i low[2] = {load_in_order(q), load_in_order(q + 64)}, high = load_in_order(q + 128);
        const __m512i two = bytes(0x18), one = bytes(0x20);
        const auto at = [&]<int i>() {
            w[i] =
                merge(_mm512_and_si512(shifted<3 - 2 * (i % 4)>(low[i / 4]), two), shifted<5 - i>(high), one);
        };
        at.template operator()<0>(), at.template operator()<1>(), at.template operator()<2>();
        at.template operator()<3>(), at.template operator()<4>(), at.template operator()<5>();
        at.template operator()<6>(), at.template operator()<7>();
    } else {
        const __m512i nibble = bytes(15);
        __m512i raw[f.bits];
        UNROLL
        for (int i = 0; i < f.bits; ++i) raw[i] = load_in_order(q + 64 * i);
        UNROLL
        for (int i = 0; i < 4; ++i) {
            w[i] = _mm512_and_si512(raw[i], nibble);
            w[i + 4] = _mm512_and_si512(_mm512_srli_epi16(raw[i], 4), nibble);
        }
        if constexpr (f.table != nullptr) {
            const __m512i table = _mm512_broadcast_i32x4(
                _mm_load_si128(reinterpret_cast<const __m128i*>(shifted_table<type>.values)));
            UNROLL
            for (int i = 0; i < 8; ++i) w[i] = _mm512_shuffle_epi8(table, w[i]);
        }
        if constexpr (f.bits == 5) {
            const __m512i high = raw[4], bit = bytes(0x10);
            w[0] = merge(w[0], shifted<4>(high), bit), w[1] = merge(w[1], shifted<3>(high), bit);
            w[2] = merge(w[2], shifted<2>(high), bit), w[3] = merge(w[3], shifted<1>(high), bit);
            w[4] = merge(w[4], shifted<0>(high), bit), w[5] = merge(w[5], shifted<-1>(high), bit);
            w[6] = merge(w[6], shifted<-2>(high), bit), w[7] = merge(w[7], shifted<-3>(high), bit);
        }
        if constexpr (f.bits == 6) {
            const __m512i bits = bytes(0x30);
            UNROLL
            for (int h = 0; h < 2; ++h) {
                const __m512i high = raw[4 + h];
                __m512i* to = w + 4 * h;
                to[0] = merge(to[0], shifted<4>(high), bits), to[1] = merge(to[1], shifted<2>(high), bits);
                to[2] = merge(to[2], shifted<0>(high), bits), to[3] = merge(to[3], shifted<-2>(high), bits);
            }
        }
    }
}

// The factors of a fragment (d, m) and of a block: value = scale * u + constant per 32 columns, or
// value = scale * part[h] * (u - 32) with an integer part per 16.
struct Factors {
    __m512 scale, constant;
    __m512i part[2];
};
struct Common {
    __m512 d, m;
};

template <Type type>
INLINE Common common(const uint8_t* header) {
    constexpr Format f = format_of(type);
    Common c{};
    if constexpr (header_once(f) > 0) c.d = halves(header);
    if constexpr (f.scales == Scales::super_min)
        c.m = _mm512_sub_ps(_mm512_setzero_ps(), halves(header + 32));
    if constexpr (type == Type::Q3_K) c.d = _mm512_mul_ps(c.d, _mm512_set1_ps(0.125f));
    return c;
}

template <Type type>
INLINE Factors factors(const uint8_t* header, const Common& c, int block) {
    constexpr Format f = format_of(type);
    const uint8_t* at = header + header_once(f) + block * header_per_block(f);
    Factors out{};
    if constexpr (f.scales == Scales::half || f.scales == Scales::half_min) out.scale = halves(at);
    if constexpr (f.scales == Scales::half_min) out.constant = halves(at + 32);
    if constexpr (f.scales == Scales::exponent) {
        // 2^(e - 127) / 2; e = 0 gives 2^-128, which 0 in the exponent field would not.
        const __m512i bits =
            _mm512_max_epu32(_mm512_slli_epi32(unsigned16(at), 23), _mm512_set1_epi32(0x00400000));
        out.scale = _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0.5f));
    }
    if constexpr (f.scales == Scales::super) out.scale = _mm512_mul_ps(c.d, _mm512_cvtepi32_ps(signed16(at)));
    if constexpr (f.scales == Scales::super_min) {
        out.scale = _mm512_mul_ps(c.d, _mm512_cvtepi32_ps(unsigned16(at)));
        out.constant = _mm512_mul_ps(c.m, _mm512_cvtepi32_ps(unsigned16(at + 16)));
    }
    if constexpr (f.scales == Scales::super16) {
        out.scale = c.d;
        out.part[0] = signed16(at);
        out.part[1] = signed16(at + 16);
    } else if constexpr (f.offset != 0) {
        out.constant = _mm512_mul_ps(out.scale, _mm512_set1_ps(float(-f.offset)));
    }
    return out;
}

// sum + the products of one block with one row's activations.
template <Type type>
INLINE __m512 add_block(__m512 sum, const __m512i w[8], const Factors& f, const ActivationBlock& a) {
    constexpr bool by16 = format_of(type).scales == Scales::super16;
    __m512i dot[2];
    dot[0] = by16 ? _mm512_set1_epi32(a.shift32[0]) : _mm512_setzero_si512();
    dot[1] = by16 ? _mm512_set1_epi32(a.shift32[1]) : _mm512_setzero_si512();
    UNROLL
    for (int i = 0; i < 4; ++i) {
        dot[0] = _mm512_dpbusd_epi32(dot[0], w[i], four(a.q + 4 * i));
        dot[1] = _mm512_dpbusd_epi32(dot[1], w[i + 4], four(a.q + 16 + 4 * i));
    }
    if constexpr (by16) {
        dot[0] = _mm512_mullo_epi32(dot[0], f.part[0]);
        dot[1] = _mm512_mullo_epi32(dot[1], f.part[1]);
    }
    const __m512 total = _mm512_cvtepi32_ps(_mm512_add_epi32(dot[0], dot[1]));
    sum = _mm512_fmadd_ps(_mm512_mul_ps(total, f.scale), _mm512_set1_ps(a.scale), sum);
    if constexpr (!by16) sum = _mm512_fmadd_ps(f.constant, _mm512_set1_ps(a.sum), sum);
    return sum;
}

// Weights of few rows come from memory: with two rows and more the work per byte is too long for the
// hardware's prefetcher to stay ahead, with one it is better left alone (measured: docs/performance.md).
constexpr int prefetch_bytes = 4096;

template <int lines>
INLINE void prefetch(const uint8_t* p) {
    _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
    if constexpr (lines > 1) prefetch<lines - 1>(p + 64);
}

template <Type type, int rows>
void rows_of_blocks(const PackedShape& shape, const std::byte* group, const void* const* x, float* const* y,
                    int64_t column, int valid) {
    constexpr Format f = format_of(type);
    const auto* header = reinterpret_cast<const uint8_t*>(group);
    const ActivationBlock* a[rows];
    __m512 sum[rows];
    UNROLL
    for (int r = 0; r < rows; ++r) {
        a[r] = static_cast<const ActivationBlock*>(x[r]);
        sum[r] = _mm512_setzero_ps();
    }
    int64_t at = 0;
    const Fragment* fragment = shape.fragments.data();
    for (const Fragment* end = fragment + shape.fragments.size(); fragment != end; ++fragment) {
        const uint8_t* q = header + header_bytes(f, fragment->count);
        const Common c = common<type>(header);
        for (int b = 0; b < fragment->count; ++b, q += quant_bytes(f), ++at) {
            if constexpr (rows > 1) prefetch<quant_bytes(f) / 64>(q + prefetch_bytes);
            __m512i w[8];
            unpack<type>(q, w);
            const Factors factor = factors<type>(header, c, b);
            UNROLL
            for (int r = 0; r < rows; ++r) sum[r] = add_block<type>(sum[r], w, factor, a[r][at]);
        }
        header = q;
    }
    const auto mask = __mmask16((1u << valid) - 1);
    UNROLL
    for (int r = 0; r < rows; ++r) _mm512_mask_storeu_ps(y[r] + column, mask, sum[r]);
}

template <Type type>
INLINE __m512 float_column(const std::byte* group, int64_t k) {
    if constexpr (type == Type::F32) return _mm512_loadu_ps(reinterpret_cast<const float*>(group) + 16 * k);
    const __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(group) + k);
    if constexpr (type == Type::F16) return _mm512_cvtph_ps(raw);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16));
}

// sum[r] += the products of `columns` columns; few rows keep several sums each, to cover the multiply's
// latency.
template <Type type, int rows>
INLINE void add_columns(const std::byte* group, int64_t columns, const float* const* x, __m512 sum[rows]) {
    constexpr int parts = rows >= 6 ? 1 : rows >= 3 ? 2 : rows == 2 ? 4 : 8;
    __m512 part[parts][rows];
    UNROLL
    for (int p = 0; p < parts; ++p) UNROLL for (int r = 0; r < rows; ++r) part[p][r] = _mm512_setzero_ps();
    int64_t k = 0;
    for (; k + parts <= columns; k += parts) UNROLL for (int p = 0; p < parts; ++p) {
            const __m512 w = float_column<type>(group, k + p);
            UNROLL
            for (int r = 0; r < rows; ++r)
                part[p][r] = _mm512_fmadd_ps(w, _mm512_set1_ps(x[r][k + p]), part[p][r]);
        }
    for (; k < columns; ++k)
        UNROLL for (int r = 0; r < rows; ++r) part[0][r] =
            _mm512_fmadd_ps(float_column<type>(group, k), _mm512_set1_ps(x[r][k]), part[0][r]);
    UNROLL
    for (int r = 0; r < rows; ++r)
        UNROLL for (int p = 0; p < parts; ++p) sum[r] = _mm512_add_ps(sum[r], part[p][r]);
}

template <Type type, int rows>
void rows_of_floats(const PackedShape& shape, const std::byte* group, const void* const* x, float* const* y,
                    int64_t column, int valid) {
    const float* at[rows];
    __m512 sum[rows];
    UNROLL
    for (int r = 0; r < rows; ++r) {
        at[r] = static_cast<const float*>(x[r]);
        sum[r] = _mm512_setzero_ps();
    }
    add_columns<type, rows>(group, shape.columns, at, sum);
    const auto mask = __mmask16((1u << valid) - 1);
    UNROLL
    for (int r = 0; r < rows; ++r) _mm512_mask_storeu_ps(y[r] + column, mask, sum[r]);
}

template <int rows>
void add_tile(const float* w, int64_t columns, const float* const* x, float (*sums)[group_rows]) {
    __m512 sum[rows];
    UNROLL
    for (int r = 0; r < rows; ++r) sum[r] = _mm512_loadu_ps(sums[r]);
    add_columns<Type::F32, rows>(reinterpret_cast<const std::byte*>(w), columns, x, sum);
    UNROLL
    for (int r = 0; r < rows; ++r) _mm512_storeu_ps(sums[r], sum[r]);
}
struct Tile {
    static void add(const float* w, int64_t columns, int rows, const float* const* x,
                    float (*sums)[group_rows]) {
        int r = 0;
        for (; r + 4 <= rows; r += 4) add_tile<4>(w, columns, x + r, sums + r);
        for (; r < rows; ++r) add_tile<1>(w, columns, x + r, sums + r);
    }
};

struct Rows {
    static constexpr int most = 12;
    template <Type type, int n>
    static void exactly(const PackedShape& s, const std::byte* g, const void* const* x, float* const* y,
                        int64_t column, int valid) {
        if constexpr (format_of(type).bits > 0)
            rows_of_blocks<type, n>(s, g, x, y, column, valid);
        else
            rows_of_floats<type, n>(s, g, x, y, column, valid);
    }
    template <Type type>
    static void any(const PackedShape& shape, const std::byte* group, int n, const void* const* x,
                    float* const* y, int64_t column, int valid) {
        by_count<Rows, type>(std::make_integer_sequence<int, most>(), shape, group, n, x, y, column, valid);
    }
};

void quantise(const float* x, int64_t n, ActivationBlock* to) {
    for (int64_t b = 0; b < n / block_columns; ++b, x += block_columns, ++to) {
        const __m512 lo = _mm512_loadu_ps(x), hi = _mm512_loadu_ps(x + 16);
        const float largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(lo), _mm512_abs_ps(hi)));
        const float scale = largest / 127.0f, inverse = scale > 1e-36f ? 1.0f / scale : 0.0f;
        const __m512 by = _mm512_set1_ps(inverse);
        const __m512i most = _mm512_set1_epi32(127), least = _mm512_set1_epi32(-127);
        const __m512i a =
            _mm512_max_epi32(_mm512_min_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(lo, by)), most), least);
        const __m512i c =
            _mm512_max_epi32(_mm512_min_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(hi, by)), most), least);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to->q), _mm512_cvtepi32_epi8(a));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to->q + 16), _mm512_cvtepi32_epi8(c));
        const int sums[2] = {_mm512_reduce_add_epi32(a), _mm512_reduce_add_epi32(c)};
        to->scale = scale;
        to->sum = scale * float(sums[0] + sums[1]);
        for (int h = 0; h < 2; ++h) to->shift32[h] = -32 * sums[h];
    }
}

}  // namespace

const Kernels& avx512_kernels() {
    static const Kernels table{Isa::avx512, Rows::most, quantise, product_of<Rows, Tile>};
    return table;
}

}  // namespace coterie::cpu
