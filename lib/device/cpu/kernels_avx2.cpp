// The kernels for AVX2 with FMA: the same layout, whose 64-byte vectors are taken as two halves of 8 rows.
//
// vpmaddubsw adds pairs of u x q in 16 bits: as many of them as can't overflow are added before vpmaddwd
// widens the sum. Types whose u needs 8 bits are multiplied as |w| x (q with w's sign) instead. See native.h
// for why everything here has internal linkage.
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

constexpr bool is_signed(const Format& f) {
    return f.offset == 128;
}
// How many vpmaddubsw results fit in 16 bits together; the largest u is 56 for Q3_K, whose u is scaled by 8.
constexpr int sums_in_16_bits(const Format& f) {
    if (is_signed(f)) return 1;
    if (f.scales == Scales::super16) return 2;
    return f.bits == 5 || f.table != nullptr ? 4 : 8;
}

__m256i load(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
__m256i bytes(int v) {
    return _mm256_set1_epi8(char(v));
}
__m256i four(const int8_t* p) {
    int32_t v;
    std::memcpy(&v, p, 4);
    return _mm256_set1_epi32(v);
}
__m256 halves(const uint8_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
__m256i unsigned8(const uint8_t* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
__m256i signed8(const uint8_t* p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
template <int left>
__m256i shifted(__m256i v) {
    if constexpr (left > 0) return _mm256_slli_epi16(v, left);
    if constexpr (left < 0) return _mm256_srli_epi16(v, -left);
    return v;
}
__m256i merge(__m256i a, __m256i b, __m256i mask) {
    return _mm256_or_si256(a, _mm256_and_si256(b, mask));
}

// The values of a table type, made unsigned where they are multiplied so.
struct alignas(16) ShiftedTable {
    int8_t values[16];
};
template <Type type>
constexpr ShiftedTable shifted_table = [] {
    ShiftedTable t{};
    constexpr Format f = format_of(type);
    for (int i = 0; i < 16; ++i) t.values[i] = int8_t(f.table[i] + (is_signed(f) ? 0 : f.offset));
    return t;
}();

// w[i] = u (or the signed value) of columns 4i..4i+3 for 8 rows; q is at the half wanted.
template <Type type>
INLINE void unpack(const uint8_t* q, __m256i w[8]) {
    constexpr Format f = format_of(type);
    if constexpr (f.bits == 8) {
        UNROLL
        for (int i = 0; i < 8; ++i) w[i] = _mm256_xor_si256(load(q + 64 * i), bytes(0x80));
    } else if constexpr (f.bits == 3) {
        const __m256i low[2] = {load(q), load(q + 64)}, high = load(q + 128);
        const auto at = [&]<int i>() {
            w[i] = merge(_mm256_and_si256(shifted<3 - 2 * (i % 4)>(low[i / 4]), bytes(0x18)),
                         shifted<5 - i>(high), bytes(0x20));
        };
        at.template operator()<0>(), at.template operator()<1>(), at.template operator()<2>();
        at.template operator()<3>(), at.template operator()<4>(), at.template operator()<5>();
        at.template operator()<6>(), at.template operator()<7>();
    } else {
        const __m256i nibble = bytes(15);
        UNROLL
        for (int i = 0; i < 4; ++i) {
            const __m256i v = load(q + 64 * i);
            w[i] = _mm256_and_si256(v, nibble);
            w[i + 4] = _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble);
        }
        if constexpr (f.table != nullptr) {
            const __m256i table = _mm256_broadcastsi128_si256(
                _mm_load_si128(reinterpret_cast<const __m128i*>(shifted_table<type>.values)));
            UNROLL
            for (int i = 0; i < 8; ++i) w[i] = _mm256_shuffle_epi8(table, w[i]);
        }
        if constexpr (f.bits == 5) {
            const __m256i high = load(q + 256), bit = bytes(0x10);
            w[0] = merge(w[0], shifted<4>(high), bit), w[1] = merge(w[1], shifted<3>(high), bit);
            w[2] = merge(w[2], shifted<2>(high), bit), w[3] = merge(w[3], shifted<1>(high), bit);
            w[4] = merge(w[4], shifted<0>(high), bit), w[5] = merge(w[5], shifted<-1>(high), bit);
            w[6] = merge(w[6], shifted<-2>(high), bit), w[7] = merge(w[7], shifted<-3>(high), bit);
        }
        if constexpr (f.bits == 6) {
            const __m256i bits = bytes(0x30);
            UNROLL
            for (int h = 0; h < 2; ++h) {
                const __m256i high = load(q + 256 + 64 * h);
                __m256i* to = w + 4 * h;
                to[0] = merge(to[0], shifted<4>(high), bits), to[1] = merge(to[1], shifted<2>(high), bits);
                to[2] = merge(to[2], shifted<0>(high), bits), to[3] = merge(to[3], shifted<-2>(high), bits);
            }
        }
    }
}

struct Factors {
    __m256 scale, constant;
    __m256i part[2];
};

// As in the AVX-512 kernels, for the 8 rows from `lane` on.
template <Type type>
INLINE Factors factors(const uint8_t* header, int block, int lane) {
    constexpr Format f = format_of(type);
    const uint8_t* at = header + header_once(f) + block * header_per_block(f);
    Factors out{};
    __m256 d{};
    if constexpr (header_once(f) > 0) d = halves(header + 2 * lane);
    if constexpr (f.scales == Scales::half || f.scales == Scales::half_min) out.scale = halves(at + 2 * lane);
    if constexpr (f.scales == Scales::half_min) out.constant = halves(at + 32 + 2 * lane);
    if constexpr (f.scales == Scales::exponent) {
        const __m256i bits =
            _mm256_max_epu32(_mm256_slli_epi32(unsigned8(at + lane), 23), _mm256_set1_epi32(0x00400000));
        out.scale = _mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(0.5f));
    }
    if constexpr (f.scales == Scales::super)
        out.scale = _mm256_mul_ps(d, _mm256_cvtepi32_ps(signed8(at + lane)));
    if constexpr (f.scales == Scales::super_min) {
        const __m256 m = _mm256_sub_ps(_mm256_setzero_ps(), halves(header + 32 + 2 * lane));
        out.scale = _mm256_mul_ps(d, _mm256_cvtepi32_ps(unsigned8(at + lane)));
        out.constant = _mm256_mul_ps(m, _mm256_cvtepi32_ps(unsigned8(at + 16 + lane)));
    }
    if constexpr (f.scales == Scales::super16) {
        out.scale = type == Type::Q3_K ? _mm256_mul_ps(d, _mm256_set1_ps(0.125f)) : d;
        out.part[0] = signed8(at + lane);
        out.part[1] = signed8(at + 16 + lane);
    } else if constexpr (f.offset != 0 && !is_signed(f)) {
        out.constant = _mm256_mul_ps(out.scale, _mm256_set1_ps(float(-f.offset)));
    }
    return out;
}

// Pairs of products of 4 columns of 8 rows, in 16 bits.
template <Type type>
INLINE __m256i pairs(__m256i w, const int8_t* q) {
    if constexpr (is_signed(format_of(type)))
        return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(four(q), w));
    else
        return _mm256_maddubs_epi16(w, four(q));
}

// Sums over the columns of w[first .. first + count), in 32 bits.
template <Type type, int first, int count>
INLINE __m256i dot(const __m256i w[8], const ActivationBlock& a) {
    constexpr int together =
        sums_in_16_bits(format_of(type)) < count ? sums_in_16_bits(format_of(type)) : count;
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i total{};
    UNROLL
    for (int i = first; i < first + count; i += together) {
        __m256i sum = pairs<type>(w[i], a.q + 4 * i);
        UNROLL
        for (int j = 1; j < together; ++j)
            sum = _mm256_add_epi16(sum, pairs<type>(w[i + j], a.q + 4 * (i + j)));
        sum = _mm256_madd_epi16(sum, ones);
        total = i == first ? sum : _mm256_add_epi32(total, sum);
    }
    return total;
}

template <Type type>
INLINE __m256 add_block(__m256 sum, const __m256i w[8], const Factors& f, const ActivationBlock& a) {
    constexpr Format format = format_of(type);
    __m256i total;
    if constexpr (format.scales == Scales::super16) {
        const __m256i low = _mm256_add_epi32(dot<type, 0, 4>(w, a), _mm256_set1_epi32(a.shift32[0]));
        const __m256i high = _mm256_add_epi32(dot<type, 4, 4>(w, a), _mm256_set1_epi32(a.shift32[1]));
        total = _mm256_add_epi32(_mm256_mullo_epi32(low, f.part[0]), _mm256_mullo_epi32(high, f.part[1]));
    } else {
        total = dot<type, 0, 8>(w, a);
    }
    sum = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(total), f.scale), _mm256_set1_ps(a.scale), sum);
    if constexpr (format.scales != Scales::super16 && !is_signed(format))
        sum = _mm256_fmadd_ps(f.constant, _mm256_set1_ps(a.sum), sum);
    return sum;
}

