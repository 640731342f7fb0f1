// Any mix equals each alone: random traces of arrivals, cancels, priorities, forks and shared prefixes, with
// so few pages that sequences are driven out, on tiny models of every architecture.
#include "catch.h"
#include "device/cpu/cpu_device.h"
#include "stage.h"

using namespace coterie;
using stage::Stage;

namespace {

// Gives the best logits only, as a device does whose memory is far away.
class Ranking : public CpuDevice {
  public:
    using CpuDevice::CpuDevice;
    int32_t most_ranked() const override { return 7; }
};
std::unique_ptr<Device> ranking() {
    CpuOptions options;
    options.threads = 1;
    return std::make_unique<Ranking>(options);
}

struct Watched {
    std::shared_ptr<Generation> generation;
    std::vector<int32_t> prompt;
    size_t wanted;
    int cancel_at;  // step; -1: never
};

struct Tally {
    int64_t compared = 0, generated = 0, drafted = 0, accepted = 0;
};

Tally trace(const std::string& name, stage::Shape shape, uint32_t seed, int generations) {
    std::mt19937 random(seed);
    const auto foreseer = std::make_shared<stage::Foreseer>(seed);
    shape.drafter = [foreseer](std::span<const int32_t> tokens, size_t most) {
        return (*foreseer)(tokens, most);
    };
    Stage s(name, shape);
    stage::Oracle oracle(name);
    const golden::Case c = golden::load(name);
    // Prompts begin alike, so that pages are shared.
    const std::vector<std::vector<int32_t>> stems = {c.long_prompt, s.random_tokens(100, random),
                                                     s.random_tokens(64, random)};
    std::vector<Watched> all;
    int step = 0;
    const auto arrive = [&] {
        const auto& stem = stems[random() % stems.size()];
        std::vector<int32_t> prompt(stem.begin(), stem.begin() + long(random() % stem.size()));
        const std::vector<int32_t> tail = s.random_tokens(1 + random() % 20, random);
        prompt.insert(prompt.end(), tail.begin(), tail.end());
        const size_t wanted = 1 + random() % 24;
        const int cancel = random() % 6 == 0 ? step + int(random() % 12) : -1;
        GenerationRequest request = s.greedy(prompt, int64_t(wanted));
        request.priority = int32_t(random() % 3);
        if (shape.drafts > 0) foreseer->know(prompt, oracle.answer(prompt, wanted).tokens);
        all.push_back({s.submit(std::move(request)), std::move(prompt), wanted, cancel});
    };
    while (int(all.size()) < generations || !s.scheduler().idle()) {
        if (int(all.size()) < generations && random() % 3 == 0) arrive();
        if (int(all.size()) < generations && !all.empty() && random() % 8 == 0) {
            const Watched& parent = all[random() % all.size()];
            const size_t wanted = 1 + random() % 16;
            if (parent.generation->tokens().size() + wanted <= size_t(shape.context_tokens)) {
                auto child = s.fork(*parent.generation, s.greedy({}, int64_t(wanted)));
                std::vector<int32_t> prompt = child->tokens();
                if (shape.drafts > 0) foreseer->know(prompt, oracle.answer(prompt, wanted).tokens);
                all.push_back({std::move(child), std::move(prompt), wanted, -1});
            }
        }
        for (Watched& w : all)
            if (w.cancel_at == step) w.generation->cancel();
        s.step();
        REQUIRE(++step < 20000);
    }
    Tally tally;
    for (size_t i = 0; i < all.size(); ++i) {
        CAPTURE(i, all[i].prompt.size(), all[i].wanted);
        Watched& w = all[i];
        const std::vector<int32_t> got = stage::take(*w.generation);
        if (w.generation->reason() == FinishReason::cancelled) {
            CHECK(got.size() <= w.wanted);
        } else {
            CHECK(w.generation->reason() == FinishReason::token_limit);
            CHECK(got.size() == w.wanted);
        }
        if (got.empty()) continue;
        const int equal = stage::compare(got, oracle.answer(w.prompt, w.wanted));
        CHECK(equal >= 0);
        tally.compared += std::max(equal, 0);
        tally.generated += int64_t(got.size());
    }
    const SchedulerStatistics end = s.scheduler().statistics();
    CHECK(end.pages_held == 0);
    CHECK(end.generated_tokens == tally.generated);
    tally.drafted = end.drafted_tokens;
    tally.accepted = end.accepted_tokens;
    return tally;
}

}  // namespace

