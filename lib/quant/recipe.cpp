#include "quant/recipe.h"

#include <strings.h>

#include <algorithm>
#include <cstring>

namespace coterie::quant {
namespace {

struct RecipeTraits {
    Recipe recipe;
    const char* name;
    uint32_t file_type;
    Type base;
};

constexpr RecipeTraits table[] = {
    {Recipe::F32, "F32", 0, Type::F32},
    {Recipe::F16, "F16", 1, Type::F16},
    {Recipe::BF16, "BF16", 32, Type::BF16},
    {Recipe::Q8_0, "Q8_0", 7, Type::Q8_0},
    {Recipe::Q6_K, "Q6_K", 18, Type::Q6_K},
    {Recipe::Q5_K_M, "Q5_K_M", 17, Type::Q5_K},
    {Recipe::Q5_K_S, "Q5_K_S", 16, Type::Q5_K},
    {Recipe::Q5_1, "Q5_1", 9, Type::Q5_1},
    {Recipe::Q5_0, "Q5_0", 8, Type::Q5_0},
    {Recipe::Q4_K_M, "Q4_K_M", 15, Type::Q4_K},
    {Recipe::Q4_K_S, "Q4_K_S", 14, Type::Q4_K},
    {Recipe::Q4_1, "Q4_1", 3, Type::Q4_1},
    {Recipe::Q4_0, "Q4_0", 2, Type::Q4_0},
    {Recipe::IQ4_NL, "IQ4_NL", 25, Type::IQ4_NL},
    {Recipe::MXFP4_MOE, "MXFP4_MOE", 38, Type::MXFP4},
    {Recipe::Q3_K_L, "Q3_K_L", 13, Type::Q3_K},
    {Recipe::Q3_K_M, "Q3_K_M", 12, Type::Q3_K},
    {Recipe::Q3_K_S, "Q3_K_S", 11, Type::Q3_K},
    {Recipe::Q2_K, "Q2_K", 10, Type::Q2_K},
};

constexpr Recipe all_recipes[] = {
    Recipe::F32,    Recipe::BF16,   Recipe::F16,    Recipe::Q8_0,   Recipe::Q6_K,
    Recipe::Q5_1,   Recipe::Q5_K_M, Recipe::Q5_K_S, Recipe::Q5_0,   Recipe::Q4_1,
    Recipe::Q4_K_M, Recipe::Q4_K_S, Recipe::Q4_0,   Recipe::IQ4_NL, Recipe::MXFP4_MOE,
    Recipe::Q3_K_L, Recipe::Q3_K_M, Recipe::Q3_K_S, Recipe::Q2_K,
};

const RecipeTraits& traits_of(Recipe recipe) {
    for (const RecipeTraits& t : table)
        if (t.recipe == recipe) return t;
    return table[0];
}

bool has(std::string_view name, std::string_view part) {
    return name.find(part) != std::string_view::npos;
}

// The layer of "blk.12.attn_v.weight"; -1 for a tensor outside the layers.
int layer_of(std::string_view name) {
    if (name.substr(0, 4) != "blk.") return -1;
    int layer = -1;
    for (size_t i = 4; i < name.size() && name[i] >= '0' && name[i] <= '9' && layer < 100000; ++i)
        layer = (layer < 0 ? 0 : layer) * 10 + (name[i] - '0');
    return layer;
}

bool is_value_matrix(std::string_view name) {
    return has(name, "attn_v.weight") || has(name, "attn_qkv.weight") || has(name, "attn_kv_b.weight");
}

// The layers that a medium mixture spends more bits on: the first and the last eighth, and every third
// between.
bool favoured(int i, int n) {
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

// 80-layer models with shared key and value heads, whose value matrices are small and matter much.
bool is_70b(const RecipeModel& model) {
    return model.layers == 80 && (model.architecture == "qwen2" || model.architecture == "deci" ||
                                  (model.architecture == "llama" && model.heads != model.kv_heads));
}

Type value_type(Recipe recipe, Type type, int i, int n, const RecipeModel& model) {
    const int sharing = model.kv_heads > 0 ? model.heads / model.kv_heads : 1;
    switch (recipe) {
        case Recipe::Q2_K:
            type = sharing >= 4 ? Type::Q4_K : Type::Q3_K;
            break;
        case Recipe::Q3_K_M:
            type = i < 2 ? Type::Q5_K : Type::Q4_K;
            break;
        case Recipe::Q3_K_L:
            type = Type::Q5_K;
            break;
        case Recipe::IQ4_NL:
            type = sharing >= 4 ? Type::Q5_K : type;
            break;
        case Recipe::Q4_K_S:
            type = i < 4 ? Type::Q5_K : type;
            break;
        case Recipe::Q4_K_M:
        case Recipe::Q5_K_M:
            type = favoured(i, n) ? Type::Q6_K : type;
            break;
        default:
            break;
    }
    if (is_70b(model) && (type == Type::Q3_K || type == Type::Q4_K)) type = Type::Q5_K;
    return model.experts == 8 ? Type::Q8_0 : type;
}

Type down_type(Recipe recipe, Type type, int layer, int n) {
    switch (recipe) {
        case Recipe::Q2_K:
            return Type::Q3_K;
        case Recipe::Q3_K_M:
            return layer < n / 16 ? Type::Q5_K : Type::Q4_K;
        case Recipe::Q3_K_L:
            return Type::Q5_K;
        case Recipe::IQ4_NL:
        case Recipe::Q4_K_S:
            return layer < n / 8 ? Type::Q5_K : type;
        case Recipe::Q4_K_M:
        case Recipe::Q5_K_M:
            return favoured(layer, n) ? Type::Q6_K : type;
        default:
            return type;
    }
}

Type attention_output_type(Recipe recipe, Type type, int experts) {
    switch (recipe) {
        case Recipe::Q2_K:
            return experts == 8 ? Type::Q5_K : Type::Q3_K;
        case Recipe::Q3_K_M:
            return experts == 8 ? Type::Q5_K : Type::Q4_K;
        case Recipe::Q3_K_L:
            return experts == 8 ? type : Type::Q5_K;
        case Recipe::Q3_K_S:
        case Recipe::IQ4_NL:
        case Recipe::Q4_K_S:
        case Recipe::Q4_K_M:
            return experts == 8 ? Type::Q5_K : type;
        default:
            return type;
    }
}

// A row that isn't whole blocks takes the nearest format of 32, or F16.
Type fitting(Type type, uint64_t row) {
    if (row % uint64_t(traits(type).block_elements) == 0) return type;
    switch (type) {
        case Type::Q2_K:
        case Type::Q3_K:
            type = Type::Q4_0;
            break;
        case Type::Q4_K:
            type = Type::Q5_0;
            break;
        case Type::Q5_K:
            type = Type::Q5_1;
            break;
        case Type::Q6_K:
            type = Type::Q8_0;
            break;
        default:
            break;
    }
    return row % uint64_t(traits(type).block_elements) == 0 ? type : Type::F16;
}

}  // namespace

const char* recipe_name(Recipe recipe) {
    return traits_of(recipe).name;
}
std::span<const Recipe> recipes() {
    return all_recipes;
}
uint32_t file_type(Recipe recipe) {
    return traits_of(recipe).file_type;
}
Type base_type(Recipe recipe) {
    return traits_of(recipe).base;
}

std::optional<Recipe> recipe_named(std::string_view name) {
    for (const RecipeTraits& t : table)
        if (std::strlen(t.name) == name.size() && strncasecmp(t.name, name.data(), name.size()) == 0)
            return t.recipe;
    return std::nullopt;
}

bool may_quantise(const RecipeTensor& tensor) {
    bool matrix = false;
    for (size_t i = 1; i < tensor.shape.size(); ++i) matrix |= tensor.shape[i] > 1;
    const std::string_view name = tensor.name;
    if (!matrix || name.size() < 6 || name.substr(name.size() - 6) != "weight") return false;
    static constexpr std::string_view kept[] = {
        "_norm.weight",
        "ffn_gate_inp.weight",
        "ffn_gate_tid2eid.weight",
        "altup",
        "laurel",
        "ssm_conv1d",
        "shortconv.conv.weight",
        "indexer.k_proj.weight",
        "time_mix_",
        "indexer.q_proj.weight",
        ".patch_embd",
        "per_layer_model_proj",
        "attn_rel_b.weight",
        ".rel_pos",
        ".position_embd",
    };
    return std::none_of(std::begin(kept), std::end(kept),
                        [&](std::string_view part) { return has(name, part); }) &&
           name != "position_embd.weight" && name != "token_types.weight";
}

std::vector<Type> recipe_types(Recipe recipe, std::span<const RecipeTensor> tensors,
                               const RecipeModel& model) {
    const Type base = base_type(recipe);
    bool tied = true;
    std::vector<std::pair<int, size_t>> values;  // layer and index of the value matrices
    for (size_t i = 0; i < tensors.size(); ++i) {
        tied &= tensors[i].name != "output.weight";
        if (is_value_matrix(tensors[i].name)) values.emplace_back(layer_of(tensors[i].name), i);
    }
    std::sort(values.begin(), values.end());

    std::vector<Type> types(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
        const RecipeTensor& tensor = tensors[i];
        const std::string_view name = tensor.name;
        types[i] = tensor.type;
        if (!may_quantise(tensor)) continue;
        types[i] = base;
        if (!traits(base).quantised) continue;
        const bool is_embedding = name == "token_embd.weight";
        if (name == "output.weight" || (tied && is_embedding)) {
            const bool whole = tensor.shape[0] % uint64_t(traits(base).block_elements) == 0;
            types[i] = recipe == Recipe::MXFP4_MOE || base == Type::Q8_0 || !whole ? Type::Q8_0 : Type::Q6_K;
        } else if (recipe == Recipe::MXFP4_MOE) {
            const bool experts = tensor.shape.size() > 2 && tensor.shape[2] > 1;
            types[i] = experts ? Type::MXFP4 : Type::Q8_0;
        } else if (is_embedding) {
            types[i] = base;
        } else if (is_value_matrix(name)) {
            const auto at =
                std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.second == i; });
            types[i] = value_type(recipe, base, int(at - values.begin()), int(values.size()), model);
        } else if (has(name, "attn_k.weight")) {
            types[i] = model.experts == 8 ? Type::Q8_0 : base;
        } else if (has(name, "ffn_down")) {
            types[i] = down_type(recipe, base, layer_of(name), model.layers);
        } else if (has(name, "attn_output.weight")) {
            types[i] = attention_output_type(recipe, base, model.experts);
        }
        types[i] = fitting(types[i], tensor.shape[0]);
    }
    return types;
}

}  // namespace coterie::quant
