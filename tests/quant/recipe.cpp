// The mixtures against what llama-quantize did (recipe_golden.h) and the tables of published files.
#include "quant/recipe.h"

#include <map>
#include <string>

#include "catch.h"
#include "recipe_golden.h"

using namespace coterie;
using quant::Recipe;

namespace {

struct Named {
    std::string name;
    std::vector<uint64_t> shape;
    Type type = Type::F32;
};

std::map<std::string, Type> types_of(Recipe recipe, const std::vector<Named>& tensors,
                                     const quant::RecipeModel& model) {
    std::vector<quant::RecipeTensor> all;
    for (const Named& t : tensors) all.push_back({t.name, t.shape, t.type});
    const std::vector<Type> types = quant::recipe_types(recipe, all, model);
    std::map<std::string, Type> by_name;
    for (size_t i = 0; i < types.size(); ++i) by_name[tensors[i].name] = types[i];
    return by_name;
}

std::string block(int layer, const char* name) {
    return "blk." + std::to_string(layer) + "." + name;
}

}  // namespace

TEST_CASE("Q4_K_M gives every tensor of the golden files its type") {
    for (const GoldenModel& model : golden_models()) {
        std::vector<Named> tensors;
        for (const GoldenTensor& t : model.tensors) tensors.push_back({t.name, t.shape});
        const auto types =
            types_of(Recipe::Q4_K_M, tensors,
                     {model.architecture, model.layers, model.experts, model.heads, model.kv_heads});
        for (const GoldenTensor& t : model.tensors) {
            INFO(model.architecture << " " << t.name);
            CHECK(std::string(type_name(types.at(t.name))) == type_name(t.type));
        }
    }
}

TEST_CASE("the layers with more bits are the outer eighths and every third between") {
    std::vector<Named> tensors{{"token_embd.weight", {2048, 1000}}, {"output.weight", {2048, 1000}}};
    for (int i = 47; i >= 0; --i) {  // the order in the file does not matter
        tensors.push_back({block(i, "attn_v.weight"), {2048, 512}});
        tensors.push_back({block(i, "ffn_down_exps.weight"), {768, 2048, 128}});
    }
    const auto types = types_of(Recipe::Q4_K_M, tensors, {"qwen3moe", 48, 128, 32, 4});
    std::string rule;
    for (int i = 0; i < 48; ++i) {
        const bool more = types.at(block(i, "attn_v.weight")) == Type::Q6_K;
        CHECK((types.at(block(i, "ffn_down_exps.weight")) == Type::Q6_K) == more);
        rule += more ? '6' : '4';
    }
    CHECK(rule ==
          "666666"
          "446446446446446446446446446446446446"
          "666666");
    const auto small = types_of(Recipe::Q4_K_S, tensors, {"qwen3moe", 48, 128, 32, 4});
    CHECK(small.at(block(3, "attn_v.weight")) == Type::Q5_K);
    CHECK(small.at(block(4, "attn_v.weight")) == Type::Q4_K);
    CHECK(small.at(block(5, "ffn_down_exps.weight")) == Type::Q5_K);
    CHECK(small.at(block(6, "ffn_down_exps.weight")) == Type::Q4_K);
}

TEST_CASE("Qwen3.8-Flash-Next as Q4_K_M: rows of 640, 320 and 160 fall back") {
    const std::vector<Named> tensors{
        {"token_embd.weight", {2560, 248320}},
        {"output.weight", {2560, 248320}},
        {"output_hc_norm.weight", {10240}},
        {"output_hc_down.weight", {10240, 320}},
        {"output_hc_up.weight", {320, 10240}},
        {"per_layer_token_embd.weight", {160, 320001536}},
        {"blk.0.ffn_down_exps.weight", {640, 2560, 512}},
        {"blk.6.ffn_down_exps.weight", {640, 2560, 512}},
        {"blk.6.ffn_gate_exps.weight", {2560, 640, 512}},
        {"blk.0.ffn_gate_inp.weight", {2560, 512}},
        {"blk.0.ffn_gate_inp_shexp.weight", {2560}},
        {"blk.0.hc_attn_inject.weight", {10240, 4}},
        {"blk.0.ssm_conv1d.weight", {4, 10240}},
        {"blk.0.ssm_alpha.weight", {2560, 48}},
        {"blk.0.ssm_a", {48}},
        {"blk.0.ssm_dt.bias", {48}},
        {"blk.3.indexer.q_proj.weight", {2560, 512}, Type::BF16},
        {"blk.1.ple_conv1d.weight", {4, 10240}},
        {"blk.1.ple_norm_key.weight", {10240}},
    };
    const auto t = types_of(Recipe::Q4_K_M, tensors, {"qwen4exp", 48, 512, 24, 2});
    CHECK(t.at("token_embd.weight") == Type::Q4_K);
    CHECK(t.at("output.weight") == Type::Q6_K);
    CHECK(t.at("output_hc_norm.weight") == Type::F32);
    CHECK(t.at("output_hc_down.weight") == Type::Q4_K);
    CHECK(t.at("output_hc_up.weight") == Type::Q5_0);
    CHECK(t.at("per_layer_token_embd.weight") == Type::Q5_0);
    CHECK(t.at("blk.0.ffn_down_exps.weight") == Type::Q8_0);
    CHECK(t.at("blk.6.ffn_down_exps.weight") == Type::Q5_0);
    CHECK(t.at("blk.6.ffn_gate_exps.weight") == Type::Q4_K);
    CHECK(t.at("blk.0.ffn_gate_inp.weight") == Type::F32);
    CHECK(t.at("blk.0.ffn_gate_inp_shexp.weight") == Type::F32);
    CHECK(t.at("blk.0.hc_attn_inject.weight") == Type::Q4_K);
    CHECK(t.at("blk.0.ssm_conv1d.weight") == Type::F32);
    CHECK(t.at("blk.0.ssm_alpha.weight") == Type::Q4_K);
    CHECK(t.at("blk.0.ssm_a") == Type::F32);
    CHECK(t.at("blk.0.ssm_dt.bias") == Type::F32);
    CHECK(t.at("blk.3.indexer.q_proj.weight") == Type::BF16);
    CHECK(t.at("blk.1.ple_conv1d.weight") == Type::F16);
    CHECK(t.at("blk.1.ple_norm_key.weight") == Type::F32);
}

