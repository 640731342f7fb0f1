// Sets of files: opened from any shard, and every way a set can be wrong.
#include <vector>

#include "base/failure.h"
#include "bytes.h"
#include "catch.h"
#include "gguf/file.h"

using namespace coterie;
using namespace coterie::gguf;
using gguf_test::Bytes;
using gguf_test::Folder;

namespace {

Bytes shard(int number, int count, const std::string& tensor, float value, int32_t total = 3) {
    Bytes b;
    b.head(3, 1, number == 0 ? 4 : 3);
    if (number == 0) b.key("general.architecture", 8).text("llama");
    b.key("split.no", 2).number(uint16_t(number));
    b.key("split.count", 2).number(uint16_t(count));
    b.key("split.tensors.count", 5).number(total);
    b.tensor(tensor, {1}, 0, 0).pad(32).number(value);
    return b;
}

std::string failure_of(const std::string& path, Status status) {
    try {
        File::open(path);
    } catch (const Failure& failure) {
        CHECK(failure.status() == status);
        return failure.message();
    }
    FAIL("no failure");
    return "";
}

}  // namespace

TEST_CASE("the names of shards are parsed exactly") {
    CHECK(parse_shard_name("a/b-00002-of-00005.gguf")->shard == 1);
    CHECK(parse_shard_name("a/b-00002-of-00005.gguf")->shards == 5);
    CHECK(parse_shard_name("a/b-00002-of-00005.gguf")->stem == "a/b");
    CHECK(parse_shard_name("a/b-00002-of-00005.gguf")->path(4) == "a/b-00005-of-00005.gguf");
    for (const char* other : {"m.gguf", "-00001-of-00002.gguf", "b-00006-of-00005.gguf",
                              "b-00000-of-00005.gguf", "b-0001-of-00005.gguf", "b-000x1-of-00005.gguf",
                              "b-+0001-of-00005.gguf", "b-00001-of-00005.bin", "b-00001-of-99999.gguf"})
        CHECK_FALSE(parse_shard_name(other));
}

TEST_CASE("a set is opened from any of its shards") {
    Folder folder;
    std::vector<std::string> paths;
    for (int i = 0; i < 3; ++i)
        paths.push_back(folder.add(fmt::format("m-0000{}-of-00003.gguf", i + 1),
                                   shard(i, 3, fmt::format("t{}", i), float(i) + 0.5f).data));
    for (const std::string& path : paths) {
        const File file = File::open(path);
        CHECK(file.path() == paths[0]);
        CHECK(file.shards().size() == 3);
        CHECK(file.get_string("general.architecture") == "llama");
        REQUIRE(file.tensors().size() == 3);
        for (int i = 0; i < 3; ++i) {
            const Tensor* tensor = file.find_tensor(fmt::format("t{}", i));
            REQUIRE(tensor);
            CHECK(tensor->shard == i);
            CHECK(*reinterpret_cast<const float*>(tensor->data) == float(i) + 0.5f);
        }
    }
    int calls = 0;
    CHECK_THROWS_AS(File::open(paths[0], [&](const char*, uint64_t, uint64_t) { return ++calls < 2; }),
                    Failure);
    CHECK(calls == 2);
}

TEST_CASE("a set that is not whole is refused by name") {
    Folder folder;
    const auto add = [&](int i, const Bytes& b) {
        return folder.add(fmt::format("m-0000{}-of-00003.gguf", i + 1), b.data);
    };
    const std::string first = add(0, shard(0, 3, "t0", 0));
    add(2, shard(2, 3, "t2", 2));
    CHECK(failure_of(first, Status::not_found).find("m-00002-of-00003.gguf") != std::string::npos);
    add(1, shard(2, 3, "t1", 1));
    CHECK(failure_of(first, Status::bad_model).find("says inside that it is shard 3 of 3") !=
          std::string::npos);
    add(1, shard(1, 3, "t0", 1));
    CHECK(failure_of(first, Status::bad_model).find("'t0' twice, in shards 1 and 2") != std::string::npos);
    add(1, shard(1, 3, "t1", 1));
    CHECK(File::open(first).tensors().size() == 3);
    std::string cut = shard(1, 3, "t1", 1).data;
    cut.pop_back();
    folder.add("m-00002-of-00003.gguf", cut);
    CHECK(failure_of(first, Status::bad_model).find("m-00002-of-00003.gguf' is cut short") !=
          std::string::npos);
    add(0, shard(0, 3, "t0", 0, 4));
    add(1, shard(1, 3, "t1", 1));
    CHECK(failure_of(first, Status::bad_model).find("should have 4 tensors but has 3") != std::string::npos);

    const std::string renamed = folder.add("renamed.gguf", shard(0, 3, "t0", 0).data);
    CHECK(failure_of(renamed, Status::not_found).find("one of a set of 3 files") != std::string::npos);
    CHECK(File::open(folder.add("alone.gguf", shard(0, 1, "t0", 0, 1).data)).tensors().size() == 1);
}
