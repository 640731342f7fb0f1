// An upcycled model must say what the dense one says, whatever the router chooses.
#include "convert/upcycle.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/failure.h"
#include "catch.h"
#include "files.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "greedy.h"

using namespace coterie;

namespace {

const std::string golden = std::string(TEST_DATA) + "/golden/llamacpp/";
const std::vector<int32_t> prompt = {5, 81, 130, 7, 7, 200, 43};

void check_same(const std::string& dense, const std::string& sparse) {
    const Greedy want = run_greedy(dense, prompt, 16), got = run_greedy(sparse, prompt, 16);
    CHECK(got.tokens == want.tokens);
    REQUIRE(got.logits.size() == want.logits.size());
    float worst = 0, size = 0;
    for (size_t i = 0; i < want.logits.size(); ++i) {
        worst = std::max(worst, std::abs(got.logits[i] - want.logits[i]));
        size = std::max(size, std::abs(want.logits[i]));
    }
    CHECK(worst <= 2e-5f * size);
}

// A qwen2 model out of a qwen3 one: no head norms, biases on q, k and v.
void make_qwen2(const std::string& qwen3_path, const std::string& path) {
    const gguf::File file = gguf::File::open(qwen3_path);
    gguf::Writer writer(path);
    for (const gguf::Entry& entry : file.metadata()) {
        const std::string key(entry.key);
        writer.set(key.starts_with("qwen3.") ? "qwen2." + key.substr(6) : key, entry.value);
    }
    writer.set("general.architecture", "qwen2");
    std::vector<std::vector<float>> biases;
    std::vector<std::span<const std::byte>> contents;
    for (const gguf::Tensor& tensor : file.tensors()) {
        if (tensor.name.find("_q_norm") != std::string::npos ||
            tensor.name.find("_k_norm") != std::string::npos)
            continue;
        writer.add_tensor(tensor.name, tensor.type, std::span(tensor.shape).first(size_t(tensor.dimensions)));
        contents.push_back(tensor.contents());
        for (const char* part : {"attn_q.", "attn_k.", "attn_v."}) {
            const size_t at = tensor.name.find(part);
            if (at == std::string::npos) continue;
            std::vector<float> bias(tensor.shape[1]);
            for (size_t i = 0; i < bias.size(); ++i) bias[i] = 0.1f * float(int(i % 7) - 3);
            writer.add_tensor(tensor.name.substr(0, at) + part + "bias", Type::F32,
                              std::vector<uint64_t>{bias.size()});
            biases.push_back(std::move(bias));
            contents.push_back({});
        }
    }
    size_t next = 0;
    for (const auto& bytes : contents)
        writer.append(bytes.empty() ? std::as_bytes(std::span(biases[next++])) : bytes);
    writer.finish();
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

TEST_CASE("llama becomes a mixture that gives the same tokens") {
    const TemporaryFolder folder;
    for (const auto& [experts, used] : {std::pair{8, 2}, {3, 3}, {5, 1}}) {
        convert::upcycle(golden + "nano-llama-f32.gguf", folder / "moe.gguf",
                         {.experts = experts, .used = used});
        check_same(golden + "nano-llama-f32.gguf", folder / "moe.gguf");
    }
    const gguf::File file = gguf::File::open(folder / "moe.gguf");
    CHECK(file.get_string("general.architecture") == "llama");
    CHECK(file.get_uint("llama.expert_count") == 5);
    CHECK(file.get_uint("llama.expert_used_count") == 1);
    const gguf::File dense = gguf::File::open(golden + "nano-llama-f32.gguf");
    const gguf::Tensor *one = dense.find_tensor("blk.1.ffn_down.weight"),
                       *all = file.find_tensor("blk.1.ffn_down_exps.weight");
    REQUIRE(one);
    REQUIRE(all);
    CHECK(file.find_tensor("blk.1.ffn_down.weight") == nullptr);
    CHECK(all->shape == std::array<uint64_t, 4>{one->shape[0], one->shape[1], 5, 1});
    for (size_t e = 0; e < 5; ++e) CHECK(std::memcmp(all->data + e * one->bytes, one->data, one->bytes) == 0);
}

TEST_CASE("qwen3 becomes qwen3moe, quantised weights copied as they are") {
    const TemporaryFolder folder;
    for (const char* name : {"nano-qwen3-f32.gguf", "tiny-qwen3-q4_k_m.gguf"}) {
        INFO(name);
        convert::upcycle(golden + name, folder / "moe.gguf", {.experts = 6, .used = 2, .seed = 9});
        check_same(golden + name, folder / "moe.gguf");
    }
    const gguf::File file = gguf::File::open(folder / "moe.gguf");
    CHECK(file.get_string("general.architecture") == "qwen3moe");
    CHECK(file.get_uint("qwen3moe.expert_feed_forward_length") == 512);
    CHECK_FALSE(file.find("qwen3.block_count"));
    CHECK(file.get_uint("qwen3moe.block_count") == 2);
    const gguf::Tensor* router = file.find_tensor("blk.0.ffn_gate_inp.weight");
    REQUIRE(router);
    CHECK(router->type == Type::F32);
    CHECK(file.find_tensor("blk.1.ffn_down_exps.weight")->type == Type::Q6_K);
    // The router is alive: about unit logits for unit inputs.
    double square = 0;
    for (uint64_t i = 0; i < router->elements(); ++i) {
        float f;
        std::memcpy(&f, router->data + 4 * i, 4);
        square += double(f) * f;
    }
    CHECK(square / 6 == Approx(1.0).epsilon(0.3));
}

TEST_CASE("qwen2 becomes qwen2moe when all experts are used") {
    const TemporaryFolder folder;
    make_qwen2(golden + "nano-qwen3-f32.gguf", folder / "qwen2.gguf");
    convert::upcycle(folder / "qwen2.gguf", folder / "moe.gguf", {.experts = 4, .used = 4});
    check_same(folder / "qwen2.gguf", folder / "moe.gguf");
    CHECK(gguf::File::open(folder / "moe.gguf").get_string("general.architecture") == "qwen2moe");
    CHECK(gguf::File::open(folder / "moe.gguf").find_tensor("output.weight"));
    try {
        convert::upcycle(folder / "qwen2.gguf", folder / "other.gguf", {.experts = 4, .used = 2});
        FAIL("upcycled inexactly");
    } catch (const Failure& failure) {
        CHECK(failure.status() == Status::invalid_argument);
        CHECK(failure.message().find("sum to one") != std::string::npos);
    }
    CHECK(folder.files() == 2);
}

TEST_CASE("a seed gives a file, another seed another router") {
    const TemporaryFolder folder;
    const auto router = [&](uint64_t seed) {
        convert::upcycle(golden + "nano-llama-f16.gguf", folder / "moe.gguf", {.seed = seed});
        const gguf::File file = gguf::File::open(folder / "moe.gguf");
        const auto bytes = file.find_tensor("blk.0.ffn_gate_inp.weight")->contents();
        return std::vector<std::byte>(bytes.begin(), bytes.end());
    };
    const auto first = router(1);
    CHECK(first == router(1));
    CHECK(first != router(2));
}

TEST_CASE("what can't be upcycled is refused and leaves no file behind") {
    const TemporaryFolder folder;
    const std::string dense = golden + "nano-llama-f32.gguf", out = folder / "out.gguf";
    const auto run = [&](const std::string& path, convert::UpcycleOptions options) {
        return status_of([&] { convert::upcycle(path, out, options); });
    };
    CHECK(run(golden + "nano-qwen3moe-f32.gguf", {}) == Status::unsupported);
    CHECK(run(golden + "nano-qwen35moe-f32.gguf", {}) == Status::unsupported);
    CHECK(run(dense, {.experts = 4, .used = 5}) == Status::invalid_argument);
    CHECK(run(dense, {.experts = 0, .used = 0}) == Status::invalid_argument);
    CHECK(run(folder / "nothing.gguf", {}) == Status::not_found);
    int calls = 0;
    CHECK(status_of([&] {
              convert::upcycle(dense, out, {}, [&](const char*, uint64_t, uint64_t) { return ++calls < 3; });
          }) == Status::cancelled);
    CHECK(folder.files() == 0);
    // A llama file that is a mixture already.
    convert::upcycle(dense, folder / "moe.gguf");
    CHECK(run(folder / "moe.gguf", {}) == Status::unsupported);
    CHECK(folder.files() == 1);
}