TEST_CASE("gpt-oss: rows of 2880 as Q4_K_M and as MXFP4_MOE") {
    const std::vector<Named> tensors{
        {"token_embd.weight", {2880, 201088}},
        {"output.weight", {2880, 201088}},
        {"blk.0.attn_q.weight", {2880, 4096}},
        {"blk.0.attn_v.weight", {2880, 512}},
        {"blk.1.attn_v.weight", {2880, 512}},
        {"blk.0.attn_sinks.weight", {64}},
        {"blk.0.ffn_down_exps.weight", {2880, 2880, 32}, Type::MXFP4},
        {"blk.0.ffn_down_exps.bias", {2880, 32}},
    };
    const quant::RecipeModel model{"gpt-oss", 24, 32, 64, 8};
    const auto k = types_of(Recipe::Q4_K_M, tensors, model);
    CHECK(k.at("output.weight") == Type::Q8_0);
    CHECK(k.at("token_embd.weight") == Type::Q5_0);
    CHECK(k.at("blk.0.attn_q.weight") == Type::Q5_0);
    CHECK(k.at("blk.1.attn_v.weight") == Type::Q8_0);  // the last of two is favoured
    CHECK(k.at("blk.0.attn_v.weight") == Type::Q5_0);
    CHECK(k.at("blk.0.ffn_down_exps.bias") == Type::F32);
    const auto mx = types_of(Recipe::MXFP4_MOE, tensors, model);
    CHECK(mx.at("blk.0.ffn_down_exps.weight") == Type::MXFP4);
    CHECK(mx.at("blk.0.attn_q.weight") == Type::Q8_0);
    CHECK(mx.at("token_embd.weight") == Type::Q8_0);
    CHECK(mx.at("blk.0.attn_sinks.weight") == Type::F32);
}

TEST_CASE("models of the 70B class keep Q5_K value matrices where others have Q4_K") {
    std::vector<Named> tensors{{"output.weight", {8192, 1000}}};
    for (int i = 0; i < 80; ++i) tensors.push_back({block(i, "attn_v.weight"), {8192, 1024}});
    const auto big = types_of(Recipe::Q4_K_M, tensors, {"llama", 80, 0, 64, 8});
    CHECK(big.at(block(10, "attn_v.weight")) == Type::Q5_K);
    CHECK(big.at(block(0, "attn_v.weight")) == Type::Q6_K);
    const auto unshared = types_of(Recipe::Q4_K_M, tensors, {"llama", 80, 0, 64, 64});
    CHECK(unshared.at(block(10, "attn_v.weight")) == Type::Q4_K);
}

TEST_CASE("plain recipes: one type for every matrix, vectors kept") {
    const std::vector<Named> tensors{{"token_embd.weight", {96, 1000}},
                                     {"output_norm.weight", {96}},
                                     {"output.weight", {96, 1000}},
                                     {"blk.0.attn_v.weight", {96, 64}},
                                     {"blk.0.attn_q.weight", {48, 64}}};
    const quant::RecipeModel model{"llama", 1, 0, 4, 4};
    for (const auto& [recipe, type] : {std::pair{Recipe::F16, Type::F16},
                                       {Recipe::BF16, Type::BF16},
                                       {Recipe::F32, Type::F32},
                                       {Recipe::Q8_0, Type::Q8_0}}) {
        const auto t = types_of(recipe, tensors, model);
        CHECK(t.at("token_embd.weight") == type);
        CHECK(t.at("output.weight") == type);
        CHECK(t.at("blk.0.attn_v.weight") == type);
        CHECK(t.at("output_norm.weight") == Type::F32);
    }
    const auto q4 = types_of(Recipe::Q4_0, tensors, model);
    CHECK(q4.at("output.weight") == Type::Q8_0);  // Q6_K does not fit rows of 96
    CHECK(q4.at("blk.0.attn_q.weight") == Type::F16);
}

TEST_CASE("recipes have names and file types") {
    CHECK(quant::recipe_named("q4_k_m") == Recipe::Q4_K_M);
    CHECK(quant::recipe_named("mxfp4_moe") == Recipe::MXFP4_MOE);
    CHECK_FALSE(quant::recipe_named("Q4_K"));
    CHECK_FALSE(quant::recipe_named(""));
    CHECK(quant::file_type(Recipe::Q4_K_M) == 15);
    CHECK(quant::file_type(Recipe::BF16) == 32);
    for (const Recipe recipe : quant::recipes())
        CHECK(quant::recipe_named(quant::recipe_name(recipe)) == recipe);
}
