#include "stage.h"

#include "device/cpu/cpu_device.h"
#include "device/thread_communicator.h"
#include "plan/shares.h"

namespace stage {
using namespace coterie;

namespace {

std::unique_ptr<Device> cpu() {
    CpuOptions options;
    options.threads = 1;
    return std::make_unique<CpuDevice>(options);
}

std::vector<RankPlace> places(const Hyperparameters& h, int32_t ranks, golden::DeviceMaker device) {
    std::vector<RankPlace> result;
    if (ranks == 1) {
        result.push_back({device(), std::make_unique<SoloCommunicator>(), whole_share(h)});
        return result;
    }
    std::vector<Share> shares =
        cut_within_layers(h, Mode::tensor, std::vector<double>(size_t(ranks), 1.0), h.router.experts);
    auto communicators = make_thread_communicators(ranks, std::chrono::seconds(60));
    for (size_t r = 0; r < shares.size(); ++r)
        result.push_back({device(), std::move(communicators[r]), std::move(shares[r])});
    return result;
}

constexpr float narrow = 1e-3f;

}  // namespace

Stage::Stage(const std::string& golden_name, const Shape& shape)
    : model_(Model::open(golden::load(golden_name).path)),
      tokenizer_(std::make_unique<text::Tokenizer>(text::Tokenizer::from_gguf(model_->file()))) {
    RunnerShape r;
    r.step_rows = shape.step_rows;
    r.step_outputs = shape.sequences * (1 + shape.drafts);
    r.page_tokens = shape.page_tokens;
    r.pages = shape.pages;
    r.state_slots = shape.sequences * (shape.drafts > 0 ? 2 : 1) + shape.checkpoints;
    r.key_type = r.value_type = shape.cache;
    r.context_tokens = shape.context_tokens;
    runner_ = std::make_unique<Runner>(
        model_, places(model_->numbers(), shape.ranks, shape.device ? shape.device : cpu), r);
    SchedulerOptions s;
    s.sequences = shape.sequences;
    s.context_tokens = shape.context_tokens;
    s.step_rows = shape.step_rows;
    s.mixed_rows = shape.mixed_rows;
    s.checkpoints = shape.checkpoints;
    s.drafts = shape.drafts;
    s.drafter = shape.drafter;
    s.checkpoint_tokens = shape.checkpoint_tokens;
    s.reuse_prefixes = shape.reuse_prefixes;
    scheduler_ = std::make_unique<Scheduler>(*runner_, *tokenizer_, s);
}

GenerationRequest Stage::greedy(std::vector<int32_t> prompt, int64_t tokens) const {
    GenerationRequest r;
    r.prompt = std::move(prompt);
    r.sampling.temperature = 0.0f;
    r.max_tokens = tokens;
    r.ignore_end = true;
    return r;
}

std::shared_ptr<Generation> Stage::submit(GenerationRequest request) {
    auto generation = std::make_shared<Generation>();
    scheduler_->submit(generation, std::move(request));
    return generation;
}

std::shared_ptr<Generation> Stage::fork(const Generation& parent, GenerationRequest request) {
    auto generation = std::make_shared<Generation>();
    scheduler_->fork(parent, generation, std::move(request));
    scheduler_->check();
    return generation;
}

bool Stage::step() {
    const bool ran = scheduler_->step();
    scheduler_->check();
    return ran;
}

void Stage::run() {
    for (int i = 0; i < 100000 && !scheduler_->idle(); ++i) step();
}

std::vector<int32_t> Stage::random_tokens(size_t n, std::mt19937& random) const {
    std::vector<int32_t> tokens(n);
    for (int32_t& token : tokens) token = int32_t(random() % uint64_t(model_->numbers().vocabulary));
    return tokens;
}

Oracle::Oracle(const std::string& golden_name)
    : runner_(golden::make_runner(golden::load(golden_name).path, cpu)) {}

const Alone& Oracle::answer(const std::vector<int32_t>& prompt, size_t tokens) {
    Alone& a = known_[{prompt, tokens}];
    if (!a.tokens.empty()) return a;
    const size_t vocabulary = size_t(runner_->model().numbers().vocabulary);
    if (runner_->state_bytes() > 0) runner_->clear_state(0);
    golden::Sequence sequence(*runner_);
    std::vector<float> logits = sequence.append(prompt);
    while (a.tokens.size() < tokens) {
        std::vector<float> row(logits.end() - long(vocabulary), logits.end());
        const int32_t best = golden::argmax(row.data(), int64_t(vocabulary));
        const float top = row[size_t(best)];
        row[size_t(best)] = -INFINITY;
        a.margins.push_back(top - row[size_t(golden::argmax(row.data(), int64_t(vocabulary)))]);
        a.tokens.push_back(best);
        if (a.tokens.size() < tokens) logits = sequence.append({best});
    }
    return a;
}

void Foreseer::know(const std::vector<int32_t>& prompt, const std::vector<int32_t>& answer) {
    std::vector<int32_t> all = prompt;
    all.insert(all.end(), answer.begin(), answer.end());
    known_.emplace_back(prompt.size(), std::move(all));
}

std::vector<int32_t> Foreseer::operator()(std::span<const int32_t> tokens, size_t most) {
    for (const auto& [prompt, all] : known_) {
        if (tokens.size() <= prompt || tokens.size() >= all.size() ||
            !std::equal(tokens.begin(), tokens.end(), all.begin()))
            continue;
        const size_t n = std::min({most, all.size() - tokens.size(), size_t(1 + random_() % 6)});
        std::vector<int32_t> draft(all.begin() + long(tokens.size()), all.begin() + long(tokens.size() + n));
        if (random_() % 3 == 0) draft[random_() % n] ^= 1;
        return draft;
    }
    return {};
}

std::vector<int32_t> take(Generation& generation) {
    std::vector<int32_t> tokens;
    Piece piece;
    while (generation.next(piece, std::chrono::milliseconds(0)) == Generation::Next::piece)
        tokens.push_back(piece.token);
    return tokens;
}

int compare(const std::vector<int32_t>& got, const Alone& want) {
    int equal = 0;
    for (size_t i = 0; i < got.size() && i < want.tokens.size() && want.margins[i] > narrow; ++i, ++equal)
        if (got[i] != want.tokens[i]) return -1;
    return equal;
}

}  // namespace stage
