// Random weights in a file's own blocks, nasty on purpose, and matrices packed from them.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/half.h"
#include "device/cpu/layout.h"
#include "quant/decode.h"

namespace coterie::cpu::testing {

// The types with a packed form, then all others that can be multiplied.
inline const std::vector<Type> packed_types = {Type::Q4_0, Type::Q4_1,   Type::Q5_0,   Type::Q5_1,
                                               Type::Q8_0, Type::Q3_K,   Type::Q4_K,   Type::Q5_K,
                                               Type::Q6_K, Type::IQ4_NL, Type::IQ4_XS, Type::MXFP4};
inline const std::vector<Type> float_types = {Type::F32, Type::F16, Type::BF16};
inline const std::vector<Type> native_types = {Type::Q2_K,   Type::IQ1_S, Type::IQ1_M,   Type::IQ2_XXS,
                                               Type::IQ2_XS, Type::IQ2_S, Type::IQ3_XXS, Type::IQ3_S,
                                               Type::TQ1_0,  Type::TQ2_0};

// Any bits are a block; only the floats in it must be sane. They are found by trial: a block whose values are
// not finite or larger than `limit` is drawn again. One block in 16 is all zero bytes, one has the largest
// codes.
inline std::vector<std::byte> random_rows(Type type, int64_t rows, int64_t columns, std::mt19937& random) {
    const TypeTraits& t = traits(type);
    std::vector<std::byte> bytes(rows * row_bytes(type, columns));
    std::normal_distribution<float> normal(0, 0.05f);
    std::vector<float> values(t.block_elements);
    for (size_t at = 0; at < bytes.size(); at += t.block_bytes) {
        if (t.block_elements == 1) {
            const float v = normal(random) * (random() % 64 == 0 ? 20 : 1);
            const uint32_t f32 = std::bit_cast<uint32_t>(v);
            const uint16_t f16 = type == Type::F16 ? float_to_half(v) : float_to_bfloat(v);
            if (type == Type::F32)
                std::memcpy(&bytes[at], &f32, 4);
            else
                std::memcpy(&bytes[at], &f16, 2);
            continue;
        }
        const int kind = int(random() % 16);
        for (int tries = 0;; ++tries) {
            for (int i = 0; i < t.block_bytes; ++i)
                bytes[at + i] = std::byte(kind == 0 || tries > 10000 ? 0 : random());
            if (kind == 1 && format_of(type).bits > 0)
                for (int i = 8; i < t.block_bytes - 2; ++i) bytes[at + i] = std::byte(0xff);
            quant::decode(type, &bytes[at], values.data(), t.block_elements);
            bool sane = true;
            for (float v : values) sane &= std::isfinite(v) && std::fabs(v) < 40.0f;
            if (sane) break;
        }
    }
    return bytes;
}

struct Packed {
    PackedShape shape;
    std::vector<std::byte> storage;
    std::byte* data;
    Packed(Type type, int64_t rows, std::span<const Range> columns, const std::byte* source,
           int64_t source_columns)
        : shape(type, rows, columns), storage(shape.bytes() + 64 + 4096) {
        data = storage.data() + (64 - reinterpret_cast<uintptr_t>(storage.data()) % 64) % 64;
        const uint64_t stride = row_bytes(type, source_columns);
        for (int64_t g = 0; g < shape.groups(); ++g) {
            const std::byte* at[group_rows] = {};
            for (int i = 0; i < shape.rows_of_group(g); ++i) at[i] = source + (g * group_rows + i) * stride;
            pack_group(shape, at, data + g * shape.group_bytes);
        }
    }
};

}  // namespace coterie::cpu::testing
