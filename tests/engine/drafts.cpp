// Guessed tokens checked several at once: answers are those of plain decoding, whatever is guessed, on every
// architecture, with grammars, penalties and full contexts; and what prompt lookup guesses.
#include "catch.h"
#include "stage.h"

using namespace coterie;
using stage::Stage;

namespace {

// Allows tokens by how many came before, so that it notices one too many or too few.
class Turns final : public TokenConstraint {
  public:
    explicit Turns(int32_t vocabulary) : vocabulary_(vocabulary) {}
    bool mask(std::span<uint32_t> bits) override {
        std::fill(bits.begin(), bits.end(), 0u);
        for (int32_t token = 0; token < vocabulary_; ++token)
            if (token % 5 == accepted_ % 5) bits[size_t(token / 32)] |= 1u << (token % 32);
        return true;
    }
    void accept(int32_t token) override {
        if (token % 5 != accepted_++ % 5) fail(Status::internal, "token {} was not allowed", token);
    }

  private:
    int32_t vocabulary_, accepted_ = 0;
};

enum class Way { plain, penalised, sampled, constrained, full, shifted };

GenerationRequest request_of(const Stage& s, Way way, const std::vector<int32_t>& prompt) {
    GenerationRequest r = s.greedy(prompt, 40);
    switch (way) {
        case Way::plain:
            break;
        case Way::penalised:
            r.sampling.repeat_penalty = 1.3f;
            r.sampling.penalty_tokens = 16;
            break;
        case Way::sampled:
            r.sampling.temperature = 0.3f;
            r.sampling.seed = 11;
            break;
        case Way::constrained:
            r.constraint = std::make_unique<Turns>(int32_t(s.model().numbers().vocabulary));
            break;
        case Way::shifted:
            r.context_policy = ContextPolicy::shift;
            [[fallthrough]];
        case Way::full:
            r.max_tokens = 80;
            break;
    }
    return r;
}

struct Answer {
    std::vector<int32_t> tokens;
    FinishReason reason;
    GenerationStatistics statistics;
};

Answer answer(const std::string& name, Way way, const std::vector<int32_t>& prompt, int32_t drafts,
              Drafter drafter) {
    stage::Shape shape;
    shape.drafts = drafts;
    shape.drafter = std::move(drafter);
    if (way == Way::full || way == Way::shifted) shape.context_tokens = 64;
    Stage s(name, shape);
    const auto g = s.submit(request_of(s, way, prompt));
    s.run();
    CHECK(s.scheduler().statistics().pages_held == 0);
    return {stage::take(*g), g->reason(), g->statistics()};
}

}  // namespace

TEST_CASE("guesses change no answer, every architecture") {
    int64_t steps = 0;
    for (const std::string& name : golden::names("")) {
        for (const Way way :
             {Way::plain, Way::penalised, Way::sampled, Way::constrained, Way::full, Way::shifted}) {
            CAPTURE(name, int(way));
            std::mt19937 random(9);
            const golden::Case c = golden::load(name);
            const std::vector<int32_t> prompt(c.long_prompt.begin(), c.long_prompt.begin() + 21);
            const Answer want = answer(name, way, prompt, 0, look_up_draft);
            CHECK(want.statistics.drafted_tokens == 0);
            stage::Foreseer foreseer(5);
            foreseer.know(prompt, want.tokens);
            const Answer got = answer(name, way, prompt, 6, std::ref(foreseer));
            CHECK(got.tokens == want.tokens);
            CHECK(got.reason == want.reason);
            CHECK(got.statistics.accepted_tokens > 8);
            CHECK(got.statistics.drafted_tokens > got.statistics.accepted_tokens);
            steps += got.statistics.drafted_tokens;
        }
    }
    CHECK(steps > 0);
}

TEST_CASE("guesses save steps, and a generation may decline them") {
    for (const char* name : {"qwen3", "qwen35moe-a"}) {
        CAPTURE(name);
        const golden::Case c = golden::load(name);
        const Answer want = answer(name, Way::plain, c.prompt, 0, look_up_draft);
        const auto right = [&](std::span<const int32_t> tokens, size_t most) {
            const size_t at = tokens.size() - c.prompt.size();
            const size_t n = std::min(most, want.tokens.size() - at);
            return std::vector<int32_t>(want.tokens.begin() + long(at), want.tokens.begin() + long(at + n));
        };
        stage::Shape shape;
        shape.drafts = 7;
        shape.drafter = right;
        Stage s(name, shape);
        const auto g = s.submit(s.greedy(c.prompt, 40));
        s.run();
        CHECK(stage::take(*g) == want.tokens);
        CHECK(s.scheduler().statistics().steps <= 16);
        GenerationRequest declined = s.greedy(c.prompt, 40);
        declined.drafts = -1;
        const auto plain = s.submit(std::move(declined));
        s.run();
        CHECK(stage::take(*plain) == want.tokens);
        CHECK(plain->statistics().drafted_tokens == 0);
        CHECK(s.scheduler().statistics().steps >= 40);
    }
}

TEST_CASE("prompt lookup") {
    const auto draft = [](std::vector<int32_t> tokens, size_t most) { return look_up_draft(tokens, most); };
    CHECK(draft({}, 4).empty());
    CHECK(draft({1, 2, 3}, 4).empty());
    CHECK(draft({1, 2, 3, 4, 5, 6}, 4).empty());
    CHECK(draft({2, 3, 9, 1, 2, 3}, 4).empty());  // two are not enough
    CHECK(draft({1, 2, 3, 4, 5, 1, 2, 3}, 2) == std::vector<int32_t>{4, 5});
    CHECK(draft({1, 2, 3, 4, 5, 1, 2, 3}, 0).empty());
    // The longest run, then the last one; and a draft that runs into itself.
    CHECK(draft({0, 1, 2, 3, 7, 9, 1, 2, 3, 8, 0, 1, 2, 3}, 1) == std::vector<int32_t>{7});
    CHECK(draft({5, 1, 2, 3, 7, 6, 1, 2, 3, 8, 0, 1, 2, 3}, 1) == std::vector<int32_t>{8});
    CHECK(draft({4, 4, 4, 4, 4}, 6) == std::vector<int32_t>{4, 4, 4, 4, 4, 4});
    CHECK(draft({1, 2, 3, 1, 2, 3}, 5) == std::vector<int32_t>{1, 2, 3, 1, 2});
}
