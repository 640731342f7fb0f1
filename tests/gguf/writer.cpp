// The writer: read back by the reader (whose own truth is the hand-made files), and every way to fail leaves
// no file.
#include "gguf/writer.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/failure.h"
#include "bytes.h"
#include "catch.h"

using namespace coterie;
using namespace coterie::gguf;
using gguf_test::Bytes;
using gguf_test::Folder;

namespace {

bool exists(const std::string& path) {
    return ::access(path.c_str(), F_OK) == 0;
}

std::string contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

void append_floats(Writer& writer, const std::vector<float>& values) {
    writer.append(std::as_bytes(std::span(values)));
}

constexpr uint64_t two_by_three[] = {2, 3};
constexpr uint64_t four[] = {4};

}  // namespace

TEST_CASE("a written file is byte for byte the format's") {
    Folder folder;
    const std::string path = folder.add("w.gguf", "");
    Writer writer(path);
    writer.set("general.architecture", "wrong");
    writer.set("n", uint32_t(7));
    writer.set("general.architecture", "llama");
    writer.set("gone", 1.0f);
    writer.set("tokens", std::vector<std::string>{"a", "bc"});
    writer.set("scores", std::vector<float>{1.0f, -2.0f});
    writer.remove("gone");
    writer.add_tensor("t", Type::F32, two_by_three);
    writer.add_tensor("u", Type::F32, four);
    // Pieces that end inside a tensor and reach over its padding.
    const std::vector<float> all = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const std::span<const std::byte> bytes = std::as_bytes(std::span(all));
    writer.append(bytes.first(3));
    writer.append(bytes.subspan(3, 26));
    writer.append(bytes.subspan(29));
    CHECK(contents(path).empty());
    writer.finish();

    Bytes b;
    b.head(3, 2, 4);
    b.key("general.architecture", 8).text("llama");
    b.key("n", 4).number(7u);
    b.key("tokens", 9).number(8u).number(uint64_t(2)).text("a").text("bc");
    b.key("scores", 9).number(6u).number(uint64_t(2)).number(1.0f).number(-2.0f);
    b.tensor("t", {2, 3}, 0, 0).tensor("u", {4}, 0, 32).pad(32);
    for (int i = 1; i <= 6; ++i) b.number(float(i));
    b.pad(32);
    for (int i = 7; i <= 10; ++i) b.number(float(i));
    b.pad(32);
    CHECK(contents(path) == b.data);
    CHECK_FALSE(exists(path + ".tmp"));
}

TEST_CASE("metadata are copied whole, but for what describes a split") {
    Folder folder;
    Bytes b;
    b.head(3, 0, 4);
    b.key("split.count", 2).number(uint16_t(1));
    b.key("nested", 9).number(9u).number(uint64_t(1)).number(8u).number(uint64_t(1)).text("deep");
    b.key("drop", 4).number(1u);
    b.key("general.alignment", 4).number(64u);
    const File from = File::open(folder.add("from.gguf", b.data));
    const std::string path = folder.add("to.gguf", "");
    Writer writer(path);
    writer.copy_metadata(from, [](std::string_view key) { return key != "drop"; });
    writer.add_tensor("t", Type::F32, four);
    append_floats(writer, {1, 2, 3, 4});
    writer.finish();
    const File to = File::open(path);
    REQUIRE(to.metadata().size() == 2);
    CHECK(to.metadata()[0].key == "nested");
    CHECK(std::ranges::equal(to.find("nested")->bytes(), from.find("nested")->bytes()));
    CHECK(to.alignment() == 64);
    CHECK(to.tensors()[0].offset % 64 == 0);
}

TEST_CASE("a sparse file has its true size and takes no room") {
    Folder folder;
    const std::string path = folder.add("sparse.gguf", "");
    Writer writer(path, true);
    const uint64_t shape[] = {2048, 768, 128};
    for (int i = 0; i < 100; ++i)
        writer.add_tensor(fmt::format("blk.{}.ffn_up_exps.weight", i), Type::Q4_K, shape);
    writer.finish();
    const File file = File::open(path);
    CHECK(file.total_bytes() > uint64_t(10) << 30);
    CHECK(file.tensors()[99].bytes == uint64_t(2048) * 768 * 128 / 256 * 144);
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK(uint64_t(info.st_blocks) * 512 < uint64_t(1) << 20);
}

TEST_CASE("a writer that fails leaves no file behind") {
    Folder folder;
    const std::string path = folder.path + "/out.gguf";
    const auto nothing_left = [&] { return !exists(path) && !exists(path + ".tmp"); };
    {
        Writer writer(path);
        writer.add_tensor("t", Type::F32, two_by_three);
        append_floats(writer, {1, 2, 3});
        CHECK_THROWS_AS(writer.finish(), Failure);
    }
    CHECK(nothing_left());
    {
        Writer writer(path);
        writer.add_tensor("t", Type::F32, four);
        CHECK_THROWS_AS(append_floats(writer, {1, 2, 3, 4, 5}), Failure);
    }
    CHECK(nothing_left());
    {
        Writer writer(path);
        writer.add_tensor("t", Type::F32, four);
        writer.add_tensor("t", Type::F32, four);
        CHECK_THROWS_AS(writer.finish(), Failure);
        CHECK_THROWS_AS(writer.add_tensor("q", Type::Q4_K, four), Failure);
    }
    CHECK(nothing_left());
    Writer nowhere(folder.path + "/no/such/folder.gguf");
    CHECK_THROWS_AS(nowhere.finish(), Failure);
}

TEST_CASE("a full disk is a failure with the bytes written, and the file is removed") {
    Folder folder;
    const std::string path = folder.path + "/out.gguf";
    struct rlimit before {};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const auto old = ::signal(SIGXFSZ, SIG_IGN);
    struct rlimit small = before;
    small.rlim_cur = 4096;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    std::string message;
    Status status = Status::ok;
    {
        Writer writer(path);
        const uint64_t shape[] = {4096};
        writer.add_tensor("t", Type::F32, shape);
        try {
            append_floats(writer, std::vector<float>(4096, 1.0f));
        } catch (const Failure& failure) {
            status = failure.status();
            message = failure.message();
        }
    }
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, old);
    CHECK(status == Status::out_of_memory);
    CHECK(message.find("after 4096 of 16448 bytes") != std::string::npos);
    CHECK_FALSE(exists(path));
    CHECK_FALSE(exists(path + ".tmp"));
}
