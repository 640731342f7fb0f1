#include "cuda/packing.h"

#include <cstring>

#include "base/failure.h"
#include "base/half.h"
#include "quant/blocks.h"
#include "quant/decode.h"

namespace coterie::cuda {

namespace {

using namespace quant;

template <typename Block>
Block block_at(const std::byte* row, int64_t index) {
    Block block;
    std::memcpy(&block, row + index * int64_t(sizeof(Block)), sizeof(Block));
    return block;
}

// The unsigned codes of 32 columns, and the bytes that the planes hold beside them.
struct Group {
    uint8_t codes[32];
    uint8_t scales[4];
};

void put(uint8_t* to, uint16_t value) {
    std::memcpy(to, &value, 2);
}

void nibbles(const uint8_t qs[16], uint8_t codes[32]) {
    for (int i = 0; i < 16; ++i) {
        codes[i] = qs[i] & 15;
        codes[16 + i] = qs[i] >> 4;
    }
}
void fifth_bits(const uint8_t qh[4], uint8_t codes[32]) {
    for (int i = 0; i < 32; ++i) codes[i] |= uint8_t((qh[i / 8] >> (i % 8) & 1) << 4);
}

// Group `index` of a row of the file. For types of 256 columns, part = index % 8 of block index / 8.
Group read_group(Type type, const std::byte* row, int64_t index) {
    Group g{};
    const int part = int(index % 8);
    switch (type) {
        case Type::Q4_0: {
            const auto b = block_at<BlockQ4_0>(row, index);
            nibbles(b.qs, g.codes);
            put(g.scales, b.d);
            return g;
        }
        case Type::Q4_1: {
            const auto b = block_at<BlockQ4_1>(row, index);
            nibbles(b.qs, g.codes);
            put(g.scales, b.d);
            put(g.scales + 2, b.m);
            return g;
        }
        case Type::Q5_0: {
            const auto b = block_at<BlockQ5_0>(row, index);
            nibbles(b.qs, g.codes);
            fifth_bits(b.qh, g.codes);
            put(g.scales, b.d);
            return g;
        }
        case Type::Q5_1: {
            const auto b = block_at<BlockQ5_1>(row, index);
            nibbles(b.qs, g.codes);
            fifth_bits(b.qh, g.codes);
            put(g.scales, b.d);
            put(g.scales + 2, b.m);
            return g;
        }
        case Type::Q8_0: {
            const auto b = block_at<BlockQ8_0>(row, index);
            std::memcpy(g.codes, b.qs, 32);
            put(g.scales, b.d);
            return g;
        }
        case Type::IQ4_NL: {
            const auto b = block_at<BlockIQ4NL>(row, index);
            nibbles(b.qs, g.codes);
            put(g.scales, b.d);
            return g;
        }
        case Type::MXFP4: {
            const auto b = block_at<BlockMXFP4>(row, index);
            nibbles(b.qs, g.codes);
            g.scales[0] = b.e;
            return g;
        }
        case Type::IQ4_XS: {
            const auto b = block_at<BlockIQ4XS>(row, index / 8);
            nibbles(b.qs + 16 * part, g.codes);
            const int low = b.scales_l[part / 2] >> (4 * (part % 2)) & 15,
                      high = b.scales_h >> (2 * part) & 3;
            g.scales[0] = uint8_t(int8_t((low | high << 4) - 32));
            return g;
        }
        case Type::Q4_K: {
            const auto b = block_at<BlockQ4K>(row, index / 8);
            for (int i = 0; i < 32; ++i) g.codes[i] = b.qs[part / 2 * 32 + i] >> (4 * (part % 2)) & 15;
            const ScaleMin s = k_scale(b.scales, part);
            g.scales[0] = s.scale;
            g.scales[1] = s.min;
            return g;
        }
        case Type::Q5_K: {
            const auto b = block_at<BlockQ5K>(row, index / 8);
            for (int i = 0; i < 32; ++i)
                g.codes[i] =
                    uint8_t((b.qs[part / 2 * 32 + i] >> (4 * (part % 2)) & 15) | (b.qh[i] >> part & 1) << 4);
            const ScaleMin s = k_scale(b.scales, part);
            g.scales[0] = s.scale;
            g.scales[1] = s.min;
            return g;
        }
        case Type::Q6_K: {
            const auto b = block_at<BlockQ6K>(row, index / 8);
            const int half = part / 4, s = part % 4;
            for (int i = 0; i < 32; ++i) {
                const int low = b.ql[half * 64 + (s % 2) * 32 + i] >> (4 * (s / 2)) & 15;
                const int high = b.qh[half * 32 + i] >> (2 * s) & 3;
                g.codes[i] = uint8_t(low | high << 4);
            }
            g.scales[0] = uint8_t(b.scales[2 * part]);
            g.scales[1] = uint8_t(b.scales[2 * part + 1]);
            return g;
        }
        case Type::Q3_K: {
            const auto b = block_at<BlockQ3K>(row, index / 8);
            const int half = part / 4, s = part % 4;
            for (int i = 0; i < 32; ++i)
                g.codes[i] = uint8_t((b.qs[half * 32 + i] >> (2 * s) & 3) | (b.hmask[i] >> part & 1) << 2);
            g.scales[0] = uint8_t(int8_t(q3k_scale(b.scales, 2 * part)));
            g.scales[1] = uint8_t(int8_t(q3k_scale(b.scales, 2 * part + 1)));
            return g;
        }
        default:
            fail(Status::internal, "{} has no packed form on CUDA devices", type_name(type));
    }
}

// d, or d and m, of a super-block of the file.
void read_super(Type type, const std::byte* row, int64_t index, std::byte* to) {
    uint16_t factors[2] = {};
    int n = 1;
    switch (type) {
        case Type::Q4_K: {
            const auto b = block_at<BlockQ4K>(row, index);
            factors[0] = b.d, factors[1] = b.dmin, n = 2;
            break;
        }
        case Type::Q5_K: {
            const auto b = block_at<BlockQ5K>(row, index);
            factors[0] = b.d, factors[1] = b.dmin, n = 2;
            break;
        }
        case Type::Q6_K:
            factors[0] = block_at<BlockQ6K>(row, index).d;
            break;
        case Type::Q3_K:
            factors[0] = block_at<BlockQ3K>(row, index).d;
            break;
        case Type::IQ4_XS:
            factors[0] = block_at<BlockIQ4XS>(row, index).d;
            break;
        default:
            break;
    }
    std::memcpy(to, factors, size_t(n) * 2);
}

void write_codes(const Format& f, const uint8_t u[32], std::byte* to, size_t groups) {
    uint8_t bytes[16] = {};
    if (f.bits == 8) {
        std::memcpy(bytes, u, 16);
        std::memcpy(to + 16 * groups, u + 16, 16);
    } else if (f.table) {
        for (int c = 0; c < 32; ++c) {
            const int half = c / 16, word = c % 16 / 4,
                      i = c % 4;  // nibble i of the half's piece of the word
            bytes[word * 4 + half * 2 + i / 2] |= uint8_t(u[c] << (4 * (i % 2)));
        }
    } else {
        for (int i = 0; i < 16; ++i) bytes[i] = uint8_t((u[i] & 15) | (u[16 + i] & 15) << 4);
    }
    std::memcpy(to, bytes, 16);
}

void write_high(const Format& f, const uint8_t u[32], std::byte* to) {
    uint32_t words[2] = {};
    for (int c = 0; c < 32; ++c) {
        const int word = c / 4, byte = c % 4;
        if (f.bits == 5) words[0] |= uint32_t(u[c] >> 4 & 1) << (8 * byte + word);
        if (f.bits == 6) words[c / 16] |= uint32_t(u[c] >> 4 & 3) << (8 * byte + 2 * (word % 4));
    }
    std::memcpy(to, words, size_t(high_bytes(f)));
}

}  // namespace

Packing::Packing(const WeightSource& source)
    : row(row_layout(source.type, source.columns, source.gather)),
      format(format_of(row.type)),
      in(source.in()),
      out(source.out()),
      experts(source.experts()),
      file_type_(source.type),
      file_in_(source.file_in),
      columns_(source.columns) {
    if (format.bits > 0)
        for (const Range& range : columns_)
            for (int64_t g = range.begin / group_columns; g < range.end / group_columns; ++g)
                kept_.push_back(g);
    for (int64_t s = 0; s < row.super_blocks; ++s)
        supers_.push_back(row.shift > 0 ? kept_[0] / 8 + s : kept_[size_t(s)] / 8);
    int64_t at = 0;
    for (int plane = 0; plane < planes; ++plane) {
        offset_[plane] = at;
        at += plane_bytes(row, plane, out * experts);
    }
}

int64_t Packing::bytes_of_row() const {
    int64_t sum = 0;
    for (const int64_t bytes : row.bytes) sum += bytes;
    return sum;
}

void Packing::pack_floats(const std::byte* file_row, std::byte* to) const {
    std::memset(to, 0, size_t(row.bytes[0]));
    const TypeTraits& file = traits(file_type_);
    if (!file.quantised) {
        for (const Range& range : columns_) {
            const size_t bytes = size_t(range.end - range.begin) * size_t(file.block_bytes);
            std::memcpy(to, file_row + range.begin * file.block_bytes, bytes);
            to += bytes;
        }
        return;
    }
    std::vector<float> values(static_cast<size_t>(file_in_));
    quant::decode(file_type_, file_row, values.data(), file_in_);
    for (const Range& range : columns_)
        for (int64_t c = range.begin; c < range.end; ++c) {
            const float value = values[size_t(c)];
            const uint16_t bits = float_to_half(value);
            const size_t bytes = row.type == Type::F32 ? 4 : 2;
            std::memcpy(to, row.type == Type::F32 ? static_cast<const void*>(&value) : &bits, bytes);
            to += bytes;
        }
}

void Packing::pack(const std::byte* file_row, std::byte* const to[planes]) const {
    if (format.bits == 0) return pack_floats(file_row, to[0]);
    for (size_t i = 0; i < kept_.size(); ++i) {
        const Group g = read_group(file_type_, file_row, kept_[i]);
        write_codes(format, g.codes, to[0] + i * 16, kept_.size());
        if (high_bytes(format) > 0) write_high(format, g.codes, to[1] + i * size_t(high_bytes(format)));
        std::memcpy(to[2] + i * size_t(scale_bytes(format)), g.scales, size_t(scale_bytes(format)));
    }
    for (size_t i = 0; i < supers_.size(); ++i)
        read_super(file_type_, file_row, supers_[i], to[3] + i * size_t(super_bytes(format)));
}

Packed Packing::view(uint8_t* data) const {
    Packed p;
    p.codes = data + offset_[0];
    p.high = data + offset_[1];
    p.scales = data + offset_[2];
    p.supers = data + offset_[3];
    p.in = int32_t(in);
    p.out = int32_t(out);
    p.experts = int32_t(experts);
    p.groups = int32_t(row.groups);
    p.super_blocks = int32_t(row.super_blocks);
    p.lead = int32_t(row.lead);
    p.shift = int32_t(row.shift);
    p.stride = int32_t(row.stride);
    p.type = row.type;
    return p;
}

}  // namespace coterie::cuda
