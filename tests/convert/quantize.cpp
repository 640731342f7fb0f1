// Quantising a file: types as the recipe says, weights as close as the reference quantiser's, everything else
// kept.
#include "convert/quantize.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <vector>

#include "base/failure.h"
#include "catch.h"
#include "files.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "quant/decode.h"

using namespace coterie;
using quant::Recipe;

namespace {

const std::string golden = std::string(TEST_DATA) + "/golden/llamacpp/";

std::vector<float> floats_of(const gguf::Tensor& tensor) {
    std::vector<float> out(tensor.elements());
    quant::decode(tensor.type, tensor.data, out.data(), int64_t(out.size()));
    return out;
}

double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
    double error = 0, size = 0;
    for (size_t i = 0; i < want.size(); ++i) {
        error += (double(got[i]) - want[i]) * (double(got[i]) - want[i]);
        size += double(want[i]) * want[i];
    }
    return error / size;
}

Status status_of(const auto& run) {
    try {
        run();
    } catch (const Failure& failure) {
        return failure.status();
    }
    return Status::ok;
}

}  // namespace

TEST_CASE("an F32 model becomes Q8_0 as the reference made it") {
    const TemporaryFolder folder;
    const std::string out = folder / "q8.gguf";
    std::vector<uint64_t> seen;
    const auto summary =
        convert::quantize(golden + "nano-qwen3moe-f32.gguf", out, {.recipe = Recipe::Q8_0, .threads = 2},
                          [&](const char*, uint64_t done, uint64_t total) {
                              CHECK(done <= total);
                              seen.push_back(done);
                              return true;
                          });
    CHECK(folder.files() == 1);
    REQUIRE(seen.size() > 2);
    CHECK(seen.front() == 0);
    CHECK(std::is_sorted(seen.begin(), seen.end()));
    CHECK(seen.back() == summary.bytes_before);

    const gguf::File before = gguf::File::open(golden + "nano-qwen3moe-f32.gguf"),
                     after = gguf::File::open(out),
                     reference = gguf::File::open(golden + "nano-qwen3moe-q8_0.gguf");
    REQUIRE(after.tensors().size() == before.tensors().size());
    CHECK(summary.tensors == before.tensors().size());
    uint64_t changed = 0;
    for (const gguf::Tensor& tensor : after.tensors()) {
        const gguf::Tensor* theirs = reference.find_tensor(tensor.name);
        const gguf::Tensor* source = before.find_tensor(tensor.name);
        REQUIRE(theirs);
        REQUIRE(source);
        INFO(tensor.name);
        CHECK(type_name(tensor.type) == type_name(theirs->type));
        CHECK(tensor.shape == source->shape);
        changed += tensor.type != source->type;
        const double ours = relative_error(floats_of(tensor), floats_of(*source));
        CHECK(ours <= 1.02 * relative_error(floats_of(*theirs), floats_of(*source)));
    }
    CHECK(summary.tensors_changed == changed);
    CHECK(changed > 10);
    CHECK(after.get_uint("general.file_type") == 7);
    CHECK(after.get_uint("general.quantization_version") == 2);
    for (const gguf::Entry& entry : before.metadata()) {
        if (entry.key == "general.file_type" || entry.key == "general.quantization_version") continue;
        const gguf::Value* value = after.find(entry.key);
        INFO(entry.key);
        REQUIRE(value);
        CHECK(value->type() == entry.value.type());
        REQUIRE(value->bytes().size() == entry.value.bytes().size());
        CHECK(std::memcmp(value->bytes().data(), entry.value.bytes().data(), value->bytes().size()) == 0);
    }
}

