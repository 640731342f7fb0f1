// Which function multiplies the weights of a type: one switch for the kernels' translation units, which
// include it. Everything here has internal linkage, because each of them is compiled for another machine
// (native.h).
#pragma once
#include <utility>

#include "device/cpu/kernels.h"
#include "device/cpu/native.h"

namespace coterie::cpu {
namespace {

// Calls Rows::exactly<type, n>, n from 1 to Rows::most.
template <typename Rows, Type type, int... before>
void by_count(std::integer_sequence<int, before...>, const PackedShape& shape, const std::byte* group, int n,
              const void* const* x, float* const* y, int64_t column, int valid) {
    using Function =
        void (*)(const PackedShape&, const std::byte*, const void* const*, float* const*, int64_t, int);
    static constexpr Function functions[] = {Rows::template exactly<type, before + 1>...};
    functions[n - 1](shape, group, x, y, column, valid);
}

// Rows::any<type> multiplies up to Rows::most rows. Types without a layout of their own are decoded to tiles
// for Tile::add (native.h).
template <typename Rows, typename Tile>
Product product_of(Type type) {
    switch (type) {
        case Type::F32:
            return Rows::template any<Type::F32>;
        case Type::F16:
            return Rows::template any<Type::F16>;
        case Type::BF16:
            return Rows::template any<Type::BF16>;
        case Type::Q4_0:
            return Rows::template any<Type::Q4_0>;
        case Type::Q4_1:
            return Rows::template any<Type::Q4_1>;
        case Type::Q5_0:
            return Rows::template any<Type::Q5_0>;
        case Type::Q5_1:
            return Rows::template any<Type::Q5_1>;
        case Type::Q8_0:
            return Rows::template any<Type::Q8_0>;
        case Type::Q3_K:
            return Rows::template any<Type::Q3_K>;
        case Type::Q4_K:
            return Rows::template any<Type::Q4_K>;
        case Type::Q5_K:
            return Rows::template any<Type::Q5_K>;
        case Type::Q6_K:
            return Rows::template any<Type::Q6_K>;
        case Type::IQ4_NL:
            return Rows::template any<Type::IQ4_NL>;
        case Type::IQ4_XS:
            return Rows::template any<Type::IQ4_XS>;
        case Type::MXFP4:
            return Rows::template any<Type::MXFP4>;
        default:
            return rows_of_native<Tile, Rows::most>;
    }
}

}  // namespace
}  // namespace coterie::cpu
