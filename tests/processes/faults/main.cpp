// One of several processes that run a model between them, one rank each, as mpirun starts them. The last rank
// fails: in a step, while loading, or by coming too late. Each process writes one line: its rank, and what it
// was told. Which line is right is what run.sh checks.
// usage: faults MODEL none|step|loading|late [layer]
#include <cstdio>
#include <thread>

#include "device/processes.h"
#include "device/reference/reference_device.h"
#include "execute/orders.h"
#include "execute/runner.h"
#include "plan/shares.h"

using namespace coterie;
using namespace std::chrono_literals;

namespace {

class FaultyDevice final : public ReferenceDevice {
  public:
    explicit FaultyDevice(std::string fault) : fault_(std::move(fault)) {}
    std::unique_ptr<Weight> prepare(const WeightSource& source) override {
        if (fault_ == "loading" && ++calls_ == 3) fail(Status::out_of_memory, "the last card is full");
        return ReferenceDevice::prepare(source);
    }
    void attend(Rows y, Rows q, const Cache& cache, int32_t layer, const Attention& attention,
                const Step& step) override {
        ++calls_;
        if (fault_ == "step" && calls_ > 2) fail(Status::device_lost, "the last card fell off the bus");
        if (fault_ == "late" && calls_ > 2) std::this_thread::sleep_for(4s);
        ReferenceDevice::attend(y, q, cache, layer, attention, step);
    }

  private:
    std::string fault_;
    int calls_ = 0;
};

std::unique_ptr<Runner> make(const std::shared_ptr<Processes>& crew, const std::string& path,
                             const std::string& fault, bool layer) {
    const auto model = Model::open(path);
    const Hyperparameters& h = model->numbers();
    const std::vector<double> even(size_t(crew->size()), 1.0), costs(size_t(h.layers), 1.0);
    const std::vector<Share> shares = layer ? cut_between_layers(h, even, costs, 0.5, 0.5)
                                            : cut_within_layers(h, Mode::tensor, even, h.router.experts);
    RunnerShape shape;
    shape.step_rows = shape.step_outputs = 8;
    shape.page_tokens = 32;
    shape.pages = 1;
    shape.state_slots = 1;
    shape.context_tokens = 32;
    const bool last = crew->rank() + 1 == crew->size();
    RankPlace place{std::make_unique<FaultyDevice>(last ? fault : "none"), crew->make_communicator(2000ms),
                    shares[size_t(crew->rank())]};
    std::unique_ptr<Runner> runner;
    std::optional<Failure> failure;
    try {
        runner = std::make_unique<Runner>(model, std::move(place), shape, shares, crew);
    } catch (const Failure& thrown) {
        failure = thrown;
    }
    crew->agree(failure);
    return runner;
}

void lead(Runner& runner) {
    Step step;
    step.page_tokens = 32;
    step.pages_per_sequence = 1;
    step.pages = {0};
    step.span_of = step.outputs = {0};
    std::vector<float> logits(size_t(runner.model().numbers().vocabulary));
    for (int32_t i = 0; i < 10; ++i) {
        step.tokens = {i};
        step.positions = {i};
        step.spans = {{0, 0, 0, 1, i}};
        runner.run(step, logits);
    }
}

void follow(Runner& runner, Processes& crew) {
    for (;;) {
        const std::vector<std::byte> order = crew.next_order();
        if (order.empty() || kind_of(order) == Order::Kind::destroy) return;
        carry_out(runner, order);
    }
}

}  // namespace

int main(int count, char** words) {
    if (count < 3) return 2;
    join_processes();
    const std::shared_ptr<Processes> crew = processes();
    if (!crew) return 3;
    std::string line = "ended well";
    try {
        const auto runner = make(crew, words[1], words[2], count > 3);
        crew->rank() == 0 ? lead(*runner) : follow(*runner, *crew);
    } catch (const Failure& failure) {
        line = failure.message();
    }
    std::printf("rank %d: %s\n", crew->rank(), line.c_str());
    return 0;
}