TEST_CASE("the number of threads does not change a byte") {
    const TemporaryFolder folder;
    std::vector<std::string> contents;
    for (const int threads : {1, 3}) {
        const std::string out = folder / "out.gguf";
        convert::quantize(golden + "nano-llama-f16.gguf", out, {.recipe = Recipe::Q5_0, .threads = threads});
        std::ifstream file(out, std::ios::binary);
        contents.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    CHECK(contents[0].size() > 100000);
    CHECK(contents[0] == contents[1]);
}

TEST_CASE("a tensor larger than a batch is converted whole") {
    const TemporaryFolder folder;
    const uint64_t shape[] = {2880,
                              3001};  // 8.6 M weights: two batches and a rest; rows of 2880 fall back to Q5_0
    std::vector<float> in(shape[0] * shape[1]);
    uint32_t state = 1;
    for (float& f : in) f = float(int32_t(state = state * 1664525 + 1013904223)) * 0x1p-31f;
    {
        gguf::Writer writer(folder / "in.gguf");
        writer.set("general.architecture", "llama");
        writer.add_tensor("blk.0.attn_q.weight", Type::F32, shape);
        writer.append(std::as_bytes(std::span(in)));
        writer.finish();
    }
    const auto summary = convert::quantize(folder / "in.gguf", folder / "out.gguf", {.threads = 2});
    const gguf::File out = gguf::File::open(folder / "out.gguf");
    REQUIRE(out.tensors().size() == 1);
    CHECK(out.tensors()[0].type == Type::Q5_0);
    CHECK(summary.bytes_after == in.size() / 32 * 22);
    const std::vector<float> back = floats_of(out.tensors()[0]);
    float worst = 0;
    for (size_t i = 0; i < in.size(); ++i) worst = std::max(worst, std::abs(in[i] - back[i]));
    CHECK(worst < 0.1f);  // a step is 1/16 of the largest value, which is at most 1
    CHECK(worst > 0.01f);
}

TEST_CASE("low-bit weights are not quantised again unless asked for") {
    const TemporaryFolder folder;
    const std::string in = golden + "tiny-qwen3-q4_k_m.gguf";
    const auto run = [&](convert::QuantizeOptions options) {
        convert::quantize(in, folder / "out.gguf", options);
    };
    try {
        run({.recipe = Recipe::Q8_0});
        FAIL("requantised");
    } catch (const Failure& failure) {
        CHECK(failure.status() == Status::invalid_argument);
        CHECK(failure.message().find("already quantised") != std::string::npos);
    }
    CHECK(folder.files() == 0);
    run({.recipe = Recipe::Q4_K_M});  // every tensor has its type already: copied
    const gguf::File a = gguf::File::open(in), b = gguf::File::open(folder / "out.gguf");
    for (const gguf::Tensor& tensor : a.tensors())
        CHECK(std::memcmp(tensor.data, b.find_tensor(tensor.name)->data, tensor.bytes) == 0);
    run({.recipe = Recipe::F16});  // back to floats loses nothing worth a refusal
    run({.recipe = Recipe::Q8_0, .allow_requantise = true});
    CHECK(gguf::File::open(folder / "out.gguf").find_tensor("blk.0.attn_q.weight")->type == Type::Q8_0);
}

TEST_CASE("what goes wrong leaves no file behind and says why") {
    const TemporaryFolder folder;
    const std::string in = golden + "nano-llama-f32.gguf", out = folder / "out.gguf";
    CHECK(status_of([&] { convert::quantize(folder / "nothing.gguf", out); }) == Status::not_found);
    CHECK(status_of([&] { convert::quantize(in, in); }) == Status::invalid_argument);
    int calls = 0;
    const auto cancel = [&](const char*, uint64_t, uint64_t) { return ++calls < 5; };
    CHECK(status_of([&] { convert::quantize(in, out, {}, cancel); }) == Status::cancelled);
    CHECK(calls == 5);
    CHECK(folder.files() == 0);

    const uint64_t shape[] = {256, 4};
    std::vector<float> bad(1024, 0.5f);
    bad[700] = NAN;
    gguf::Writer writer(folder / "nan.gguf");
    writer.set("general.architecture", "llama");
    writer.add_tensor("blk.0.attn_q.weight", Type::F32, shape);
    writer.append(std::as_bytes(std::span(bad)));
    writer.finish();
    try {
        convert::quantize(folder / "nan.gguf", out);
        FAIL("quantised a NaN");
    } catch (const Failure& failure) {
        CHECK(failure.status() == Status::bad_model);
        CHECK(failure.message().find("blk.0.attn_q.weight") != std::string::npos);
        CHECK(failure.message().find("700") != std::string::npos);
    }
    CHECK(folder.files() == 1);
}
