// Full vocabularies of real models with llama.cpp's ids, where a folder with them lies beside the repository
// (or is named by COTERIE_VOCABULARIES): NAME.gguf, NAME.gguf.inp, NAME.gguf.out. They are too large to be
// part of it.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "gguf/file.h"
#include "vocabularies.h"

using namespace coterie;
using namespace coterie::text;

static std::vector<std::string> cut(const std::string& text, const std::string& separator) {
    std::vector<std::string> parts;
    size_t at = 0;
    for (size_t end; (end = text.find(separator, at)) != std::string::npos; at = end + separator.size())
        parts.push_back(text.substr(at, end - at));
    return parts;
}

static std::string contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("full vocabularies of real models give llama.cpp's ids") {
    const char* const named = std::getenv("COTERIE_VOCABULARIES");
    const std::filesystem::path folder = named ? named : SOURCE_ROOT "/../shared/data/vocab";
    int checked = 0;
    if (std::filesystem::is_directory(folder)) {
        for (const auto& entry : std::filesystem::directory_iterator(folder)) {
            if (entry.path().extension() != ".gguf") continue;
            const std::string path = entry.path().string();
            const auto file = gguf::File::open(path);
            VocabularyData data = read_vocabulary(file);
            if (data.pre == "deepseek-llm") continue;  // a pre-tokeniser of models that Coterie doesn't run
            data.architecture.clear();                 // the files were made to test the name, not the model
            const Tokenizer tokenizer(data);
            const auto texts = cut(contents(path + ".inp"), "\n__ggml_vocab_test__\n");
            const auto lines = cut(contents(path + ".out"), "\n");
            REQUIRE(texts.size() > 40);
            REQUIRE(lines.size() == texts.size());
            for (size_t i = 0; i < texts.size(); ++i) {
                std::vector<int32_t> expected;
                std::istringstream numbers(lines[i]);
                for (int32_t id; numbers >> id;) expected.push_back(id);
                INFO(path << ": " << texts[i]);
                CHECK(tokenizer.encode(texts[i], false, false) == expected);
            }
            ++checked;
        }
    }
    if (checked == 0) std::printf("skipped: there are no real vocabularies in %s\n", folder.c_str());
}
