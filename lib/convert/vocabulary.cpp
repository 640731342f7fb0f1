#include "convert/vocabulary.h"

#include <algorithm>

namespace coterie::convert {
namespace {

std::string utf8(int code) {
    if (code < 0x80) return std::string(1, char(code));
    return {char(0xc0 | (code >> 6)), char(0x80 | (code & 0x3f))};
}

// The printable character that stands for a byte in a byte-level vocabulary: itself if printable Latin-1,
// else the next free one from 256 on.
std::vector<std::string> byte_characters() {
    std::vector<std::string> characters;
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
        const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        characters.push_back(utf8(itself ? byte : next++));
    }
    return characters;
}

// In a vocabulary too small for the published ids, the special tokens are its last ones.
int moved_id(const ModelShape& shape, size_t index) {
    const auto& specials = shape.special_tokens;
    if (specials.empty() || specials.back().first < shape.vocabulary) return specials[index].first;
    return shape.vocabulary - int(specials.size()) + int(index);
}

constexpr char chat_template[] =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
    "'<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

}  // namespace

int special_id(const ModelShape& shape, std::string_view text) {
    for (size_t i = 0; i < shape.special_tokens.size(); ++i)
        if (shape.special_tokens[i].second == text) return moved_id(shape, i);
    return -1;
}

void set_vocabulary(const ModelShape& shape, gguf::Writer& writer) {
    constexpr int32_t normal = 1, control = 3;
    const size_t size = size_t(shape.vocabulary);
    std::vector<std::string> tokens(size), merges;
    std::vector<int32_t> types(size, normal);
    for (size_t i = 0; i < shape.special_tokens.size(); ++i) {
        const size_t id = size_t(moved_id(shape, i));
        tokens[id] = shape.special_tokens[i].second;
        types[id] = control;
    }
    size_t id = 0;
    const auto place = [&](std::string text) {
        while (id < size && !tokens[id].empty()) ++id;
        if (id == size) return false;
        tokens[id] = std::move(text);
        return true;
    };
    const std::vector<std::string> bytes = byte_characters();
    for (const std::string& character : bytes) place(character);
    std::vector<std::string> printable(bytes.begin() + 33, bytes.begin() + 127), pairs;
    printable.insert(printable.begin(), bytes[' ']);
    const auto extend = [&](const std::vector<std::string>& stems, std::vector<std::string>* made) {
        for (const std::string& stem : stems)
            for (const std::string& character : printable) {
                if (!place(stem + character)) return;
                merges.push_back(stem + " " + character);
                if (made) made->push_back(stem + character);
            }
    };
    extend(printable, &pairs);
    extend(pairs, nullptr);
    // Beyond all triples (no model has so many): tokens that nothing merges into.
    for (int i = 0; place("<unused" + std::to_string(i) + ">");) ++i;

    writer.set("tokenizer.ggml.model", "gpt2");
    writer.set("tokenizer.ggml.pre", shape.tokenizer_pre);
    writer.set("tokenizer.ggml.tokens", tokens);
    writer.set("tokenizer.ggml.token_type", types);
    writer.set("tokenizer.ggml.merges", merges);
    const auto set_id = [&](const char* key, int published) {
        for (size_t i = 0; i < shape.special_tokens.size(); ++i)
            if (shape.special_tokens[i].first == published) writer.set(key, uint32_t(moved_id(shape, i)));
    };
    set_id("tokenizer.ggml.bos_token_id", shape.bos);
    set_id("tokenizer.ggml.eos_token_id", shape.eos);
    writer.set("tokenizer.ggml.add_bos_token", false);
    writer.set("tokenizer.chat_template", chat_template);
}

}  // namespace coterie::convert
