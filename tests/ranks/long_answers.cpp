// 64 greedy tokens on 1, 2, 3, 4 and 7 CPU ranks, cut inside layers, by experts and between layers: the
// golden models of every architecture, and quantised mixtures of the widths that matter. Sums over ranks are
// taken in another order, so a token may differ where it won by less than rounding moves it, and only there.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "../convert/files.h"
#include "catch.h"
#include "convert/synth.h"
#include "convert/upcycle.h"
#include "device/cpu/cpu_device.h"
#include "model/golden.h"
#include "ranks.h"
#include "widths.h"

using namespace coterie;
using ranks::Way;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int tokens = 6;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr int tokens = 6;
#else
constexpr int tokens = 64;
#endif
#else
constexpr int tokens = 64;
#endif

std::unique_ptr<Device> fine_cpu() {
    CpuOptions options;
    options.threads = 1;
    options.fine = true;
    return std::make_unique<CpuDevice>(options);
}

struct Lone {
    ranks::Answer answer;
    std::vector<float> margins;  // by how much each token won
};

Lone alone(const std::shared_ptr<const Model>& model, const std::vector<int32_t>& prompt) {
    Lone lone;
    const int64_t vocabulary = model->numbers().vocabulary;
    lone.answer = ranks::answer(*ranks::make_runner(model, {}, fine_cpu), prompt, tokens);
    for (int64_t i = 0; i < tokens; ++i) {
        const float* row = lone.answer.logits.data() + (int64_t(prompt.size()) - 1 + i) * vocabulary;
        std::vector<float> best(2);
        std::partial_sort_copy(row, row + vocabulary, best.begin(), best.end(), std::greater<>());
        lone.margins.push_back(best[0] - best[1]);
    }
    return lone;
}

std::vector<Way> ways(const Hyperparameters& h) {
    std::vector<Way> all;
    for (const int n : {2, 3, 4, 7}) {
        all.push_back({Mode::tensor, n});
        if (h.has_experts()) all.push_back({Mode::expert, n});
        all.push_back({Mode::layer, n});
    }
    return all;
}

// Returns how many tokens are equal on all of them. One may differ only where it won by less than `narrow`.
int compare(const std::shared_ptr<const Model>& model, const std::vector<int32_t>& prompt, float narrow,
            double bound, const std::vector<Way>& all) {
    const Lone want = alone(model, prompt);
    int least = tokens;
    for (const Way& way : all) {
        CAPTURE(model->file().path(), ranks::name_of(way));
        const ranks::Answer got = ranks::answer(*ranks::make_runner(model, way, fine_cpu), prompt, tokens);
        const auto& right = want.answer.tokens;
        const int equal =
            int(std::mismatch(right.begin(), right.end(), got.tokens.begin()).first - right.begin());
        if (equal < tokens) CHECK(want.margins[size_t(equal)] < narrow);
        least = std::min(least, equal);
        const auto same_past = [&](std::vector<float> logits) {
            logits.resize((prompt.size() + size_t(equal)) * size_t(model->numbers().vocabulary));
            return logits;
        };
        CHECK(ranks::nmse(same_past(got.logits), same_past(want.answer.logits)) <= bound);
    }
    return least;
}

}  // namespace

TEST_CASE("64 greedy tokens of every architecture on any number of CPU ranks") {
    int equal = 0, all = 0;
    for (const std::string& name : golden::names("")) {
        const golden::Case c = golden::load(name);
        const auto model = Model::open(c.path);
        equal += compare(model, c.prompt, 1e-3f, 1e-9, ways(model->numbers()));
        all += tokens;
    }
    CHECK(equal * 10 >= all * 9);
}

TEST_CASE("64 greedy tokens of quantised mixtures on any number of CPU ranks") {
    const TemporaryFolder folder;
    int equal = 0, all = 0;
    for (const widths::Case& c : widths::cases()) {
        if (c.recipe == quant::Recipe::Q5_K_M || c.recipe == quant::Recipe::Q2_K) continue;
        CAPTURE(c.architecture, c.width, quant::recipe_name(c.recipe));
        const std::string path = folder / "model.gguf";
        convert::synth(widths::tiny(c.architecture, c.width), path, {.recipe = c.recipe});
        const auto model = Model::open(path);
        equal += compare(model, widths::prompt, 0.003f, 1e-5, ways(model->numbers()));
        all += tokens;
    }
    CHECK(equal * 10 >= all * 8);
}

TEST_CASE("64 greedy tokens of the model in the box on any number of CPU ranks") {
    const auto model = Model::open(SOURCE_ROOT "/share/models/coterie-box-qwen3moe.Q4_K_M.gguf");
    const std::vector<int32_t> prompt{5, 900, 77, 1200, 34, 35};
    CHECK(compare(model, prompt, 0.05f, 1e-5, ways(model->numbers())) * 4 >= tokens);
}

// The model of `./dev demo`, when it has been fetched. A few of the ways: it takes its time.
TEST_CASE("64 greedy tokens of SmolLM2 and the mixture made of it") {
    const char* given = std::getenv("COTERIE_DEMO_MODEL");
    const std::string dense = given ? given : SOURCE_ROOT "/.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (!std::filesystem::exists(dense)) {
        std::printf("skipped: %s is not there; ./dev demo fetches it\n", dense.c_str());
        return;
    }
    const TemporaryFolder folder;
    const std::string mixture = folder / "mixture.gguf";
    convert::upcycle(dense, mixture, {.experts = 8, .used = 2});
    const std::vector<int32_t> prompt{1, 4093, 198, 504, 1343, 282, 8, 3488, 314};
    CHECK(compare(Model::open(dense), prompt, 0.05f, 1e-5,
                  {{Mode::tensor, 2}, {Mode::tensor, 3}, {Mode::tensor, 7}, {Mode::layer, 4}}) *
              4 >=
          tokens);
    CHECK(compare(Model::open(mixture), prompt, 0.05f, 1e-5, {{Mode::tensor, 4}, {Mode::expert, 3}}) * 4 >=
          tokens);
}