TEST_CASE("random traces equal each alone, every architecture") {
    uint32_t seed = 1;
    for (const std::string& name : golden::names("")) {
        CAPTURE(name, seed);
        stage::Shape shape;
        Tally t = trace(name, shape, seed++, 24);
        CHECK(t.compared * 10 >= t.generated * 8);
        shape.pages = 26;  // one whole context is 24
        shape.sequences = 4;
        shape.device = ranking;
        t = trace(name, shape, seed++, 24);
        CHECK(t.compared * 10 >= t.generated * 8);
        shape.drafts = 5;
        t = trace(name, shape, seed++, 24);
        CHECK(t.compared * 10 >= t.generated * 8);
        CHECK(t.accepted > 20);
        CHECK(t.drafted > t.accepted);
    }
}

TEST_CASE("random traces on four ranks") {
    for (const char* name : {"qwen3moe", "gpt-oss-b", "qwen35moe-b", "llama"}) {
        CAPTURE(name);
        stage::Shape shape;
        shape.ranks = 4;
        for (const int32_t drafts : {0, 4}) {
            shape.drafts = drafts;
            const Tally t = trace(name, shape, 77, 16);
            CHECK(t.compared * 10 >= t.generated * 8);
            CHECK((t.accepted > 0) == (drafts > 0));
        }
    }
}

TEST_CASE("few pages drive sequences out, and their answers don't change") {
    for (const char* name : {"qwen3moe", "qwen35moe-a"}) {
        CAPTURE(name);
        stage::Shape shape;
        shape.pages = 26;
        shape.sequences = 4;
        Stage s(name, shape);
        stage::Oracle oracle(name);
        std::mt19937 random(3);
        std::vector<std::vector<int32_t>> prompts;
        std::vector<std::shared_ptr<Generation>> running;
        for (int i = 0; i < 4; ++i) {
            prompts.push_back(s.random_tokens(38, random));
            running.push_back(s.submit(s.greedy(prompts.back(), 60)));
        }
        s.run();
        CHECK(s.scheduler().statistics().preemptions > 0);
        CHECK(s.scheduler().statistics().preemptions < 12);
        CHECK(running[0]->statistics().preemptions == 0);  // the first to come is never driven out
        for (size_t i = 0; i < running.size(); ++i) {
            CAPTURE(i);
            const auto got = stage::take(*running[i]);
            CHECK(got.size() == 60);
            CHECK(stage::compare(got, oracle.answer(prompts[i], 60)) > 0);
        }
    }
}

TEST_CASE("a long prompt holds others up by no more than a chunk, and the queue goes by priority") {
    Stage s("qwen3", {});
    std::mt19937 random(4);
    const auto talker = s.submit(s.greedy(s.random_tokens(4, random), 40));
    s.step();
    CHECK(stage::take(*talker).size() == 1);
    const auto reader = s.submit(s.greedy(s.random_tokens(150, random), 1));
    int steps = 0;
    while (reader->reason() == FinishReason::none) {
        s.step();
        ++steps;
        CHECK(stage::take(*talker).size() == 1);  // every step
    }
    CHECK(steps == 10);  // 150 rows in chunks of mixed_rows
    s.run();

    stage::Shape lone;
    lone.sequences = 1;
    Stage one("qwen3", lone);
    std::vector<std::shared_ptr<Generation>> waiting;
    for (const int32_t priority : {0, 0, 5, 1}) {
        GenerationRequest r = one.greedy({1, 2, 3}, 2);
        r.priority = priority;
        waiting.push_back(one.submit(std::move(r)));
    }
    std::vector<size_t> order;
    while (!one.scheduler().idle()) {
        one.step();
        for (size_t i = 0; i < waiting.size(); ++i)
            if (waiting[i]->reason() != FinishReason::none &&
                std::find(order.begin(), order.end(), i) == order.end())
                order.push_back(i);
    }
    CHECK(order == std::vector<size_t>{2, 3, 0, 1});
}

