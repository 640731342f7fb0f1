// The reader on files made byte by byte: what a valid file yields, and one sentence for each way to be
// invalid.
#include "gguf/file.h"

#include <vector>

#include "base/failure.h"
#include "bytes.h"
#include "catch.h"

using namespace coterie;
using namespace coterie::gguf;
using gguf_test::Bytes;
using gguf_test::Folder;

namespace {

// Every metadata type and two tensors: an F32 [4, 2] and a Q8_0 [32].
Bytes small_file(uint32_t version) {
    Bytes b;
    b.head(version, 2, 17);
    b.key("general.architecture", 8).text("llama");
    b.key("u8", 0).number(uint8_t(200));
    b.key("i8", 1).number(int8_t(-3));
    b.key("u16", 2).number(uint16_t(60000));
    b.key("i16", 3).number(int16_t(-300));
    b.key("u32", 4).number(uint32_t(4000000000));
    b.key("i32", 5).number(int32_t(-70000));
    b.key("f32", 6).number(0.5f);
    b.key("bool", 7).number(uint8_t(1));
    b.key("u64", 10).number(uint64_t(1) << 63);
    b.key("i64", 11).number(-(int64_t(1) << 40));
    b.key("f64", 12).number(0.1);
    b.key("texts", 9).number(uint32_t(8)).number(uint64_t(3)).text("a").text("").text("\xc4\xa0the");
    b.key("ints", 9).number(uint32_t(5)).number(uint64_t(2)).number(int32_t(-1)).number(int32_t(7));
    b.key("floats", 9).number(uint32_t(6)).number(uint64_t(2)).number(1.5f).number(-2.0f);
    b.key("bools", 9).number(uint32_t(7)).number(uint64_t(2)).number(uint8_t(0)).number(uint8_t(1));
    b.key("nested", 9).number(uint32_t(9)).number(uint64_t(2));
    b.number(uint32_t(0)).number(uint64_t(2)).number(uint8_t(1)).number(uint8_t(2));
    b.number(uint32_t(8)).number(uint64_t(1)).text("deep");
    b.tensor("a.weight", {4, 2}, 0, 0);
    b.tensor("b.weight", {32}, 8, 32);
    b.pad(32);
    for (int i = 0; i < 8; ++i) b.number(float(i));
    b.number(uint16_t(0x3c00));
    for (int i = 0; i < 32; ++i) b.number(int8_t(i));
    return b;
}

Failure failure_of(const std::string& path) {
    try {
        File::open(path);
    } catch (const Failure& failure) {
        return failure;
    }
    return Failure(Status::ok, "no failure");
}

}  // namespace

TEST_CASE("a valid file yields its metadata and tensors, in both versions") {
    for (const uint32_t version : {2u, 3u}) {
        Folder folder;
        const File file = File::open(folder.add("m.gguf", small_file(version).data));
        CHECK(file.version() == version);
        CHECK(file.metadata().size() == 17);
        CHECK(file.metadata()[1].key == "u8");
        CHECK(file.get_string("general.architecture") == "llama");
        CHECK(file.get_uint("u8") == 200u);
        CHECK(file.get_int("i8") == -3);
        CHECK(file.get_uint("u16") == 60000u);
        CHECK(file.get_int("i16") == -300);
        CHECK(file.get_uint("u32") == 4000000000u);
        CHECK(file.get_int("i32") == -70000);
        CHECK(file.get_float("f32") == 0.5);
        CHECK(file.get_bool("bool") == true);
        CHECK(file.get_uint("u64") == uint64_t(1) << 63);
        CHECK(file.get_int("i64") == -(int64_t(1) << 40));
        CHECK(file.get_float("f64") == 0.1);
        CHECK(file.get_float("u8") == 200.0);
        CHECK(file.get_strings("texts") == std::vector<std::string_view>{"a", "", "\xc4\xa0the"});
        CHECK(file.get_ints("ints") == std::vector<int64_t>{-1, 7});
        CHECK(file.get_floats("floats") == std::vector<float>{1.5f, -2.0f});
        CHECK(file.get_bools("bools") == std::vector<bool>{false, true});
        CHECK_FALSE(file.get_uint("absent"));
        CHECK_FALSE(file.get_strings("absent"));

        std::vector<std::string> seen;
        file.find("nested")->each([&](const Value& inner) {
            inner.each([&](const Value& v) {
                seen.push_back(v.as_string() ? std::string(*v.as_string()) : std::to_string(*v.as_uint()));
                return true;
            });
            return true;
        });
        CHECK(seen == std::vector<std::string>{"1", "2", "deep"});

        REQUIRE(file.tensors().size() == 2);
        const Tensor* a = file.find_tensor("a.weight");
        REQUIRE(a);
        CHECK(a->type == Type::F32);
        CHECK(a->dimensions == 2);
        CHECK(a->shape == std::array<uint64_t, 4>{4, 2, 1, 1});
        CHECK(a->elements() == 8);
        CHECK(a->bytes == 32);
        CHECK(reinterpret_cast<const float*>(a->data)[7] == 7.0f);
        const Tensor* b = file.find_tensor("b.weight");
        REQUIRE(b);
        CHECK(b->bytes == 34);
        CHECK(uint8_t(b->data[33]) == 31);
        CHECK(b->offset == a->offset + 32);
        CHECK_FALSE(file.find_tensor("c.weight"));
        CHECK(file.total_bytes() == small_file(version).data.size());
    }
}