template <int rows>
void store(const __m256 (*sum)[rows], float* const* y, int64_t column, int valid) {
    for (int r = 0; r < rows; ++r) {
        alignas(32) float line[group_rows];
        _mm256_store_ps(line, sum[0][r]);
        _mm256_store_ps(line + 8, sum[1][r]);
        std::memcpy(y[r] + column, line, sizeof(float) * size_t(valid));
    }
}

// See the AVX-512 kernels.
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
    __m256 sum[2][rows];
    UNROLL
    for (int r = 0; r < rows; ++r) {
        a[r] = static_cast<const ActivationBlock*>(x[r]);
        sum[0][r] = sum[1][r] = _mm256_setzero_ps();
    }
    int64_t at = 0;
    const Fragment* fragment = shape.fragments.data();
    for (const Fragment* end = fragment + shape.fragments.size(); fragment != end; ++fragment) {
        const uint8_t* q = header + header_bytes(f, fragment->count);
        for (int b = 0; b < fragment->count; ++b, q += quant_bytes(f), ++at) {
            if constexpr (rows > 1) prefetch<quant_bytes(f) / 64>(q + prefetch_bytes);
            UNROLL for (int h = 0; h < 2; ++h) {
                __m256i w[8];
                unpack<type>(q + 32 * h, w);
                const Factors factor = factors<type>(header, b, 8 * h);
                UNROLL
                for (int r = 0; r < rows; ++r) sum[h][r] = add_block<type>(sum[h][r], w, factor, a[r][at]);
            }
        }
        header = q;
    }
    store<rows>(sum, y, column, valid);
}

