// See vocabulary.h: the keys of a GGUF file that describe its vocabulary.
#include "text/vocabulary.h"

#include "gguf/file.h"

namespace coterie::text {

VocabularyData read_vocabulary(const gguf::File& file) {
    const auto text = [&](std::string_view key) { return std::string(file.get_string(key).value_or("")); };
    const auto texts = [&](std::string_view key) {
        const auto views = file.get_strings(key).value_or(std::vector<std::string_view>());
        return std::vector<std::string>(views.begin(), views.end());
    };
    const auto id = [&](std::string_view key) { return file.get_int(key).value_or(-1); };

    VocabularyData data;
    data.model = text("tokenizer.ggml.model");
    data.pre = text("tokenizer.ggml.pre");
    data.architecture = text("general.architecture");
    data.tokens = texts("tokenizer.ggml.tokens");
    data.merges = texts("tokenizer.ggml.merges");
    data.scores = file.get_floats("tokenizer.ggml.scores").value_or(std::vector<float>());
    for (const int64_t type : file.get_ints("tokenizer.ggml.token_type").value_or(std::vector<int64_t>()))
        data.types.push_back(type >= 1 && type <= 6 ? TokenType(type) : TokenType::normal);

    data.bos = file.get_int("tokenizer.ggml.bos_token_id");
    data.eos = file.get_int("tokenizer.ggml.eos_token_id");
    data.unknown = file.get_int("tokenizer.ggml.unknown_token_id");
    data.eot = id("tokenizer.ggml.eot_token_id");
    data.eom = id("tokenizer.ggml.eom_token_id");
    data.padding = id("tokenizer.ggml.padding_token_id");
    data.fim_pad = id("tokenizer.ggml.fim_pad_token_id");
    data.fim_rep = id("tokenizer.ggml.fim_rep_token_id");
    data.fim_sep = id("tokenizer.ggml.fim_sep_token_id");
    data.more_eos = file.get_ints("tokenizer.ggml.eos_token_ids").value_or(std::vector<int64_t>());
    data.add_bos = file.get_bool("tokenizer.ggml.add_bos_token");
    data.add_eos = file.get_bool("tokenizer.ggml.add_eos_token");
    data.add_space_prefix = file.get_bool("tokenizer.ggml.add_space_prefix");
    return data;
}

}  // namespace coterie::text
