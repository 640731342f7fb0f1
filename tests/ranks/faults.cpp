// A rank that fails ends the run with its own sentence, in a step and while loading; one that comes too late
// with the deadline's; nobody hangs.
#include <atomic>
#include <chrono>
#include <thread>

#include "catch.h"
#include "device/reference/reference_device.h"
#include "device/thread_communicator.h"
#include "model/golden.h"
#include "ranks.h"

using namespace coterie;
using namespace std::chrono_literals;

namespace {

enum class Fault { none, in_step, in_loading, late };

class FaultyDevice final : public ReferenceDevice {
  public:
    explicit FaultyDevice(Fault fault) : fault_(fault) {}
    std::unique_ptr<Weight> prepare(const WeightSource& source) override {
        if (fault_ == Fault::in_loading && ++calls_ == 5)
            fail(Status::out_of_memory, "the third card is full");
        return ReferenceDevice::prepare(source);
    }
    void attend(Rows y, Rows q, const Cache& cache, int32_t layer, const Attention& attention,
                const Step& step) override {
        ++calls_;
        if (fault_ == Fault::in_step && calls_ > 4)
            fail(Status::device_lost, "the third card fell off the bus");
        if (fault_ == Fault::late && calls_ > 4) std::this_thread::sleep_for(700ms);
        ReferenceDevice::attend(y, q, cache, layer, attention, step);
    }

  private:
    Fault fault_;
    int calls_ = 0;
};

std::unique_ptr<Runner> make(const std::shared_ptr<const Model>& model, Mode mode, Fault fault,
                             const ProgressCallback& progress = {}) {
    std::vector<Share> shares = ranks::shares_of(model->numbers(), {mode, 3});
    auto communicators = make_thread_communicators(3, fault == Fault::late ? 100ms : 30000ms);
    std::vector<RankPlace> places;
    for (size_t r = 0; r < 3; ++r)
        places.push_back({std::make_unique<FaultyDevice>(r == 2 ? fault : Fault::none),
                          std::move(communicators[r]), std::move(shares[r])});
    RunnerShape shape;
    shape.step_rows = shape.step_outputs = 64;
    shape.page_tokens = 32;
    shape.pages = 2;
    shape.state_slots = 1;
    shape.context_tokens = 64;
    return std::make_unique<Runner>(model, std::move(places), shape, progress);
}

Failure failure_of(const std::function<void()>& function) {
    try {
        function();
    } catch (const Failure& failure) {
        return failure;
    }
    return Failure(Status::ok, "nothing failed");
}

}  // namespace

TEST_CASE("a rank that throws in a step is the failure that is reported, and no more is run") {
    const auto model = Model::open(golden::load("qwen3moe").path);
    for (const Mode mode : {Mode::tensor, Mode::expert}) {
        for (int turn = 0; turn < 5; ++turn) {
            const auto runner = make(model, mode, Fault::in_step);
            const Failure first = failure_of([&] { ranks::answer(*runner, {1, 2, 3}, 20); });
            CHECK(first.status() == Status::device_lost);
            CHECK(first.message() == "the third card fell off the bus");
            const Failure later = failure_of([&] { ranks::answer(*runner, {1, 2, 3}, 1); });
            CHECK(later.status() == Status::device_lost);
        }
    }
}

TEST_CASE("a rank that throws in layer mode") {
    const auto model = Model::open(golden::load("gemma3").path);
    const auto runner = make(model, Mode::layer, Fault::in_step);
    const Failure failure = failure_of([&] { ranks::answer(*runner, {1, 2, 3}, 20); });
    CHECK(failure.message() == "the third card fell off the bus");
}

TEST_CASE("a rank that throws while loading") {
    const auto model = Model::open(golden::load("qwen3moe").path);
    const Failure failure = failure_of([&] { make(model, Mode::tensor, Fault::in_loading); });
    CHECK(failure.status() == Status::out_of_memory);
    CHECK(failure.message() == "the third card is full");
}

TEST_CASE("a rank that comes too late") {
    const auto model = Model::open(golden::load("qwen3moe").path);
    const auto runner = make(model, Mode::tensor, Fault::late);
    const auto begin = std::chrono::steady_clock::now();
    const Failure failure = failure_of([&] { ranks::answer(*runner, {1, 2, 3}, 20); });
    CHECK(failure.status() == Status::device_lost);
    CAPTURE(failure.message());
    CHECK(failure.message().find("rank 2") != std::string::npos);
    CHECK(std::chrono::steady_clock::now() - begin < 30s);
}

TEST_CASE("loading on several ranks can be cancelled") {
    const auto model = Model::open(golden::load("qwen3moe").path);
    std::atomic<int> calls{0};
    const Failure failure = failure_of([&] {
        make(model, Mode::tensor, Fault::none, [&](const char*, uint64_t, uint64_t) { return ++calls < 4; });
    });
    CHECK(failure.status() == Status::cancelled);
    CHECK(calls == 4);
}
