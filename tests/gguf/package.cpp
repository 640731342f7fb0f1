// Files written by the `gguf` Python package, against what its own reader finds in them (make_files.py wrote
// both).
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "gguf/file.h"
#include "gguf/inspect.h"

using namespace coterie;
using namespace coterie::gguf;
using Json = nlohmann::json;

namespace {

Json expected_file(const std::string& name) {
    std::ifstream in(TEST_DATA "/gguf/expected.json");
    return Json::parse(in).at(name);
}

uint32_t crc32(std::span<const std::byte> bytes) {
    uint32_t crc = ~0u;
    for (const std::byte byte : bytes) {
        crc ^= uint32_t(byte);
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
    }
    return ~crc;
}

// The package's reader returns nested arrays flattened.
void flatten(const Value& value, Json& out) {
    if (value.is_array()) {
        value.each([&](const Value& element) {
            flatten(element, out);
            return true;
        });
    } else if (value.as_string()) {
        out.push_back(std::string(*value.as_string()));
    } else if (value.type() == ValueType::boolean) {
        out.push_back(*value.as_bool());
    } else if (value.as_uint()) {
        out.push_back(*value.as_uint());
    } else if (value.as_int()) {
        out.push_back(*value.as_int());
    } else {
        out.push_back(*value.as_float());
    }
}

void check_tensor(const Tensor& tensor, const Json& expected) {
    INFO(tensor.name);
    CHECK(tensor.name == expected.at("name"));
    CHECK(type_name(tensor.type) == expected.at("type").get<std::string>());
    REQUIRE(size_t(tensor.dimensions) == expected.at("shape").size());
    for (int d = 0; d < tensor.dimensions; ++d)
        CHECK(tensor.shape[size_t(d)] == expected.at("shape")[size_t(d)]);
    CHECK(tensor.bytes == expected.at("bytes"));
    CHECK(tensor.offset == expected.at("offset"));
    CHECK(crc32(tensor.contents()) == expected.at("crc32"));
}

}  // namespace

TEST_CASE("files of the gguf package are read as its own reader reads them") {
    for (const char* name : {"small.gguf", "aligned.gguf"}) {
        INFO(name);
        const Json expected = expected_file(name);
        const File file = File::open(std::string(TEST_DATA "/gguf/") + name);
        REQUIRE(file.metadata().size() == expected.at("metadata").size());
        for (const Entry& entry : file.metadata()) {
            INFO(entry.key);
            const Json& wanted = expected.at("metadata").at(std::string(entry.key));
            Json found = Json::array();
            flatten(entry.value, found);
            CHECK(found == (wanted.is_array() ? wanted : Json::array({wanted})));
        }
        REQUIRE(file.tensors().size() == expected.at("tensors").size());
        for (size_t i = 0; i < file.tensors().size(); ++i)
            check_tensor(file.tensors()[i], expected.at("tensors")[i]);
    }
}

TEST_CASE("a set of the gguf package is read as one file") {
    const File file = File::open(TEST_DATA "/gguf/set-00002-of-00003.gguf");
    REQUIRE(file.shards().size() == 3);
    CHECK(file.get_uint("test.u64") == ~uint64_t(0));
    size_t at = 0;
    for (int shard = 0; shard < 3; ++shard) {
        const Json expected = expected_file(fmt::format("set-0000{}-of-00003.gguf", shard + 1));
        for (const Json& tensor : expected.at("tensors")) {
            REQUIRE(at < file.tensors().size());
            CHECK(file.tensors()[at].shard == shard);
            check_tensor(file.tensors()[at++], tensor);
        }
    }
    CHECK(at == file.tensors().size());
}

TEST_CASE("inspection counts parameters, active ones and bytes by type") {
    const File file = File::open(TEST_DATA "/gguf/set-00001-of-00003.gguf");
    // By hand from make_files.py: 3 expert tensors of 4 x 2048; 64x64 twice, 64, 3x64, 4x64, 5.
    const ParameterCount count = count_parameters(file);
    CHECK(count.experts == 3 * 4 * 2048);
    CHECK(count.total == 3 * 4 * 2048 + 2 * 4096 + 64 + 192 + 256 + 5);
    CHECK(count.active == 3 * 2048 + 2 * 4096 + 64 + 192 + 256 + 5);
    CHECK(is_expert_tensor("blk.1.ffn_down_exps.bias"));
    CHECK(is_expert_tensor("blk.1.ffn_down.31.weight"));
    CHECK_FALSE(is_expert_tensor("blk.1.ffn_down_shexp.weight"));
    CHECK_FALSE(is_expert_tensor("blk.1.ffn_down.weight"));

    const Json json = Json::parse(inspect_json(file));
    CHECK(json.at("parameters").at("active") == count.active);
    CHECK(json.at("files").size() == 3);
    CHECK(json.at("files")[2].at("tensors") == 1);
    CHECK(json.at("tensors").size() == 9);
    CHECK(json.at("tensors")[0].at("shape") == Json::array({64, 64}));
    CHECK(json.at("metadata").at("test.i64") == std::numeric_limits<int64_t>::min());
    CHECK(json.at("metadata").at("test.bools") == Json::array({true, false, true}));
    CHECK(json.at("metadata").at("test.nested") == Json::parse("[[1,2],[3]]"));
    CHECK(json.at("metadata").at("tokenizer.ggml.tokens").at("count") == 64);
    uint64_t bytes = 0;
    for (const Json& use : json.at("types")) {
        bytes += use.at("bytes").get<uint64_t>();
        if (use.at("type") == "Q4_0") CHECK(use.at("bits_per_weight") == 4.5);
    }
    uint64_t tensor_bytes = 0;
    for (const Tensor& tensor : file.tensors()) tensor_bytes += tensor.bytes;
    CHECK(bytes == tensor_bytes);

    const std::string text = inspect_text(file);
    CHECK(text.find("parameters: 33285 (33285), active for a token: 14853 (14853)") != std::string::npos);
    CHECK(text.find("1 of 4 experts") != std::string::npos);
    CHECK(text.find("blk.0.ffn_down_exps.weight  Q5_0") != std::string::npos);
    CHECK(text.find("64 in all]") != std::string::npos);
    CHECK(text.find("a small mixture \u00e9\u4e2d\U0001f600") != std::string::npos);
}

TEST_CASE("text from a file cannot steer a terminal or break characters") {
    CHECK(printable("a\nb\tc") == "a\\nb\\tc");
    CHECK(printable("\x1b[31m") == "\\x1b[31m");
    CHECK(printable("\xc2\x9b"
                    "31m") == "\\xc2\\x9b31m");
    CHECK(printable("\xff\xc3") == "\\xff\\xc3");
    CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");
    CHECK(printable("\u4e2d\u6587", 4) == "\u4e2d...");
    CHECK(printable("abc", 3) == "abc");
}