template <Type type>
INLINE __m256 float_column(const std::byte* group, int64_t k, int half) {
    if constexpr (type == Type::F32)
        return _mm256_loadu_ps(reinterpret_cast<const float*>(group) + 16 * k + 8 * half);
    const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(group) + 2 * k + half);
    if constexpr (type == Type::F16) return _mm256_cvtph_ps(raw);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
}

template <Type type, int rows>
INLINE void add_columns(const std::byte* group, int64_t columns, const float* const* x, __m256 (*sum)[rows]) {
    constexpr int parts = rows >= 3 ? 1 : rows == 2 ? 2 : 4;
    __m256 part[parts][2][rows];
    UNROLL
    for (int p = 0; p < parts; ++p)
        UNROLL for (int r = 0; r < rows; ++r) part[p][0][r] = part[p][1][r] = _mm256_setzero_ps();
    const auto add = [&](int p, int64_t k) {
        UNROLL
        for (int h = 0; h < 2; ++h) {
            const __m256 w = float_column<type>(group, k, h);
            UNROLL
            for (int r = 0; r < rows; ++r)
                part[p][h][r] = _mm256_fmadd_ps(w, _mm256_set1_ps(x[r][k]), part[p][h][r]);
        }
    };
    int64_t k = 0;
    for (; k + parts <= columns; k += parts) UNROLL for (int p = 0; p < parts; ++p) add(p, k + p);
    for (; k < columns; ++k) add(0, k);
    UNROLL
    for (int p = 0; p < parts; ++p)
        UNROLL for (int r = 0; r < rows; ++r) UNROLL for (int h = 0; h < 2; ++h) sum[h][r] =
            _mm256_add_ps(sum[h][r], part[p][h][r]);
}

