// Synthetic models: readable by Model, sized like the published files, alive when run, the same for the same
// seed.
#include "convert/synth.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include "base/failure.h"
#include "catch.h"
#include "files.h"
#include "greedy.h"
#include "model/model.h"
#include "quant/decode.h"
#include "quant/scan.h"

using namespace coterie;
using quant::Recipe;

namespace {

// Small enough to run, of every architecture that can be run.
convert::ModelShape small(const char* name) {
    convert::ModelShape s = convert::preset(name);
    s.layers = s.has_delta_net() ? 4 : 2;
    s.embedding = 256;
    s.heads = 4;
    s.kv_heads = 2;
    s.head_dim = 64;
    s.vocabulary = 700;
    s.context = 512;
    if (s.feed_forward) s.feed_forward = 512;
    if (s.experts) {
        s.experts = 8;
        s.experts_used = 2;
        s.expert_feed_forward = s.architecture == "llama" ? s.feed_forward : 256;
    }
    if (s.shared_feed_forward) s.shared_feed_forward = 256;
    if (s.rope_dimensions) s.rope_dimensions = 32;
    s.key_heads = 2;
    s.value_heads = 4;
    s.state_dim = 64;
    return s;
}

uint64_t bytes_on_disk(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? uint64_t(status.st_blocks) * 512 : ~uint64_t(0);
}

}  // namespace

TEST_CASE("every preset is a model of its true size and takes no room as a header") {
    const TemporaryFolder folder;
    for (const std::string& name : convert::preset_names()) {
        INFO(name);
        const std::string path = folder / name;
        const uint64_t bytes = convert::synth(convert::preset(name), path, {.header_only = true});
        const auto model = Model::open(path);
        CHECK(model->file().total_bytes() > bytes);
        CHECK(model->weight_bytes() >
              bytes - bytes / 1000);  // the model uses all that is there, but for padding
        CHECK(model->weight_bytes() <= bytes);
        CHECK(bytes_on_disk(path) < uint64_t(64) << 20);
        CHECK(model->numbers().vocabulary == convert::preset(name).vocabulary);
    }
}

TEST_CASE("sizes are those of published files") {
    const TemporaryFolder folder;
    const auto parameters = [&](const char* name) {
        uint64_t n = 0;
        for (const convert::ShapeTensor& t : convert::shape_tensors(convert::preset(name))) {
            uint64_t elements = 1;
            for (const uint64_t extent : t.shape) elements *= extent;
            n += elements;
        }
        return double(n) * 1e-9;
    };
    // As the model cards count them.
    CHECK(parameters("qwen3-30b") == Approx(30.53).epsilon(0.001));
    CHECK(parameters("qwen3-235b") == Approx(235.09).epsilon(0.001));
    CHECK(parameters("qwen3-8b") == Approx(8.19).epsilon(0.001));
    CHECK(parameters("llama3-8b") == Approx(8.03).epsilon(0.001));
    CHECK(parameters("mixtral-8x7b") == Approx(46.70).epsilon(0.001));
    CHECK(parameters("gpt-oss-20b") == Approx(20.91).epsilon(0.001));
    CHECK(parameters("gpt-oss-120b") == Approx(116.83).epsilon(0.001));
    CHECK(parameters("flash-next") == Approx(176.9).epsilon(0.001));
    // Flash-Next as Q4_K_M: 119.1 GB, of which the n-gram table is 33,569.5 MiB; 1224 tensors.
    const std::string path = folder / "flash";
    const uint64_t bytes = convert::synth(convert::preset("flash-next"), path, {.header_only = true});
    CHECK(double(bytes) * 1e-9 == Approx(119.1).epsilon(0.001));
    const gguf::File file = gguf::File::open(path);
    CHECK(file.tensors().size() == 1224);
    CHECK(double(file.find_tensor("per_layer_token_embd.weight")->bytes) / 1048576.0 ==
          Approx(33569.5).epsilon(1e-5));
    CHECK(file.get_ints("qwen4exp.ple.head_offsets")->back() == 300001275);
    CHECK(file.get_ints("qwen4exp.ple.head_offsets")->at(1) == 20000003);
    CHECK(file.get_ints("qwen4exp.rope.dimension_sections") == std::vector<int64_t>{11, 11, 10, 0});
    CHECK(file.find_tensor("blk.3.indexer.k_proj.weight")->type == Type::BF16);
}