TEST_CASE("an answer does not use up the checkpoints of others") {
    stage::Shape shape;
    shape.checkpoints = 3;
    Stage s("qwen35moe-b", shape);
    std::mt19937 random(5);
    const std::vector<int32_t> kept = s.random_tokens(40, random);
    s.submit(s.greedy(kept, 1));
    s.run();
    s.submit(s.greedy(s.random_tokens(10, random), 100));
    s.run();
    const auto again = s.submit(s.greedy(kept, 1));
    s.run();
    CHECK(again->statistics().cached_tokens == 32);  // 39 at most, in pages of 8
}

TEST_CASE("a higher priority drives out who runs with a lower one, whose answer does not change") {
    for (const char* name : {"qwen3moe", "qwen35moe-a"})
        for (const bool pages_short : {false, true}) {
            CAPTURE(name, pages_short);
            stage::Shape shape;
            shape.sequences = pages_short ? 3 : 1;
            shape.pages = pages_short ? 26 : 40;
            Stage s(name, shape);
            stage::Oracle oracle(name);
            std::mt19937 random(6);
            const std::vector<int32_t> low = s.random_tokens(120, random),
                                       high = s.random_tokens(100, random);
            const auto slow = s.submit(s.greedy(low, 30));
            for (int i = 0; i < 8; ++i) s.step();
            GenerationRequest equal = s.greedy(high, 4);
            const auto patient = s.submit(std::move(equal));
            for (int i = 0; i < 4; ++i) s.step();
            CHECK(slow->statistics().preemptions == 0);
            CHECK(patient->tokens().size() == high.size());
            patient->cancel();
            GenerationRequest urgent = s.greedy(high, 4);
            urgent.priority = 1;
            const auto quick = s.submit(std::move(urgent));
            while (quick->reason() == FinishReason::none) s.step();
            CHECK(slow->reason() == FinishReason::none);
            CHECK(slow->statistics().preemptions == 1);
            s.run();
            CHECK(stage::compare(stage::take(*quick), oracle.answer(high, 4)) > 0);
            const auto got = stage::take(*slow);
            CHECK(got.size() == 30);
            CHECK(stage::compare(got, oracle.answer(low, 30)) > 0);
        }
}

TEST_CASE("after faults no page and no slot is lost") {
    class Broken final : public TokenConstraint {
      public:
        explicit Broken(int after) : left_(after) {}
        bool mask(std::span<uint32_t>) override {
            if (left_-- == 0) fail(Status::internal, "the grammar broke");
            return false;
        }
        void accept(int32_t) override {}

      private:
        int left_;
    };
    for (const char* name : {"qwen3", "qwen35moe-b"}) {
        CAPTURE(name);
        stage::Shape shape;
        shape.drafts = 4;
        Stage s(name, shape);
        std::mt19937 random(8);
        int failed = 0;
        for (int turn = 0; turn < 40; ++turn) {
            std::vector<std::shared_ptr<Generation>> all;
            for (int i = 0; i < 5; ++i) {
                GenerationRequest r = s.greedy(s.random_tokens(1 + random() % 60, random), 20);
                if (i % 2 == 0) r.constraint = std::make_unique<Broken>(int(random() % 12));
                all.push_back(s.submit(std::move(r)));
            }
            if (turn % 4 == 3) {
                for (int i = 0; i < int(random() % 20); ++i) s.step();
                s.scheduler().fail_all(Failure(Status::device_lost, "gone"));
                s.scheduler().check();
            }
            s.run();
            for (const auto& g : all) failed += g->reason() == FinishReason::failed ? 1 : 0;
            CHECK(s.scheduler().statistics().pages_held == 0);
            const SchedulerStatistics now = s.scheduler().statistics();
            CHECK(now.state_slots_used == now.checkpoints);
        }
        CHECK(failed > 100);
    }
}
