// The rules of the tokenizer one by one, on vocabularies made by hand: what is cut out, what is added, what
// ends a generation, what a file may get wrong.
#include <algorithm>

#include "base/failure.h"
#include "vocabularies.h"

using namespace coterie;
using namespace coterie::text;
using Ids = std::vector<int32_t>;

static Status status_of(const VocabularyData& data) {
    try {
        Tokenizer tokenizer(data);
    } catch (const Failure& failure) {
        CHECK(failure.message().size() > 20);
        return failure.status();
    }
    return Status::ok;
}

// SPM: <unk> <s> </s>, the bytes of "é" only, then pieces.
static VocabularyData small_spm() {
    VocabularyData data;
    data.model = "llama";
    data.tokens = {"<unk>",
                   "<s>",
                   "</s>",
                   "<0xC3>",
                   "<0xA9>",
                   "\xe2\x96\x81",
                   "a",
                   "b",
                   "c",
                   "ab",
                   "bc",
                   "\xe2\x96\x81"
                   "a",
                   "zz",
                   "<user>",
                   "\xe2\x96\x81\xe2\x96\x81"};
    data.types.assign(data.tokens.size(), TokenType::normal);
    data.types[0] = TokenType::unknown;
    data.types[1] = data.types[2] = TokenType::control;
    data.types[3] = data.types[4] = TokenType::byte;
    data.types[13] = TokenType::user_defined;
    data.scores = {0, 0, 0, 0, 0, -9, -9, -9, -9, -2, -1, -3, -4, 0, -5};
    return data;
}

TEST_CASE("user-defined tokens are always cut out, control and unknown ones only on request") {
    const Tokenizer t(small_byte_level());
    CHECK(t.encode("x<user>y", false, false) == Ids{'x', 261, 'y'});
    CHECK(t.encode("x<user>y", false, true) == Ids{'x', 261, 'y'});
    CHECK(t.encode("x<|end|>y", false, true) == Ids{'x', 259, 'y'});
    CHECK(t.encode("x<unk>", false, true) == Ids{'x', 262});
    const Ids plain = t.encode("x<|end|>y", false, false);
    CHECK(plain == Ids{'x', '<', '|', 'e', 'n', 'd', '|', '>', 'y'});
    // Of those that begin at the same place, the longest.
    CHECK(t.encode("<|end|>xy<|end|>", false, true) == Ids{260, 'y', 259});
    CHECK(t.encode("<<|end|><|end|", false, true) == Ids{'<', 259, '<', '|', 'e', 'n', 'd', '|'});
    // A token that is cut out is a border for merges.
    CHECK(t.encode("ab<user>c", false, false) == Ids{257, 261, 'c'});
}

TEST_CASE("merges follow their rank and, among equals, go from left to right") {
    const Tokenizer t(small_byte_level());
    CHECK(t.encode("abc", false, false) == Ids{258});
    CHECK(t.encode("ababc", false, false) == Ids{257, 258});
    CHECK(t.encode("bc abc a", false, false) == Ids{'b', 'c', ' ', 258, 256});
    VocabularyData data = small_byte_level();
    data.tokens.push_back("aa");
    data.types.push_back(TokenType::normal);
    data.merges.push_back("a a");
    CHECK(Tokenizer(data).encode("aaaaa", false, false) == Ids{263, 263, 'a'});
}

TEST_CASE("a merged text that is no token is a step to one, or falls apart into bytes") {
    VocabularyData data = small_byte_level();
    data.tokens[257] = "unreachable";  // "ab" is no token now, but still the way to "abc"
    const Tokenizer t(data);
    CHECK(t.encode("abc", false, false) == Ids{258});
    CHECK(t.encode("abab", false, false) == Ids{'a', 'b', 'a', 'b'});
    // Bytes that are no tokens are lost, as in llama.cpp.
    data.tokens['b'] = "also unreachable";
    CHECK(Tokenizer(data).encode("xbx", false, false) == Ids{'x', 'x'});
}

TEST_CASE("text never becomes a control token by merging") {
    VocabularyData data = small_byte_level();
    data.types[258] = TokenType::control;  // "abc"
    CHECK(Tokenizer(data).encode("abc", false, false) == Ids{'a', 'b', 'c'});
    data.pre = "llama-bpe";  // takes whole pieces as they are
    CHECK(Tokenizer(data).encode("abc", false, false) == Ids{'a', 'b', 'c'});
    CHECK(Tokenizer(data).encode("abc", false, true) == Ids{258});
}