TEST_CASE("a synthetic model runs: finite logits, tokens that differ") {
    const TemporaryFolder folder;
    for (const char* name : {"qwen3-0.6b", "qwen3-30b", "qwen3.5-35b", "qwen3-next-80b", "llama3-8b",
                             "mixtral-8x7b", "gpt-oss-20b"}) {
        INFO(name);
        convert::synth(small(name), folder / "model.gguf");
        const Greedy a = run_greedy(folder / "model.gguf", {3, 99, 500}, 6);
        const Greedy b = run_greedy(folder / "model.gguf", {410, 7, 12}, 1);
        double square = 0;
        for (const float logit : a.logits) square += double(logit) * logit;
        square /= double(a.logits.size());
        CHECK(std::isfinite(square));
        CHECK(square > 0.05);
        CHECK(square < 50);
        CHECK(a.logits != b.logits);
    }
}

TEST_CASE("weights have the statistics of a trained model's and no bad block") {
    const TemporaryFolder folder;
    convert::synth(small("qwen3.5-35b"), folder / "model.gguf");
    const gguf::File file = gguf::File::open(folder / "model.gguf");
    std::set<Type> types;
    for (const gguf::Tensor& tensor : file.tensors()) {
        INFO(tensor.name);
        types.insert(tensor.type);
        std::vector<float> w(tensor.elements());
        quant::decode(tensor.type, tensor.data, w.data(), int64_t(w.size()));
        CHECK(quant::first_bad_block(tensor.type, tensor.data,
                                     int64_t(tensor.elements()) / traits(tensor.type).block_elements) == -1);
        double mean = 0, square = 0;
        for (const float f : w) mean += f;
        mean /= double(w.size());
        for (const float f : w) square += (f - mean) * (f - mean);
        const double deviation = std::sqrt(square / double(w.size()));
        if (tensor.name.find("norm") != std::string::npos) {
            CHECK(mean == Approx(1).epsilon(0.1));
        } else if (tensor.name.ends_with("ssm_a")) {
            CHECK(*std::max_element(w.begin(), w.end()) < 0);
        } else if (tensor.dimensions > 1 && tensor.name.find("conv1d") == std::string::npos) {
            CHECK(deviation == Approx(1 / std::sqrt(double(tensor.shape[0]))).epsilon(0.1));
            // Rows differ from each other.
            CHECK(std::memcmp(tensor.data, tensor.data + row_bytes(tensor.type, tensor.shape[0]), 64) != 0);
        }
    }
    CHECK(types == std::set<Type>{Type::F32, Type::Q4_K, Type::Q6_K, Type::Q8_0, Type::Q5_K});
}

TEST_CASE("Flash-Next can be written too, with a small n-gram table") {
    const TemporaryFolder folder;
    convert::ModelShape shape = small("flash-next");
    shape.ngram_rows = 4096;
    shape.low_rank = 64;
    convert::synth(shape, folder / "model.gguf");
    const gguf::File file = gguf::File::open(folder / "model.gguf");
    std::set<Type> types;
    for (const gguf::Tensor& tensor : file.tensors()) {
        INFO(tensor.name);
        types.insert(tensor.type);
        CHECK(quant::first_bad_block(tensor.type, tensor.data,
                                     int64_t(tensor.elements()) / traits(tensor.type).block_elements) == -1);
        const auto bytes = tensor.contents();
        CHECK(std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; }));
    }
    CHECK(types.count(Type::Q5_0));  // rows of 64 and 160
    CHECK(types.count(Type::BF16));
    CHECK(types.count(Type::F16));
    const auto sizes = *file.get_ints("qwen4exp.ple.head_vocab_sizes"),
               offsets = *file.get_ints("qwen4exp.ple.head_offsets");
    CHECK(offsets.back() + sizes.back() <= 4096);
}