template <Type type, int rows>
void rows_of_floats(const PackedShape& shape, const std::byte* group, const void* const* x, float* const* y,
                    int64_t column, int valid) {
    const float* at[rows];
    __m256 sum[2][rows];
    UNROLL
    for (int r = 0; r < rows; ++r) {
        at[r] = static_cast<const float*>(x[r]);
        sum[0][r] = sum[1][r] = _mm256_setzero_ps();
    }
    add_columns<type, rows>(group, shape.columns, at, sum);
    store<rows>(sum, y, column, valid);
}

template <int rows>
void add_tile(const float* w, int64_t columns, const float* const* x, float (*sums)[group_rows]) {
    __m256 sum[2][rows];
    for (int r = 0; r < rows; ++r)
        for (int h = 0; h < 2; ++h) sum[h][r] = _mm256_loadu_ps(sums[r] + 8 * h);
    add_columns<Type::F32, rows>(reinterpret_cast<const std::byte*>(w), columns, x, sum);
    for (int r = 0; r < rows; ++r)
        for (int h = 0; h < 2; ++h) _mm256_storeu_ps(sums[r] + 8 * h, sum[h][r]);
}
struct Tile {
    static void add(const float* w, int64_t columns, int rows, const float* const* x,
                    float (*sums)[group_rows]) {
        if (rows == 4) return add_tile<4>(w, columns, x, sums);
        for (int r = 0; r < rows; ++r) add_tile<1>(w, columns, x + r, sums + r);
    }
};

struct Rows {
    static constexpr int most = 4;
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
    const __m256 sign = _mm256_set1_ps(-0.0f);
    for (int64_t b = 0; b < n / block_columns; ++b, x += block_columns, ++to) {
        __m256 v[4], most = _mm256_setzero_ps();
        for (int i = 0; i < 4; ++i) {
            v[i] = _mm256_loadu_ps(x + 8 * i);
            most = _mm256_max_ps(most, _mm256_andnot_ps(sign, v[i]));
        }
        __m128 m = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
        m = _mm_max_ps(m, _mm_movehl_ps(m, m));
        m = _mm_max_ss(m, _mm_shuffle_ps(m, m, 1));
        const float scale = _mm_cvtss_f32(m) / 127.0f, inverse = scale > 1e-36f ? 1.0f / scale : 0.0f;
        __m256i q[4];
        for (int i = 0; i < 4; ++i) {
            q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], _mm256_set1_ps(inverse)));
            q[i] = _mm256_max_epi32(_mm256_min_epi32(q[i], _mm256_set1_epi32(127)), _mm256_set1_epi32(-127));
        }
        int total = 0;
        for (int h = 0; h < 2; ++h) {
            const __m256i words =
                _mm256_permute4x64_epi64(_mm256_packs_epi32(q[2 * h], q[2 * h + 1]), 0xd8);  // 16 in order
            _mm_storeu_si128(
                reinterpret_cast<__m128i*>(to->q + 16 * h),
                _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
            const __m256i s = _mm256_add_epi32(q[2 * h], q[2 * h + 1]);
            __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
            t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
            t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1));
            const int sum = _mm_cvtsi128_si32(t);
            to->shift32[h] = -32 * sum;
            total += sum;
        }
        to->scale = scale;
        to->sum = scale * float(total);
    }
}

}  // namespace

const Kernels& avx2_kernels() {
    static const Kernels table{Isa::avx2, Rows::most, quantise, product_of<Rows, Tile>};
    return table;
}

}  // namespace coterie::cpu