TEST_CASE("long pieces are merged as short ones are") {
    const Tokenizer t(small_byte_level());
    std::string text;
    Ids expected;
    for (int i = 0; i < 200000; ++i) text += "xabcab", expected.insert(expected.end(), {'x', 258, 257});
    CHECK(t.encode(text, false, false) == expected);
    // Symbols that grow by doubling, in one piece of 2^18 bytes.
    VocabularyData data = small_byte_level();
    std::string run = "z";
    for (int i = 0; i < 6; ++i, run += run) {
        data.tokens.push_back(run + run);
        data.types.push_back(TokenType::normal);
        data.merges.push_back(run + " " + run);
    }
    CHECK(Tokenizer(data).encode(std::string(1 << 18, 'z'), false, false) == Ids((1 << 18) / 64, 268));
}

TEST_CASE("BOS and EOS are added where the file or the pre-tokeniser says so") {
    VocabularyData data = small_byte_level();
    CHECK(Tokenizer(data).encode("x", true, false) == Ids{'x'});
    data.add_bos = true;
    CHECK(Tokenizer(data).encode("x", true, false) == Ids{259, 'x'});
    CHECK(Tokenizer(data).encode("x", false, false) == Ids{'x'});
    data.add_eos = true;
    CHECK(Tokenizer(data).encode("", true, false) == Ids{259, 259});
    data.add_eos.reset(), data.add_bos.reset();
    data.pre = "llama-bpe";
    CHECK(Tokenizer(data).encode("x", true, false) == Ids{259, 'x'});
    data.add_bos = false;
    CHECK(Tokenizer(data).encode("x", true, false) == Ids{'x'});
    data.add_bos = true;
    data.bos = 100000;  // out of range: ignored
    CHECK(Tokenizer(data).bos() == -1);
    CHECK(Tokenizer(data).encode("x", true, false) == Ids{'x'});
    CHECK(Tokenizer(small_spm()).encode("a", true, false) == Ids{1, 11});
}

TEST_CASE("SPM merges the highest score first and falls back to bytes, then to unknown") {
    VocabularyData data = small_spm();
    data.add_space_prefix = false;
    const Tokenizer t(data);
    CHECK(t.encode("abc", false, false) == Ids{6, 10});  // "bc" scores best, and then nothing fits
    CHECK(t.encode("ab", false, false) == Ids{9});
    CHECK(t.encode("\xc3\xa9", false, false) == Ids{3, 4});
    CHECK(t.encode("x", false, false) == Ids{0});
    CHECK(t.encode("\xc3\xa9 a", false, false) == Ids{3, 4, 11});
    CHECK(t.encode("<s>a", false, true) == Ids{1, 6});
    CHECK(t.encode("</s>", false, false).size() == 4);
    CHECK(t.encode("<0xC3>", false, false) == Ids{0, 0, 0, 0, 0, 0});
    CHECK(t.decode(Ids{3, 4, 11, 1, 0}) == "\xc3\xa9 a");
    CHECK(t.decode(Ids{1, 11, 2}, true) == "<s> a</s>");
}

TEST_CASE("SPM's space prefix comes after every token that was cut out and is taken back once") {
    const Tokenizer t(small_spm());
    CHECK(t.adds_space_prefix());
    CHECK(t.encode("a", false, false) == Ids{11});
    CHECK(t.encode(" a", false, false) == Ids{5, 11});  // "  a": the two spaces score worse than space and a
    CHECK(t.encode("<user>a", false, false) == Ids{13, 11});
    CHECK(t.encode("", false, false).empty());
    CHECK(t.decode(Ids{11}) == "a");
    CHECK(t.decode(Ids{1, 11, 11}) == "a a");
    CHECK(t.decode(Ids{5, 11}) == " a");
}

TEST_CASE("what an SPM file leaves unsaid depends on the family") {
    VocabularyData data = small_spm();
    data.architecture = "llama";
    const Tokenizer llama(data);
    CHECK((llama.bos() == 1 && llama.eos() == 2 && llama.unknown() == 0 && llama.adds_space_prefix()));
    data.architecture = "gemma3";
    const Tokenizer gemma(data);
    CHECK((gemma.bos() == 2 && gemma.eos() == 1 && gemma.unknown() == 3 && !gemma.adds_space_prefix()));
    data.bos = 5, data.add_space_prefix = true;
    CHECK(Tokenizer(data).bos() == 5);
    CHECK(Tokenizer(data).adds_space_prefix());
}