TEST_CASE("the same seed gives the same file") {
    const TemporaryFolder folder;
    const auto contents = [&](uint64_t seed, Recipe recipe) {
        convert::synth(small("gpt-oss-20b"), folder / "model.gguf", {.recipe = recipe, .seed = seed});
        std::ifstream file(folder / "model.gguf", std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    };
    const std::string first = contents(1, Recipe::MXFP4_MOE);
    CHECK(first == contents(1, Recipe::MXFP4_MOE));
    CHECK(first != contents(2, Recipe::MXFP4_MOE));
    CHECK(first.size() != contents(1, Recipe::Q4_0).size());
}

TEST_CASE("the vocabulary has the wanted size, distinct tokens, and merges that lead to every one") {
    const TemporaryFolder folder;
    for (const char* name : {"qwen3-0.6b", "qwen3.5-35b", "gpt-oss-20b"}) {
        const convert::ModelShape shape = convert::preset(name);
        convert::synth(shape, folder / "model.gguf", {.header_only = true});
        const gguf::File file = gguf::File::open(folder / "model.gguf");
        const auto tokens = *file.get_strings("tokenizer.ggml.tokens");
        const auto merges = *file.get_strings("tokenizer.ggml.merges");
        const auto types = *file.get_ints("tokenizer.ggml.token_type");
        INFO(name);
        REQUIRE(tokens.size() == size_t(shape.vocabulary));
        REQUIRE(types.size() == tokens.size());
        const std::set<std::string_view> distinct(tokens.begin(), tokens.end());
        CHECK(distinct.size() == tokens.size());
        CHECK(merges.size() == tokens.size() - 256 - shape.special_tokens.size());
        bool lead_to_tokens = true;
        for (const std::string_view merge : merges) {
            std::string joined(merge);
            const size_t space = joined.find(' ');
            lead_to_tokens &= space != std::string::npos && distinct.count(joined.substr(0, space)) == 1;
            joined.erase(space, 1);
            lead_to_tokens &= distinct.count(joined) == 1;
        }
        CHECK(lead_to_tokens);
        for (const auto& [id, text] : shape.special_tokens) {
            CHECK(tokens[size_t(id)] == text);
            CHECK(types[size_t(id)] == 3);
        }
        CHECK(file.get_uint("tokenizer.ggml.eos_token_id") == uint64_t(shape.eos));
    }
    const gguf::File little = [&] {
        convert::synth(small("qwen3-0.6b"), folder / "little.gguf");
        return gguf::File::open(folder / "little.gguf");
    }();
    CHECK(little.get_strings("tokenizer.ggml.tokens")->at(699) == "<|im_end|>");
    CHECK(little.get_uint("tokenizer.ggml.eos_token_id") == 699);
}

TEST_CASE("impossible shapes and unknown names are refused; cancelling leaves nothing") {
    const TemporaryFolder folder;
    CHECK_THROWS_AS(convert::preset("qwen5"), Failure);
    convert::ModelShape bad = small("qwen3-30b");
    bad.kv_heads = 3;
    CHECK_THROWS_AS(convert::synth(bad, folder / "x"), Failure);
    bad = small("qwen3-30b");
    bad.architecture = "gpt2";
    CHECK_THROWS_AS(convert::synth(bad, folder / "x"), Failure);
    bad = small("mixtral-8x7b");
    bad.expert_feed_forward = 256;
    CHECK_THROWS_AS(convert::synth(bad, folder / "x"), Failure);
    bad = small("qwen3-30b");
    bad.vocabulary = 100;
    CHECK_THROWS_AS(convert::synth(bad, folder / "x"), Failure);
    int calls = 0;
    CHECK_THROWS_AS(convert::synth(small("qwen3-30b"), folder / "x", {},
                                   [&](const char*, uint64_t, uint64_t) { return ++calls < 4; }),
                    Failure);
    CHECK(folder.files() == 0);
}
