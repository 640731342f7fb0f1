// Small quantised mixtures with the expert widths that matter: 768, 640 and 512 columns.
#pragma once
#include <vector>

#include "convert/synth.h"

namespace widths {

struct Case {
    const char* architecture;
    int width;
    coterie::quant::Recipe recipe;
};

inline std::vector<Case> cases() {
    using coterie::quant::Recipe;
    return {{"qwen3moe", 768, Recipe::Q4_K_M},  {"qwen35moe", 512, Recipe::Q4_K_M},
            {"qwen35moe", 640, Recipe::Q4_K_M}, {"qwen3moe", 768, Recipe::Q5_K_M},
            {"qwen3moe", 512, Recipe::Q3_K_M},  {"qwen3moe", 512, Recipe::Q2_K},
            {"qwen3moe", 640, Recipe::IQ4_NL},  {"qwen3moe", 640, Recipe::Q8_0},
            {"qwen35moe", 640, Recipe::Q5_0},   {"qwen3moe", 768, Recipe::MXFP4_MOE}};
}

inline const std::vector<int32_t> prompt{3, 17, 400, 22, 599};

inline coterie::convert::ModelShape tiny(const char* architecture, int width) {
    coterie::convert::ModelShape s =
        coterie::convert::preset(architecture == std::string("qwen35moe") ? "qwen3.5-35b" : "qwen3-30b");
    const bool hybrid = s.has_delta_net();
    s.layers = 2;
    s.attention_interval = 2;
    s.embedding = 256;
    s.heads = 6;
    s.kv_heads = 2;
    s.head_dim = 64;
    s.vocabulary = 600;
    s.context = 512;
    if (s.feed_forward) s.feed_forward = 512;
    s.experts = 6;
    s.experts_used = 3;
    s.expert_feed_forward = width;
    if (hybrid) s.shared_feed_forward = width;
    if (s.rope_dimensions) s.rope_dimensions = 32;
    s.key_heads = 3;
    s.value_heads = 6;
    s.state_dim = 64;
    return s;
}

}  // namespace widths
