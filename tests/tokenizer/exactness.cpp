// Ids and pieces must be exactly those of independent tools on the nasty corpus: Hugging Face tokenizers,
// sentencepiece and llama.cpp. How the expectations were made: tests/data/tokenizer/README.md.
#include "gguf/file.h"
#include "text/pretokenizer.h"
#include "vocabularies.h"

using namespace coterie;
using namespace coterie::text;

TEST_CASE("every pre-tokeniser cuts the nasty corpus as Hugging Face tokenizers does") {
    const auto json = read_json("splits.json");
    const auto texts = json.at("texts").get<std::vector<std::string>>();
    REQUIRE(texts.size() >= 250);
    REQUIRE(json.at("pieces").size() == 10);
    for (const auto& [name, all_lengths] : json.at("pieces").items()) {
        const Pretokenizer pretokenizer(name);
        for (size_t i = 0; i < texts.size(); ++i) {
            std::vector<std::string_view> pieces;
            pretokenizer.split(texts[i], pieces);
            std::vector<size_t> lengths;
            std::string joined;
            for (const auto piece : pieces) lengths.push_back(piece.size()), joined += piece;
            INFO(name << ": " << texts[i]);
            CHECK(lengths == all_lengths.at(i).get<std::vector<size_t>>());
            CHECK(joined == texts[i]);
        }
    }
}

TEST_CASE("byte-level BPE gives the ids of Hugging Face tokenizers on a trimmed Qwen3 vocabulary") {
    const auto json = read_json("qwen3-trimmed.json");
    const auto texts = json.at("texts").get<std::vector<std::string>>();
    VocabularyData data = vocabulary_of(json);
    REQUIRE(data.tokens.size() > 4096);
    REQUIRE(json.at("ids").size() == 4);
    for (const auto& [pre, ids] : json.at("ids").items()) {
        data.pre = pre;
        const Tokenizer tokenizer(data);
        CHECK(tokenizer.pre() == pre);
        CHECK(tokenizer.warnings().empty());
        for (size_t i = 0; i < texts.size(); ++i) {
            INFO(pre << ": " << texts[i]);
            const auto got = tokenizer.encode(texts[i], false, true);
            CHECK(got == ids.at(i).get<std::vector<int32_t>>());
            CHECK(tokenizer.decode(got, true) == texts[i]);
        }
    }
}

TEST_CASE("SPM gives the ids of sentencepiece on a trimmed Llama 2 vocabulary") {
    const auto json = read_json("spm.json");
    const auto texts = json.at("texts").get<std::vector<std::string>>();
    for (const bool prefix : {true, false}) {
        VocabularyData data = vocabulary_of(json);
        data.add_space_prefix = prefix;
        const Tokenizer tokenizer(data);
        const auto& ids = json.at("ids").at(prefix ? "with_prefix" : "without_prefix");
        REQUIRE(ids.size() == texts.size());
        for (size_t i = 0; i < texts.size(); ++i) {
            INFO((prefix ? "prefix: " : "no prefix: ") << texts[i]);
            const auto got = tokenizer.encode(texts[i], false, false);
            CHECK(got == ids.at(i).get<std::vector<int32_t>>());
            CHECK(tokenizer.decode(got) == with_plain_spaces(texts[i]));
        }
    }
}

TEST_CASE("the golden files' vocabularies give llama.cpp's ids") {
    const auto json = read_json("llamacpp.json");
    REQUIRE(json.size() == 4);
    for (const auto& [name, cases] : json.items()) {
        const auto file = gguf::File::open(std::string(TEST_DATA "/golden/llamacpp/") + name);
        const Tokenizer tokenizer = Tokenizer::from_gguf(file);
        REQUIRE(cases.size() == 23);
        for (const auto& expected : cases) {
            const std::string text = expected.at(0);
            INFO(name << ": " << text);
            CHECK(tokenizer.encode(text, false, true) == expected.at(1).get<std::vector<int32_t>>());
        }
    }
}
