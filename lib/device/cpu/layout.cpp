#include "device/cpu/layout.h"

#include <algorithm>
#include <cstring>

#include "base/failure.h"
#include "base/half.h"
#include "quant/decode.h"

namespace coterie::cpu {
namespace {

using namespace coterie::quant;

// What the file keeps of one row's block of 32 columns: `bits` words of quants in the order of the layout.
using Words = uint32_t[8];

uint32_t load32(const void* p) {
    uint32_t v;
    std::memcpy(&v, p, 4);
    return v;
}
uint16_t load16(const void* p) {
    uint16_t v;
    std::memcpy(&v, p, 2);
    return v;
}
void store16(void* p, uint16_t v) {
    std::memcpy(p, &v, 2);
}

// Bit 4i + c to bit i of byte c.
uint32_t spread_bits(uint32_t bits) {
    uint32_t out = 0;
    for (int c = 0; c < 4; ++c) {
        uint32_t x = (bits >> c) & 0x11111111u;
        x = (x | x >> 3) & 0x03030303u;
        x = (x | x >> 6) & 0x000f000fu;
        x = (x | x >> 12) & 0xffu;
        out |= x << (8 * c);
    }
    return out;
}

// One bit (at `shift`) of each of 32 bytes: that of byte 4i + c becomes bit i of byte c.
uint32_t gather_bits(const uint8_t* bytes, int shift) {
    uint32_t out = 0;
    for (int i = 0; i < 8; ++i) out |= ((load32(bytes + 4 * i) >> shift) & 0x01010101u) << i;
    return out;
}
// Two bits (at `shift`) of each of 16 bytes, likewise.
uint32_t gather_pairs(const uint8_t* bytes, int shift) {
    uint32_t out = 0;
    for (int i = 0; i < 4; ++i) out |= ((load32(bytes + 4 * i) >> shift) & 0x03030303u) << (2 * i);
    return out;
}
// The nibbles (high or low) of 32 bytes.
void gather_nibbles(const uint8_t* bytes, bool high, Words words) {
    for (int i = 0; i < 4; ++i) {
        const uint32_t a = load32(bytes + 4 * i), b = load32(bytes + 16 + 4 * i);
        words[i] = high ? ((a >> 4) & 0x0f0f0f0fu) | (b & 0xf0f0f0f0u)
                        : (a & 0x0f0f0f0fu) | ((b & 0x0f0f0f0fu) << 4);
    }
}

// Each packer writes the quants of part `part` of the block, and its scales into the fragment's header, where
// this row's place is `row` and the block's is `block`.
struct Place {
    uint8_t* header;
    int row, block;
    void once(int index, uint16_t bits) const { store16(header + index * 32 + row * 2, bits); }
    void half(int per_block, int index, int start, uint16_t bits) const {
        store16(header + start + block * per_block + index * 32 + row * 2, bits);
    }
    void byte(int per_block, int index, int start, uint8_t value) const {
        header[start + block * per_block + index * 16 + row] = value;
    }
};

template <Type type>
void pack_part(const uint8_t* source, int part, const Place& place, Words words) {
    if constexpr (type == Type::Q4_0 || type == Type::IQ4_NL) {
        place.half(32, 0, 0, load16(source));
        std::memcpy(words, source + 2, 16);
    } else if constexpr (type == Type::Q4_1) {
        place.half(64, 0, 0, load16(source));
        place.half(64, 1, 0, load16(source + 2));
        std::memcpy(words, source + 4, 16);
    } else if constexpr (type == Type::Q5_0) {
        place.half(32, 0, 0, load16(source));
        std::memcpy(words, source + 6, 16);
        words[4] = spread_bits(load32(source + 2));
    } else if constexpr (type == Type::Q5_1) {
        place.half(64, 0, 0, load16(source));
        place.half(64, 1, 0, load16(source + 2));
        std::memcpy(words, source + 8, 16);
        words[4] = spread_bits(load32(source + 4));
    } else if constexpr (type == Type::Q8_0) {
        place.half(32, 0, 0, load16(source));
        for (int i = 0; i < 8; ++i) words[i] = load32(source + 2 + 4 * i) ^ 0x80808080u;
    } else if constexpr (type == Type::MXFP4) {
        place.byte(16, 0, 0, source[0]);
        std::memcpy(words, source + 1, 16);
    } else if constexpr (type == Type::IQ4_XS) {
        BlockIQ4XS b;
        std::memcpy(&b, source, 8);
        const int low = (b.scales_l[part / 2] >> (4 * (part % 2))) & 15,
                  high = (b.scales_h >> (2 * part)) & 3;
        place.once(0, b.d);
        place.byte(16, 0, 32, uint8_t((low | high << 4) - 32));
        std::memcpy(words, source + 8 + 16 * part, 16);
    } else if constexpr (type == Type::Q4_K || type == Type::Q5_K) {
        const ScaleMin s = k_scale(source + 4, part);
        place.once(0, load16(source));
        place.once(1, load16(source + 2));
        place.byte(32, 0, 64, s.scale);
        place.byte(32, 1, 64, s.min);
        const uint8_t* quants = source + (type == Type::Q4_K ? 16 : 48);
        gather_nibbles(quants + 32 * (part / 2), part % 2 == 1, words);
        if (type == Type::Q5_K) words[4] = gather_bits(source + 16, part);
    } else if constexpr (type == Type::Q6_K) {
        const int half = part / 4, s = part % 4;
        place.once(0, load16(source + 208));
        place.byte(32, 0, 32, source[192 + 2 * part]);
        place.byte(32, 1, 32, source[192 + 2 * part + 1]);
        gather_nibbles(source + 64 * half + 32 * (s % 2), s / 2 == 1, words);
        const uint8_t* high = source + 128 + 32 * half;
        words[4] = gather_pairs(high, 2 * s);
        words[5] = gather_pairs(high + 16, 2 * s);
    } else if constexpr (type == Type::Q3_K) {
        const int half = part / 4, s = part % 4;
        place.once(0, load16(source + 108));
        place.byte(32, 0, 32, uint8_t(q3k_scale(source + 96, 2 * part)));
        place.byte(32, 1, 32, uint8_t(q3k_scale(source + 96, 2 * part + 1)));
        const uint8_t* low = source + 32 + 32 * half;
        words[0] = gather_pairs(low, 2 * s);
        words[1] = gather_pairs(low + 16, 2 * s);
        words[2] = gather_bits(source, part);
    }
}

template <Type type>
void pack_blocks(const PackedShape& shape, const std::byte* const rows[group_rows], uint8_t* to) {
    constexpr Format f = format_of(type);
    const int64_t source_bytes = traits(type).block_bytes;
    for (const Fragment& fragment : shape.fragments) {
        const int per_source = traits(type).block_elements / block_columns;
        uint8_t* quants = to + header_bytes(f, fragment.count);
        for (int row = 0; row < group_rows; ++row) {
            if (!rows[row]) continue;
            for (int b = 0; b < fragment.count; ++b) {
                const int part = fragment.first + b;
                const auto* source = reinterpret_cast<const uint8_t*>(rows[row]) +
                                     (fragment.source + part / per_source) * source_bytes;
                Words words;
                pack_part<type>(source, part % per_source, {to, row, b}, words);
                uint8_t* lane = quants + b * quant_bytes(f) + row * 4;
                for (int v = 0; v < f.bits; ++v) std::memcpy(lane + 64 * v, &words[v], 4);
            }
        }
        to = quants + fragment.count * quant_bytes(f);
    }
}

template <typename Element>
void pack_floats(const PackedShape& shape, const std::byte* const rows[group_rows], std::byte* to) {
    auto* out = reinterpret_cast<Element*>(to);
    for (const Range& range : shape.ranges)
        for (int64_t column = range.begin; column < range.end; ++column, out += group_rows)
            for (int row = 0; row < group_rows; ++row)
                if (rows[row])
                    std::memcpy(&out[row], rows[row] + column * int64_t(sizeof(Element)), sizeof(Element));
}

void pack_native(const PackedShape& shape, const std::byte* const rows[group_rows], std::byte* to) {
    const int64_t bytes = traits(shape.type).block_bytes;
    for (const Fragment& fragment : shape.fragments)
        for (int row = 0; row < group_rows; ++row, to += bytes)
            if (rows[row]) std::memcpy(to, rows[row] + fragment.source * bytes, size_t(bytes));
}

// u of column `column` (0..31) of a row, from the row's words.
int code_at(int bits, const uint8_t* quants, int row, int column) {
    const auto byte_of = [&](int vector, int c) { return int(quants[64 * vector + 4 * row + c]); };
    const int i = column / 4, c = column % 4;
    if (bits == 8) return byte_of(i, c);
    if (bits == 3) return ((byte_of(i / 4, c) >> (2 * (i % 4))) & 3) | ((byte_of(2, c) >> i) & 1) << 2;
    int u = i < 4 ? byte_of(i, c) & 15 : byte_of(i - 4, c) >> 4;
    if (bits == 5) u |= ((byte_of(4, c) >> i) & 1) << 4;
    if (bits == 6) u |= ((byte_of(4 + i / 4, c) >> (2 * (i % 4))) & 3) << 4;
    return u;
}

}  // namespace

PackedShape::PackedShape(Type t, int64_t r, std::span<const Range> column_ranges)
    : type(t), container(Container::blocks), format(format_of(t)), rows(r), columns(0), group_bytes(0) {
    const TypeTraits& of = traits(type);
    for (const Range& range : column_ranges) {
        if (range.begin < 0 || range.end < range.begin)
            fail(Status::internal, "columns {} to {} are not a range", range.begin, range.end);
        columns += range.end - range.begin;
    }
    if (of.block_elements == 1) {
        if (type != Type::F32 && type != Type::F16 && type != Type::BF16)
            fail(Status::unsupported, "the CPU has no matrix product for weights of type {}", of.name);
        container = Container::floats;
        ranges.assign(column_ranges.begin(), column_ranges.end());
        group_bytes = columns * group_rows * of.block_bytes;
    } else {
        if (!can_decode(type))
            fail(Status::unsupported, "the CPU has no matrix product for weights of type {}", of.name);
        if (format.bits == 0) container = Container::native;
        const int parts = of.block_elements / block_columns;  // 1 or 8
        for (const Range& range : column_ranges) {
            if (range.begin % block_columns || range.end % block_columns)
                fail(Status::unsupported, "columns {} to {} of {} weights can't be cut: not multiples of {}",
                     range.begin, range.end, of.name, block_columns);
            for (int64_t at = range.begin / block_columns, end = range.end / block_columns; at < end;) {
                const int64_t stop = parts == 1 ? at + super_blocks : (at / parts + 1) * parts;
                const int count = int(std::min(stop, end) - at);
                fragments.push_back({int32_t(at / parts), uint8_t(at % parts), uint8_t(count)});
                group_bytes += container == Container::native
                                   ? group_rows * of.block_bytes
                                   : header_bytes(format, count) + count * quant_bytes(format);
                at += count;
            }
        }
    }
    group_bytes = (group_bytes + 63) / 64 * 64;
}

void pack_group(const PackedShape& shape, const std::byte* const rows[group_rows], std::byte* to) {
    bool padding = false;
    for (int row = 0; row < group_rows; ++row) padding |= rows[row] == nullptr;
    if (padding) std::memset(to, 0, size_t(shape.group_bytes));
    auto* bytes = reinterpret_cast<uint8_t*>(to);
    switch (shape.type) {
        case Type::F32:
            return pack_floats<uint32_t>(shape, rows, to);
        case Type::F16:
        case Type::BF16:
            return pack_floats<uint16_t>(shape, rows, to);
        case Type::Q4_0:
            return pack_blocks<Type::Q4_0>(shape, rows, bytes);
        case Type::Q4_1:
            return pack_blocks<Type::Q4_1>(shape, rows, bytes);
        case Type::Q5_0:
            return pack_blocks<Type::Q5_0>(shape, rows, bytes);
        case Type::Q5_1:
            return pack_blocks<Type::Q5_1>(shape, rows, bytes);
        case Type::Q8_0:
            return pack_blocks<Type::Q8_0>(shape, rows, bytes);
        case Type::Q3_K:
            return pack_blocks<Type::Q3_K>(shape, rows, bytes);
        case Type::Q4_K:
            return pack_blocks<Type::Q4_K>(shape, rows, bytes);
        case Type::Q5_K:
            return pack_blocks<Type::Q5_K>(shape, rows, bytes);
        case Type::Q6_K:
            return pack_blocks<Type::Q6_K>(shape, rows, bytes);
        case Type::IQ4_NL:
            return pack_blocks<Type::IQ4_NL>(shape, rows, bytes);
        case Type::IQ4_XS:
            return pack_blocks<Type::IQ4_XS>(shape, rows, bytes);
        case Type::MXFP4:
            return pack_blocks<Type::MXFP4>(shape, rows, bytes);
        default:
            return pack_native(shape, rows, to);
    }
}

void unpack_row(const PackedShape& shape, const std::byte* group, int row, float* to) {
    const auto* at = reinterpret_cast<const uint8_t*>(group);
    if (shape.container == Container::floats) {
        for (int64_t k = 0; k < shape.columns; ++k) {
            const int64_t index = k * group_rows + row;
            to[k] = shape.type == Type::F32   ? std::bit_cast<float>(load32(at + 4 * index))
                    : shape.type == Type::F16 ? half_to_float(load16(at + 2 * index))
                                              : bfloat_to_float(load16(at + 2 * index));
        }
        return;
    }
    if (shape.container == Container::native) {
        float values[super_block];
        const int64_t bytes = traits(shape.type).block_bytes;
        for (const Fragment& fragment : shape.fragments) {
            decode(shape.type, reinterpret_cast<const std::byte*>(at) + row * bytes, values, super_block);
            std::copy_n(values + fragment.first * block_columns, fragment.count * block_columns, to);
            to += fragment.count * block_columns;
            at += group_rows * bytes;
        }
        return;
    }
    const Format& f = shape.format;
    for (const Fragment& fragment : shape.fragments) {
        const uint8_t* quants = at + header_bytes(f, fragment.count);
        const auto half_at = [&](int64_t offset) { return half_to_float(load16(at + offset + 2 * row)); };
        for (int b = 0; b < fragment.count; ++b, quants += quant_bytes(f)) {
            float scale[2] = {}, minimum = 0;
            const uint8_t* bytes = at + header_once(f) + b * header_per_block(f) + row;
            switch (f.scales) {
                case Scales::half_min:
                    minimum = half_at(64 * b + 32);
                    scale[0] = half_at(64 * b);
                    break;
                case Scales::half:
                    scale[0] = half_at(32 * b);
                    break;
                case Scales::exponent:
                    scale[0] = e8m0_half(bytes[0]);
                    break;
                case Scales::super:
                    scale[0] = half_at(0) * float(int8_t(bytes[0]));
                    break;
                case Scales::super_min:
                    scale[0] = half_at(0) * float(bytes[0]);
                    minimum = -(half_at(32) * float(bytes[16]));
                    break;
                case Scales::super16:
                    scale[0] = half_at(0) * float(int8_t(bytes[0]));
                    scale[1] = half_at(0) * float(int8_t(bytes[16]));
                    break;
                case Scales::none:
                    break;
            }
            if (f.scales != Scales::super16) scale[1] = scale[0];
            for (int column = 0; column < block_columns; ++column) {
                const int code = code_at(f.bits, quants, row, column);
                const int value = f.table ? f.table[code] : code - f.offset;
                *to++ = scale[column / 16] * float(value) + minimum;
            }
        }
        at = quants;
    }
}

}  // namespace coterie::cpu
