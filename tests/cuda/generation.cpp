// Whole tiny models behind the scheduler on an emulated GPU: prompts that begin alike, arrive while others
// decode and are computed in mixed steps, recorded and replayed; each answer is what the CPU gives alone.
#include <emulated_cuda.h>
#include <fake_runtime.h>

#include "catch.h"
#include "cuda/cuda_device.h"
#include "stage.h"

using namespace coterie;

namespace {

std::unique_ptr<Device> emulated() {
    return std::make_unique<cuda::CudaDevice>();
}
// The same, with no best logits.
class Whole final : public cuda::CudaDevice {
  public:
    int32_t most_ranked() const override { return 0; }
};
std::unique_ptr<Device> whole_rows() {
    return std::make_unique<Whole>();
}

void check_no_problems() {
    for (const std::string& problem : fake::problems()) FAIL_CHECK(problem);
    CHECK(fake::leaks().none());
}

}  // namespace

TEST_CASE("mixed steps, prefix hits and graphs: every architecture says what the CPU says", "[generation]") {
    int machine_number = 0;
    for (const std::string& name : golden::names("")) {
        CAPTURE(name);
        fake::Machine machine;
        machine.major = 7 + machine_number++ % 3;
        fake::reset(machine);
        const uint64_t graphs = fake::calls("cudaGraphLaunch");
        {
            stage::Shape shape;
            shape.device = emulated;
            stage::Stage s(name, shape);
            stage::Oracle oracle(name);
            std::mt19937 random(7);
            std::vector<std::vector<int32_t>> prompts = {s.random_tokens(27, random)};
            for (const size_t more : {12u, 3u}) {  // after the whole pages of the first prompt
                prompts.emplace_back(prompts[0].begin(), prompts[0].begin() + 24);
                const std::vector<int32_t> rest = s.random_tokens(more, random);
                prompts.back().insert(prompts.back().end(), rest.begin(), rest.end());
            }
            std::vector<std::shared_ptr<Generation>> all;
            constexpr int64_t wanted = 8;
            for (const auto& prompt : prompts) {
                all.push_back(s.submit(s.greedy(prompt, wanted)));
                s.step(), s.step();  // the next one meets an answer
            }
            s.run();
            for (size_t i = 0; i < all.size(); ++i) {
                CAPTURE(i);
                const std::vector<int32_t> got = stage::take(*all[i]);
                CHECK(int64_t(got.size()) == wanted);
                CHECK(stage::compare(got, oracle.answer(prompts[i], wanted)) >= 0);
                CHECK((all[i]->statistics().cached_tokens > 0) == (i > 0));
            }
        }
        CHECK(fake::calls("cudaGraphLaunch") > graphs);
        check_no_problems();
    }
    fake::reset({});
}

TEST_CASE("only the best logits leave the GPU, and the same tokens come of them", "[generation]") {
    fake::reset({});
    const auto answers = [](golden::DeviceMaker device) {
        stage::Shape shape;
        shape.device = device;
        shape.drafts = 2;
        stage::Stage s("qwen3moe", shape);
        std::mt19937 random(11);
        const std::vector<int32_t> prompt = s.random_tokens(9, random);
        std::vector<std::shared_ptr<Generation>> all;
        for (int i = 0; i < 4; ++i) {
            GenerationRequest request = s.greedy(prompt, 10);
            request.sampling.temperature = i == 0 ? 0.0f : 1.5f;
            request.sampling.top_k = i == 2 ? 20 : 40;
            request.sampling.seed = uint64_t(i);
            if (i == 2) request.sampling.repeat_penalty = 1.3f;
            all.push_back(s.submit(std::move(request)));
        }
        std::vector<std::vector<int32_t>> tokens;
        s.run();
        for (const auto& generation : all) tokens.push_back(stage::take(*generation));
        // One that reports probabilities needs the whole row; its neighbour does not.
        GenerationRequest request = s.greedy(prompt, 3);
        request.logprobs = request.sampling.logprobs = 2;
        auto reported = s.submit(std::move(request));
        auto beside = s.submit(s.greedy(prompt, 3));
        s.run();
        tokens.push_back(stage::take(*reported));
        tokens.push_back(stage::take(*beside));
        CHECK(tokens[4] == tokens[5]);
        return tokens;
    };
    const uint64_t before = fake::bytes_to_host();
    const auto few = answers(emulated);
    const uint64_t between = fake::bytes_to_host();
    CHECK(few == answers(whole_rows));
    CHECK(between - before < fake::bytes_to_host() - between);
    check_no_problems();
}