TEST_CASE("a value of another type than asked for is a failure that names both") {
    Folder folder;
    const File file = File::open(folder.add("m.gguf", small_file(3).data));
    const auto said = [](auto&& call) {
        try {
            call();
        } catch (const Failure& failure) {
            return failure.message();
        }
        return std::string("no failure");
    };
    CHECK(said([&] { file.get_uint("i8"); }).find("'i8' should be an unsigned integer but is: i8 -3") !=
          std::string::npos);
    CHECK(said([&] { file.get_ints("texts"); }).find("array of 3 string") != std::string::npos);
    CHECK_THROWS_AS(file.get_string("u8"), Failure);
    CHECK_THROWS_AS(file.get_uint("f32"), Failure);
    CHECK_THROWS_AS(file.get_int("u64"), Failure);
    CHECK_THROWS_AS(file.get_bool("u8"), Failure);
    CHECK_THROWS_AS(file.get_strings("general.architecture"), Failure);
}

TEST_CASE("what is no GGUF file of a known version is refused by name") {
    Folder folder;
    const auto of = [&](std::string_view data) { return failure_of(folder.add("x.gguf", data)); };
    CHECK(of("PK\x03\x04 and more").message().find("starts with 'PK\\x03\\x04'") != std::string::npos);
    CHECK(of("version https://git-lfs.github.com/spec/v1\n").message().find("LFS pointer") !=
          std::string::npos);
    CHECK(of("GG").status() == Status::bad_model);
    CHECK(of("").status() == Status::bad_model);
    CHECK(of(Bytes().head(1, 0, 0).data).status() == Status::unsupported);
    CHECK(of(Bytes().head(4, 0, 0).data).status() == Status::unsupported);
    const Failure big = of(Bytes().head(0x03000000, 0, 0).data);
    CHECK(big.status() == Status::unsupported);
    CHECK(big.message().find("big-endian") != std::string::npos);
    CHECK(failure_of(folder.path + "/none.gguf").status() == Status::not_found);
    CHECK(failure_of(folder.path).status() == Status::bad_model);
    CHECK(File::open(folder.add("empty.gguf", Bytes().head(3, 0, 0).data)).tensors().empty());
}

