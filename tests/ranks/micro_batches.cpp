// Layer mode keeps several ranks busy: a step is split into parts that follow each other through the ranks,
// for several sequences and for one long prompt, and gives what it gives in one piece.
#include <atomic>
#include <chrono>
#include <thread>

#include "catch.h"
#include "device/reference/reference_device.h"
#include "device/thread_communicator.h"
#include "model/golden.h"
#include "plan/cost.h"
#include "ranks.h"

using namespace coterie;
using namespace std::chrono_literals;

namespace {

struct Meeting {
    std::atomic<int> parts_of_first{0};
    std::atomic<bool> together{false};
};

// The second rank waits in its first part until the first rank has begun the second one.
class MeetingDevice final : public ReferenceDevice {
  public:
    MeetingDevice(std::shared_ptr<Meeting> meeting, bool first)
        : meeting_(std::move(meeting)), first_(first) {}
    void begin(const Step& step) override {
        if (first_) ++meeting_->parts_of_first;
        ReferenceDevice::begin(step);
    }
    void attend(Rows y, Rows q, const Cache& cache, int32_t layer, const Attention& attention,
                const Step& step) override {
        for (int i = 0; !first_ && !meeting_->together && i < 2000; ++i) {
            if (meeting_->parts_of_first >= 2) meeting_->together = true;
            std::this_thread::sleep_for(1ms);
        }
        ReferenceDevice::attend(y, q, cache, layer, attention, step);
    }

  private:
    std::shared_ptr<Meeting> meeting_;
    bool first_;
};

// Two sequences decode and one reads a prompt, in one step.
Step mixed_step(const golden::Case& c, bool states, int32_t page_tokens, std::vector<int32_t> position) {
    Step step;
    step.page_tokens = page_tokens;
    step.pages_per_sequence = 3;
    for (int32_t page = 0; page < 9; ++page) step.pages.push_back(page);
    const std::vector<int32_t> rows{1, 1, 13};
    for (int32_t s = 0; s < 3; ++s) {
        step.spans.push_back(
            {s, states ? s : -1, int32_t(step.tokens.size()), rows[size_t(s)], position[size_t(s)]});
        for (int32_t i = 0; i < rows[size_t(s)]; ++i) {
            step.tokens.push_back(c.long_prompt[size_t(position[size_t(s)] + i)]);
            step.positions.push_back(position[size_t(s)] + i);
            step.span_of.push_back(s);
        }
        step.outputs.push_back(int32_t(step.tokens.size()) - 1);
    }
    return step;
}

std::vector<float> run(const std::shared_ptr<const Model>& model, const golden::Case& c, double row_cost,
                       const std::shared_ptr<Meeting>& meeting) {
    std::vector<Share> shares = ranks::shares_of(model->numbers(), {Mode::layer, 2});
    auto communicators = make_thread_communicators(2, 30000ms);
    std::vector<RankPlace> places;
    for (size_t r = 0; r < 2; ++r)
        places.push_back({std::make_unique<MeetingDevice>(meeting, r == 0), std::move(communicators[r]),
                          std::move(shares[r])});
    RunnerShape shape;
    shape.step_rows = 32;
    shape.step_outputs = 3;
    shape.page_tokens = 16;
    shape.pages = 9;
    shape.state_slots = 3;
    shape.context_tokens = 48;
    shape.row_cost = row_cost;
    Runner runner(model, std::move(places), shape);
    const bool states = model->numbers().has_states();
    for (int32_t slot = 0; states && slot < 3; ++slot) runner.clear_state(slot);
    std::vector<float> all, logits(size_t(3 * c.vocabulary));
    for (int32_t i = 0; i < 3; ++i) {
        runner.run(mixed_step(c, states, shape.page_tokens, {i, i, 13 * i}), logits);
        all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
}

}  // namespace

TEST_CASE("ranks of layer mode work side by side, and the logits are those of whole steps") {
    for (const char* name : {"gemma3", "qwen35moe-a"}) {
        CAPTURE(name);
        const golden::Case c = golden::load(name);
        const auto model = Model::open(c.path);
        const auto alone = std::make_shared<Meeting>(), split = std::make_shared<Meeting>();
        alone->together = true;  // nobody waits
        const std::vector<float> want = run(model, c, 0, alone);
        const std::vector<float> got = run(model, c, 1e6, split);
        CHECK(split->together);
        CHECK(split->parts_of_first == 3 * most_micro_batches(2));
        CHECK(ranks::nmse(got, want) <= 1e-10);  // the delta rule takes rows by the chunk
    }
}

TEST_CASE("how many parts a step has") {
    CHECK(micro_batches(512, 1, 10) == 1);
    CHECK(micro_batches(512, 4, 0) == 1);
    CHECK(micro_batches(1, 4, 10) == 1);
    CHECK(micro_batches(16, 2, 0.01) == 1);  // rows cost little: weights are read once
    CHECK(micro_batches(16, 5, 1) == 8);     // sqrt(4 * 16)
    CHECK(micro_batches(512, 2, 1) == 8);    // at most four for each rank
    CHECK(micro_batches(3, 4, 100) == 3);    // a row at least
}
