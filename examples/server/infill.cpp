// Prompts for the text between two others, with the tokens that models trained for it have.
#include <fmt/format.h>

#include "generation.h"

namespace server {
namespace {

struct Marks {
    int32_t before = -1, after = -1, middle = -1;
    bool complete() const { return before >= 0 && after >= 0 && middle >= 0; }
};

Marks marks_of_metadata(const json& metadata) {
    const auto id = [&](const char* key, const char* older) {
        for (const char* name : {key, older})
            if (const auto found = metadata.find(fmt::format("tokenizer.ggml.{}_token_id", name));
                found != metadata.end() && found->is_number_integer())
                return found->get<int32_t>();
        return -1;
    };
    return {id("fim_pre", "prefix"), id("fim_suf", "suffix"), id("fim_mid", "middle")};
}

Marks marks_of_texts(const coterie::Model& model) {
    static const char* const families[][3] = {
        {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},     // Qwen, CodeGemma
        {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},           // StarCoder
        {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},           // Granite
        {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},     // DeepSeek
        {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},  // GLM
        {"▁<PRE>", "▁<SUF>", "▁<MID>"}};                            // Code Llama
    const auto id = [&](const char* text) {
        const std::vector<int32_t> tokens = model.tokenize(text, COTERIE_PARSE_SPECIAL);
        return tokens.size() == 1 ? tokens[0] : -1;
    };
    for (const auto& texts : families) {
        const Marks marks{id(texts[0]), id(texts[1]), id(texts[2])};
        if (marks.complete()) return marks;
    }
    return {};
}

}  // namespace

std::vector<int32_t> infill_tokens(const LoadedModel& m, const std::string& before,
                                   const std::string& after) {
    Marks marks = marks_of_metadata(m.facts.model_info);
    if (!marks.complete()) marks = marks_of_texts(*m.model);
    if (!marks.complete())
        throw HttpError(400,
                        fmt::format("registry.ollama.ai/library/{} does not support insert", m.facts.name));
    std::vector<int32_t> tokens;
    for (const int32_t token : m.model->tokenize("", COTERIE_ADD_SPECIAL))
        if (!coterie_token_is_end(m.model->get(), token)) tokens.push_back(token);
    const auto add = [&](int32_t mark, const std::string& text) {
        tokens.push_back(mark);
        const std::vector<int32_t> more = m.model->tokenize(text, 0);
        tokens.insert(tokens.end(), more.begin(), more.end());
    };
    add(marks.before, before);
    add(marks.after, after);
    tokens.push_back(marks.middle);
    return tokens;
}

}  // namespace server
