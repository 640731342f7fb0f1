// The element types a GGUF tensor can have: their numbers in the file, block sizes and names.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace coterie {

// The numbers are the file format's. Gaps are types that were removed from it.
enum class Type : uint32_t {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q8_1 = 9,
    Q2_K = 10,
    Q3_K = 11,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    Q8_K = 15,
    IQ2_XXS = 16,
    IQ2_XS = 17,
    IQ3_XXS = 18,
    IQ1_S = 19,
    IQ4_NL = 20,
    IQ3_S = 21,
    IQ2_S = 22,
    IQ4_XS = 23,
    I8 = 24,
    I16 = 25,
    I32 = 26,
    I64 = 27,
    F64 = 28,
    IQ1_M = 29,
    BF16 = 30,
    TQ1_0 = 34,
    TQ2_0 = 35,
    MXFP4 = 39,
};

struct TypeTraits {
    Type type;
    const char* name;    // "Q4_K"
    int block_elements;  // weights per block
    int block_bytes;     // bytes per block
    bool quantised;
};

// Null for a number that is not a known type.
const TypeTraits* find_type(uint32_t number);
const TypeTraits& traits(Type type);
std::optional<Type> type_named(std::string_view name);  // case-insensitive
inline const char* type_name(Type type) {
    return traits(type).name;
}

// Bytes of a row of n elements; n must be a multiple of the block.
inline uint64_t row_bytes(Type type, uint64_t n) {
    const TypeTraits& t = traits(type);
    return n / uint64_t(t.block_elements) * uint64_t(t.block_bytes);
}

}  // namespace coterie