TEST_CASE("contradictions in a header are refused") {
    Folder folder;
    const auto refused = [&](const Bytes& bytes, std::string_view words, Status status = Status::bad_model) {
        const Failure failure = failure_of(folder.add("x.gguf", bytes.data));
        INFO(failure.message());
        CHECK(failure.status() == status);
        CHECK(failure.message().find(words) != std::string::npos);
    };
    const auto with_tensor = [](std::initializer_list<uint64_t> shape, uint32_t type, uint64_t offset) {
        Bytes b;
        b.head(3, 1, 0).tensor("t", shape, type, offset).pad(32);
        b.data.append(1024, '\0');
        return b;
    };
    // Counts far beyond the file: refused before anything is allocated for them.
    refused(Bytes().head(3, uint64_t(1) << 60, 0), "tensors");
    refused(Bytes().head(3, 0, uint64_t(1) << 60), "metadata entries");
    refused(Bytes().head(3, ~uint64_t(0), ~uint64_t(0)), "tensors");
    refused(Bytes().head(3, 0, 1).key("k", 8).number(~uint64_t(0)), "a text");
    refused(Bytes().head(3, 0, 1).key("k", 9).number(uint32_t(8)).number(~uint64_t(0)), "array of");
    refused(Bytes().head(3, 0, 1).key("k", 9).number(uint32_t(12)).number(uint64_t(1) << 61), "array of");
    refused(Bytes().head(3, 0, 1).key("k", 9).number(uint32_t(13)).number(uint64_t(0)), "unknown type 13");
    refused(Bytes().head(3, 0, 1).key("k", 13).number(uint64_t(0)), "unknown type 13");
    refused(Bytes().head(3, 0, 1).key("", 4).number(uint64_t(0)), "length of 0");
    refused(Bytes().head(3, 0, 1).key("k", 7).number(uint8_t(2)).number(uint64_t(0)),
            "bool with the value 2");
    refused(Bytes().head(3, 0, 2).key("k", 4).number(1u).key("k", 4).number(2u), "there twice");
    for (const uint32_t alignment : {0u, 4u, 24u, 0x80000000u})
        refused(Bytes().head(3, 0, 1).key("general.alignment", 4).number(alignment), "general.alignment");
    refused(Bytes().head(3, 0, 1).key("general.alignment", 8).text("32"), "general.alignment");
    Bytes deep;
    deep.head(3, 0, 1).key("k", 9);
    for (int i = 0; i < 100000; ++i) deep.number(uint32_t(9)).number(uint64_t(1));
    refused(deep, "nested");

    CHECK_NOTHROW(File::open(folder.add("ok.gguf", with_tensor({256}, 0, 0).data)));
    CHECK_NOTHROW(File::open(folder.add("scalar.gguf", with_tensor({}, 0, 0).data)));
    refused(with_tensor({1, 1, 1, 1, 1}, 0, 0), "5 dimensions");
    refused(with_tensor({0}, 0, 0), "impossible shape");
    refused(with_tensor({uint64_t(1) << 32, uint64_t(1) << 32}, 0, 0), "impossible shape");
    refused(with_tensor({uint64_t(1) << 62}, 0, 0), "impossible");
    refused(with_tensor({48}, 8, 0), "multiple of the 32");
    refused(with_tensor({256}, 4, 0), "early versions of Ollama", Status::unsupported);
    refused(with_tensor({256}, 5, 0), "type number 5", Status::unsupported);
    refused(with_tensor({256}, 0, 8), "impossible place");
    refused(with_tensor({8}, 0, ~uint64_t(31)), "impossible place");
    refused(with_tensor({512}, 0, 0), "cut short: expected 2112 bytes, found 1088");
    Bytes overlap;
    overlap.head(3, 2, 0).tensor("t", {16}, 0, 0).tensor("u", {16}, 0, 32).pad(32).data.append(256, '\0');
    refused(overlap, "'t' and 'u' overlap");
    Bytes twice;
    twice.head(3, 2, 0).tensor("t", {8}, 0, 0).tensor("t", {8}, 0, 32).pad(32).data.append(256, '\0');
    refused(twice, "'t' is there twice");
}

TEST_CASE("general.alignment moves the data") {
    Folder folder;
    Bytes b;
    b.head(3, 1, 1)
        .key("general.alignment", 4)
        .number(256u)
        .tensor("t", {2}, 0, 0)
        .pad(256)
        .number(3.0f)
        .number(4.0f);
    const File file = File::open(folder.add("m.gguf", b.data));
    CHECK(file.alignment() == 256);
    CHECK(file.tensors()[0].offset == 256);
    CHECK(reinterpret_cast<const float*>(file.tensors()[0].data)[1] == 4.0f);
}

TEST_CASE("every truncation of a file is refused, and the tensor that is cut is named") {
    Folder folder;
    const std::string whole = small_file(3).data;
    for (size_t length = 0; length < whole.size(); ++length) {
        const Failure failure = failure_of(folder.add("cut.gguf", std::string_view(whole).substr(0, length)));
        INFO(length << ": " << failure.message());
        REQUIRE(failure.status() == Status::bad_model);
    }
    const Failure last =
        failure_of(folder.add("cut.gguf", std::string_view(whole).substr(0, whole.size() - 1)));
    CHECK(last.message().find(std::to_string(whole.size()) + " bytes, found " +
                              std::to_string(whole.size() - 1)) != std::string::npos);
    CHECK(last.message().find("'b.weight'") != std::string::npos);
    const Failure both =
        failure_of(folder.add("cut.gguf", std::string_view(whole).substr(0, whole.size() - 60)));
    CHECK(both.message().find("'a.weight'") != std::string::npos);
}

TEST_CASE("a header with any byte changed is refused or read as something valid") {
    Folder folder;
    const std::string whole = small_file(3).data;
    const size_t header = File::open(folder.add("whole.gguf", whole)).tensors()[0].offset;
    int refused = 0, read = 0;
    for (size_t at = 0; at < header; ++at)
        for (const uint8_t flip : {0x01, 0x80, 0xff, 0x20}) {
            std::string changed = whole;
            changed[at] = char(uint8_t(changed[at]) ^ flip);
            try {
                const File file = File::open(folder.add("flip.gguf", changed));
                for (const Entry& entry : file.metadata()) {
                    uint64_t elements = 0;
                    entry.value.each([&](const Value&) { return ++elements, true; });
                    REQUIRE(elements == entry.value.size());
                }
                for (const Tensor& tensor : file.tensors())
                    REQUIRE(tensor.offset + tensor.bytes <= whole.size());
                ++read;
            } catch (const Failure& failure) {
                REQUIRE((failure.status() == Status::bad_model || failure.status() == Status::unsupported ||
                         failure.status() == Status::not_found));
                ++refused;
            }
        }
    CHECK(refused > 0);
    CHECK(read > 0);
}
