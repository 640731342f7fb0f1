// A scheduler on a tiny model with small pages and few of them, driven step by step; and the answer that the
// same prompt has alone, from a runner of its own without any scheduler.
#pragma once
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "engine/scheduler.h"
#include "model/golden.h"

namespace stage {

struct Shape {
    int32_t ranks = 1, sequences = 3, pages = 40, page_tokens = 8, checkpoints = 4, drafts = 0;
    int64_t context_tokens = 192, step_rows = 48, mixed_rows = 16, checkpoint_tokens = 32;
    bool reuse_prefixes = true;
    coterie::Type cache = coterie::Type::F32;
    golden::DeviceMaker device = nullptr;  // null: the CPU
    coterie::Drafter drafter = coterie::look_up_draft;
};

class Stage {
  public:
    Stage(const std::string& golden_name, const Shape& shape);

    coterie::Scheduler& scheduler() { return *scheduler_; }
    coterie::Runner& runner() { return *runner_; }
    const coterie::Model& model() const { return *model_; }
    const coterie::text::Tokenizer& tokenizer() const { return *tokenizer_; }
    coterie::GenerationRequest greedy(std::vector<int32_t> prompt, int64_t tokens) const;
    std::shared_ptr<coterie::Generation> submit(coterie::GenerationRequest request);
    std::shared_ptr<coterie::Generation> fork(const coterie::Generation& parent,
                                              coterie::GenerationRequest request);
    // A step, and the accounts checked after it.
    bool step();
    void run();  // until nothing is left
    std::vector<int32_t> random_tokens(size_t n, std::mt19937& random) const;

  private:
    std::shared_ptr<const coterie::Model> model_;
    std::unique_ptr<coterie::text::Tokenizer> tokenizer_;
    std::unique_ptr<coterie::Runner> runner_;
    std::unique_ptr<coterie::Scheduler> scheduler_;
};

// What one prompt has for an answer when it is alone, and by how much each token won.
struct Alone {
    std::vector<int32_t> tokens;
    std::vector<float> margins;
};
class Oracle {
  public:
    explicit Oracle(const std::string& golden_name);
    const Alone& answer(const std::vector<int32_t>& prompt, size_t tokens);

  private:
    std::unique_ptr<coterie::Runner> runner_;
    std::map<std::pair<std::vector<int32_t>, size_t>, Alone> known_;
};

// Guesses what answers will be, having seen them, and is sometimes wrong.
class Foreseer {
  public:
    explicit Foreseer(uint32_t seed) : random_(seed) {}
    void know(const std::vector<int32_t>& prompt, const std::vector<int32_t>& answer);
    std::vector<int32_t> operator()(std::span<const int32_t> tokens, size_t most);

  private:
    std::mt19937 random_;
    std::vector<std::pair<size_t, std::vector<int32_t>>> known_;  // length of the prompt; prompt and answer
};

// The tokens a generation gave so far.
std::vector<int32_t> take(coterie::Generation& generation);
// How many of the tokens equal those of the lone answer, up to the first that won too narrowly to tell;
// -1 when one differs.
int compare(const std::vector<int32_t>& got, const Alone& want);

}  // namespace stage
