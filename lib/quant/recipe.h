// Which type each tensor of a model gets: the mixtures that published files are made with ("Q4_K_M"), as one
// pure function of names, shapes and a few facts about the model. Nothing is read or written here. What the
// rule says for all architectures follows llama-quantize without an importance matrix, so that our files are
// sized like everybody's.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/type.h"

namespace coterie::quant {

enum class Recipe {
    F32,
    F16,
    BF16,
    Q8_0,
    Q6_K,
    Q5_K_M,
    Q5_K_S,
    Q5_1,
    Q5_0,
    Q4_K_M,
    Q4_K_S,
    Q4_1,
    Q4_0,
    IQ4_NL,
    MXFP4_MOE,
    Q3_K_L,
    Q3_K_M,
    Q3_K_S,
    Q2_K
};

const char* recipe_name(Recipe recipe);
std::optional<Recipe> recipe_named(std::string_view name);  // case-insensitive
std::span<const Recipe> recipes();                          // all of them, largest files first
uint32_t file_type(Recipe recipe);                          // the number in general.file_type
Type base_type(Recipe recipe);                              // what most matrices get

struct RecipeTensor {
    std::string_view name;
    std::span<const uint64_t> shape;  // shape[0] is the row length
    Type type = Type::F32;            // as it is, or would be without quantisation
};

struct RecipeModel {
    std::string_view architecture;
    int layers = 0;   // block_count, multi-token-prediction blocks included
    int experts = 0;  // 0 for a dense model
    int heads = 0, kv_heads = 0;
};

// Whether a mixture may change the tensor at all: norms, routers, biases, convolutions and vectors are never
// touched.
bool may_quantise(const RecipeTensor& tensor);

// One type per tensor, in the order given; a tensor that may not be quantised keeps its own. `tensors` must
// be all of the model's (some rules depend on how many there are, and on whether there is an output matrix).
std::vector<Type> recipe_types(Recipe recipe, std::span<const RecipeTensor> tensors,
                               const RecipeModel& model);

}  // namespace coterie::quant
