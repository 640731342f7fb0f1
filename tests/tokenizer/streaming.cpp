// Text that arrives in pieces: whatever the cuts, whole characters come out and the sum is the same.
#include "text/detokenizer.h"
#include "text/utf8.h"
#include "vocabularies.h"

using namespace coterie::text;

static const std::string replacement(replacement_character);

TEST_CASE("ill-formed UTF-8 is replaced by maximal subparts") {
    // The examples of the Unicode standard, tables 3-8 to 3-11, and others; the right sides are Python's.
    const std::string r = replacement;
    const std::pair<std::string, std::string> cases[] = {
        {"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", r + r + r + r + r + r + r + r + "A"},
        {"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", r + r + r + r + r + r + r + r + "A"},
        {"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", r + r + r + r + r + "A" + r + r + "B"},
        {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", r + r + r + r + "A"},
        {"\x61\xf1\x80\x80\xe1\x80\xc2\x62", "a" + r + r + r + "b"},
        {"\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80\xc2\x80",
         "\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80\xc2\x80"},
        {"0123456789abcdef\xe4\xbd", "0123456789abcdef" + r},
        {"", ""},
    };
    for (const auto& [in, out] : cases) {
        CHECK(repaired_utf8(in) == out);
        CHECK(is_valid_utf8(in) == (in == out));
        CHECK(is_valid_utf8(out));
    }
}

TEST_CASE("every code point survives, every surrogate does not") {
    for (uint32_t c = 0; c <= 0x10ffff; c += c < 0x3000 ? 1 : 17) {
        std::string text;
        append_utf8(text, c);
        const Utf8Character read = first_character(text);
        const bool surrogate = c >= 0xd800 && c <= 0xdfff;
        if (read.valid == surrogate || (!surrogate && (read.code_point != c || read.length != text.size())))
            FAIL(c);
    }
}

TEST_CASE("a stream of bytes gives the same text at every split") {
    const std::string texts[] = {
        "plain ascii",
        "gr\xc3\xbc\xc3\x9f"
        "e",
        "\xe4\xbd\xa0\xe5\xa5\xbd",
        "\xf0\x9f\x98\x80\xe2\x80\x8d\xf0\x9f\x92\xbb",
        "\xf0\x9f\x98",
        "a\xe4\xbd"
        "b",
        "\xe4\xe4\xbd\xa0\x80",
        "\xf0\x9f\xf0\x9f\x98\x80\xff\xc3",
    };
    for (const std::string& text : texts) {
        for (size_t i = 0; i <= text.size(); ++i) {
            for (size_t j = i; j <= text.size(); ++j) {
                Utf8Stream stream;
                std::string out;
                for (const std::string& part : {text.substr(0, i), text.substr(i, j - i), text.substr(j)}) {
                    const std::string now = stream.push(part);
                    CHECK(is_valid_utf8(now));
                    out += now;
                }
                CHECK(out + stream.flush() == repaired_utf8(text));
                CHECK(stream.flush().empty());
            }
        }
        Utf8Stream bytewise;
        std::string out;
        for (const char c : text) out += bytewise.push({&c, 1});
        CHECK(out + bytewise.flush() == repaired_utf8(text));
    }
}

TEST_CASE("a character comes out as soon as it is whole and not before") {
    Utf8Stream stream;
    CHECK(stream.push("a\xf0").compare("a") == 0);
    CHECK(stream.push("\x9f\x98").empty());
    CHECK(stream.push("\x80"
                      "b\xe4") ==
          "\xf0\x9f\x98\x80"
          "b");
    CHECK(stream.push("\xbd").empty());
    CHECK(stream.push("c") == replacement + "c");  // could not become one any more
    CHECK(stream.push("\xff") == replacement);
    CHECK(stream.flush().empty());
}

TEST_CASE("the detokeniser joins bytes of several tokens and leaves special tokens out") {
    const Tokenizer t(small_byte_level());
    Detokenizer detokenizer(t);
    CHECK(detokenizer.push(0xe4).empty());
    CHECK(detokenizer.push(0xbd).empty());
    CHECK(detokenizer.push(0xa0) == "\xe4\xbd\xa0");
    CHECK(detokenizer.push(259).empty());
    CHECK(detokenizer.push(261) == "<user>");
    CHECK(detokenizer.push(-1).empty());
    CHECK(detokenizer.push(256) == " a");
    CHECK(detokenizer.push(0xc3).empty());
    CHECK(detokenizer.flush() == replacement);
    Detokenizer with_special(t, true);
    CHECK(with_special.push(259) == "<|end|>");
}

TEST_CASE("the detokeniser gives back every text of the corpus") {
    const auto json = read_json("qwen3-trimmed.json");
    VocabularyData data = vocabulary_of(json);
    data.pre = "qwen2";
    const Tokenizer t(data);
    for (const auto& text : json.at("texts").get<std::vector<std::string>>()) {
        Detokenizer detokenizer(t, true);
        std::string out;
        for (const int32_t id : t.encode(text, false, true)) {
            const std::string now = detokenizer.push(id);
            CHECK(is_valid_utf8(now));
            out += now;
        }
        CHECK(out + detokenizer.flush() == text);
    }
}
