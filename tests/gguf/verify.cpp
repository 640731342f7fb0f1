// Damage planted in weights is found where it is, and nowhere else.
#include "gguf/verify.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "bytes.h"
#include "catch.h"

using namespace coterie;
using namespace coterie::gguf;
using gguf_test::Bytes;
using gguf_test::Folder;

namespace {

// An F32 [8, 4], a Q8_0 [64, 3 * many] (more than one piece of the scan) and an F32 [8] of zeros.
struct Weights {
    static constexpr uint64_t rows = 3 * 30000;
    std::vector<float> floats = std::vector<float>(32, 1.0f);
    std::vector<uint16_t> scales = std::vector<uint16_t>(rows * 2, 0x3c00);
    std::string file() const {
        Bytes b;
        b.head(3, 3, 0);
        b.tensor("floats", {8, 4}, 0, 0)
            .tensor("blocks", {64, rows}, 8, 128)
            .tensor("zeros", {8}, 0, 128 + rows * 2 * 34)
            .pad(32);
        for (const float f : floats) b.number(f);
        for (const uint16_t scale : scales) b.number(scale).data.append(32, '\x7f');
        b.data.append(32, '\0');
        return b.data;
    }
};

}  // namespace

TEST_CASE("whole weights pass, and a tensor of zeros is a warning") {
    Folder folder;
    const File file = File::open(folder.add("m.gguf", Weights().file()));
    for (const int threads : {1, 3}) {
        uint64_t last = 0;
        bool growing = true;
        const Verification result = verify(file, threads, [&](const char*, uint64_t done, uint64_t) {
            growing = growing && done >= last;
            last = done;
            return true;
        });
        CHECK(result.ok());
        CHECK(result.tensors == 3);
        CHECK(result.blocks == 32 + Weights::rows * 2 + 8);
        CHECK(result.bytes == 128 + Weights::rows * 68 + 32);
        CHECK(result.zero == std::vector<std::string>{"zeros"});
        CHECK(growing);
        CHECK(last == result.bytes);
        CHECK(verification_text(file, result).find("'zeros' is all zeros") != std::string::npos);
    }
}

TEST_CASE("scales that are not finite are found with tensor, block and row") {
    Folder folder;
    Weights weights;
    weights.floats[19] = std::numeric_limits<float>::quiet_NaN();
    weights.floats[30] = std::numeric_limits<float>::infinity();
    // In a late piece first, then an earlier one: the first of the tensor is reported.
    weights.scales[150001] = 0x7c00;
    weights.scales[131073] = 0xfe00;
    const File file = File::open(folder.add("m.gguf", weights.file()));
    for (const int threads : {1, 3}) {
        const Verification result = verify(file, threads);
        REQUIRE(result.bad.size() == 2);
        CHECK_FALSE(result.ok());
        CHECK(result.bad[0].name == "floats");
        CHECK(result.bad[0].block == 19);
        CHECK(result.bad[0].row == 2);
        CHECK(result.bad[1].name == "blocks");
        CHECK(result.bad[1].block == 131073);
        CHECK(result.bad[1].row == 65536);
        CHECK(result.bad[1].offset == file.find_tensor("blocks")->offset + 131073 * 34);
        const auto json = nlohmann::json::parse(verification_json(file, result));
        CHECK(json.at("ok") == false);
        CHECK(json.at("bad")[1].at("row") == 65536);
        CHECK(verification_text(file, result).find("'blocks' (Q8_0), block 131073 in row 65536") !=
              std::string::npos);
    }
}

TEST_CASE("verification can be cancelled") {
    Folder folder;
    const File file = File::open(folder.add("m.gguf", Weights().file()));
    Status status = Status::ok;
    try {
        verify(file, 2, [](const char*, uint64_t, uint64_t) { return false; });
    } catch (const Failure& failure) {
        status = failure.status();
    }
    CHECK(status == Status::cancelled);
}