TEST_CASE("invalid UTF-8 is read as replacement characters") {
    const Tokenizer t(small_byte_level());
    const Ids replacement{0xef, 0xbf, 0xbd};
    CHECK(t.encode("\xff", false, false) == replacement);
    CHECK(t.encode("\xe4\xbd", false, false) == replacement);
    CHECK(t.decode(t.encode("a\xe4\xbd"
                            "b\xed\xa0\x80",
                            false, true)) ==
          "a\xef\xbf\xbd"
          "b\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    const std::string nul("a\0b", 3);
    CHECK(t.decode(t.encode(nul, false, false)) == nul);
}

TEST_CASE("tokens are found by text, and ids outside the vocabulary are nothing") {
    const Tokenizer t(small_byte_level());
    CHECK(t.find(" a") == 256);
    CHECK(t.find("<|end|>") == 259);
    CHECK(t.find("<user>") == 261);
    CHECK(!t.find("nothing"));
    CHECK(!t.find(""));
    CHECK(t.bytes(256) == " a");
    CHECK(t.bytes('\n') == "\n");
    CHECK(t.bytes(-1).empty());
    CHECK(t.bytes(t.size()).empty());
    CHECK(t.is_special(259));
    CHECK(!t.is_special(261));
    CHECK(t.decode(Ids{-5, 'a', 1 << 30, 259, 261}) == "a<user>");
    CHECK(t.decode(Ids{'a', 259}, true) == "a<|end|>");
    CHECK(Tokenizer(small_spm()).find(" a") == 11);
}

TEST_CASE("all control tokens that end a turn are in the set of ends, plain text of that form is not") {
    VocabularyData data = small_byte_level();
    const auto add = [&](const char* text, TokenType type) {
        data.tokens.push_back(text);
        data.types.push_back(type);
        return int32_t(data.tokens.size() - 1);
    };
    data.eos = -1;
    const int32_t im_end = add("<|im_end|>", TokenType::control);
    add("</s>", TokenType::normal);
    const int32_t deepseek =
        add("<\xef\xbd\x9c"
            "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
            TokenType::control);
    CHECK(Tokenizer(data).ends() == Ids{259, im_end, deepseek});  // 259 is "<|end|>"
    data.eos = 'x', data.eot = 'y', data.eom = 'z', data.more_eos = {'w', 'x', -7, 1 << 20};
    const Tokenizer named(data);
    CHECK(named.ends() == Ids{'w', 'x', 'y', 'z', 259, im_end, deepseek});
    CHECK(named.is_end('y'));
    CHECK(!named.is_end('a'));
    CHECK(!named.is_end(-1));
    data.eos = data.eot = data.eom = -1, data.more_eos.clear();
    const int32_t returns = add("<|return|>", TokenType::control), call = add("<|call|>", TokenType::control);
    CHECK(Tokenizer(data).ends() == Ids{im_end, deepseek, returns, call});  // harmony goes on after <|end|>
}

TEST_CASE("pre-tokeniser names: aliases, unknown ones, and architectures whose files are known to be wrong") {
    CHECK(choose_pretokenizer("llama3", "llama").name == "llama-bpe");
    CHECK(choose_pretokenizer("llama3", "llama").ignore_merges);
    CHECK(!choose_pretokenizer("glm4", "glm4moe").ignore_merges);
    CHECK(choose_pretokenizer("deepseek-r1-qwen", "qwen2").name == "qwen2");
    CHECK(choose_pretokenizer("deepseek-r1-qwen", "qwen2").warning.empty());
    CHECK(choose_pretokenizer("", "qwen3moe").name == "qwen2");
    CHECK(!choose_pretokenizer("", "qwen3moe").warning.empty());
    CHECK(choose_pretokenizer("default", "gptoss").name == "gpt-4o");
    CHECK(choose_pretokenizer("qwen2", "qwen35moe").name == "qwen35");
    CHECK(!choose_pretokenizer("qwen2", "qwen35moe").warning.empty());
    CHECK(choose_pretokenizer("qwen35", "qwen35moe").warning.empty());
    CHECK(choose_pretokenizer("default", "llama").warning.empty());
    CHECK(choose_pretokenizer("", "llama").name == "default");
    CHECK(choose_pretokenizer("brand-new", "llama").name == "default");
    CHECK(choose_pretokenizer("brand-new", "llama").warning.find("brand-new") != std::string::npos);
    VocabularyData data = small_byte_level();
    data.pre = "brand-new";
    CHECK(Tokenizer(data).warnings().size() == 1);
}

TEST_CASE("a vocabulary that contradicts itself is refused with a sentence") {
    VocabularyData data = small_byte_level();
    data.model = "t5";
    CHECK(status_of(data) == Status::unsupported);
    data = small_byte_level();
    data.tokens.clear();
    CHECK(status_of(data) == Status::bad_model);
    data = small_byte_level();
    data.types.pop_back();
    CHECK(status_of(data) == Status::bad_model);
    data = small_spm();
    data.scores.pop_back();
    CHECK(status_of(data) == Status::bad_model);
    for (const char* merge : {"", " ", "ab", "a ", " b", "a b c", "a \xff", "a\tb c"}) {
        data = small_byte_level();
        data.merges.push_back(merge);
        INFO(merge);
        CHECK(status_of(data) == Status::bad_model);
    }
    data = small_byte_level();
    data.types.clear();  // all normal
    CHECK(status_of(data) == Status::ok);
}
