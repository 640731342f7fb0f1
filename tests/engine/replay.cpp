// Recorded steps: a device that keeps the operations of a step with their arguments, and runs those again for
// every later step of the same shape, gives bit for bit what one gives that is called anew each time. So
// nothing that changes from step to step is passed by value.
#include <map>

#include "catch.h"
#include "device/cpu/cpu_device.h"
#include "model/golden.h"

using namespace coterie;

namespace {

class Recorder final : public Device {
  public:
    explicit Recorder(bool replays) : replays_(replays), inner_(options()) {}

    std::string name() const override { return "recorder"; }
    std::string description() const override { return "recorder"; }
    bool supports(const WeightSource& source, std::string* why) const override {
        return inner_.supports(source, why);
    }
    std::unique_ptr<Buffer> allocate(uint64_t bytes) override { return inner_.allocate(bytes); }
    void write(void* to, const void* from, uint64_t bytes) override { inner_.write(to, from, bytes); }
    void read(void* to, const void* from, uint64_t bytes) override { inner_.read(to, from, bytes); }
    std::unique_ptr<Weight> prepare(const WeightSource& source) override { return inner_.prepare(source); }
    std::unique_ptr<Cache> make_cache(const CacheShape& shape) override { return inner_.make_cache(shape); }
    void copy_page(Cache& c, int32_t from, int32_t to) override { inner_.copy_page(c, from, to); }
    void read_page(const Cache& c, int32_t p, std::byte* to) override { inner_.read_page(c, p, to); }
    void write_page(Cache& c, int32_t p, const std::byte* from) override { inner_.write_page(c, p, from); }
    std::unique_ptr<States> make_states(const StateShape& shape) override {
        return inner_.make_states(shape);
    }
    void clear_state(States& s, int32_t slot) override { inner_.clear_state(s, slot); }
    void copy_state(States& s, int32_t from, int32_t to) override { inner_.copy_state(s, from, to); }
    void read_state(const States& s, int32_t slot, std::byte* to) override { inner_.read_state(s, slot, to); }
    void write_state(States& s, int32_t slot, const std::byte* from) override {
        inner_.write_state(s, slot, from);
    }

    void begin(const Step& step) override { inner_.begin(step); }
    void wait() override { inner_.wait(); }
    void replay(uint64_t key, const std::function<void()>& calls) override {
        if (!replays_) return calls();
        const auto known = recorded_.find(key);
        if (known != recorded_.end()) {
            ++replayed;
            for (const auto& call : known->second) call();
            return;
        }
        recording_ = &recorded_[key];
        calls();
        recording_ = nullptr;
    }

    void embed(Rows y, const Weight& t, const Step& s, float scale, int64_t first) override {
        call([this, y, &t, &s, scale, first] { inner_.embed(y, t, s, scale, first); });
    }
    void rms_norm(Rows y, Rows x, const float* gain, float eps) override {
        call([=, this] { inner_.rms_norm(y, x, gain, eps); });
    }
    void l2_norm(Rows x, int32_t heads, float eps) override {
        call([=, this] { inner_.l2_norm(x, heads, eps); });
    }
    void linear(Rows y, const Weight& w, Rows x, const float* bias) override {
        call([this, y, &w, x, bias] { inner_.linear(y, w, x, bias); });
    }
    void add(Rows x, Rows y) override {
        call([=, this] { inner_.add(x, y); });
    }
    void clear(Rows y) override {
        call([=, this] { inner_.clear(y); });
    }
    void activate(Rows y, Rows gate, Rows up, Activation activation) override {
        call([=, this] { inner_.activate(y, gate, up, activation); });
    }
    void sigmoid_gate(Rows y, Rows gate) override {
        call([=, this] { inner_.sigmoid_gate(y, gate); });
    }
    void softcap(Rows x, float cap) override {
        call([=, this] { inner_.softcap(x, cap); });
    }
    void rope(Rows x, int32_t heads, const Rope& rope, const Step& s) override {
        call([this, x, heads, rope, &s] { inner_.rope(x, heads, rope, s); });
    }
    void store_kv(Cache& c, int32_t layer, Rows k, Rows v, const Step& s) override {
        call([this, &c, layer, k, v, &s] { inner_.store_kv(c, layer, k, v, s); });
    }
    void attend(Rows y, Rows q, const Cache& c, int32_t layer, const Attention& a, const Step& s) override {
        call([this, y, q, &c, layer, a, &s] { inner_.attend(y, q, c, layer, a, s); });
    }
    void choose_experts(Routing routing, Rows scores, const Router& router) override {
        call([this, routing, scores, router] { inner_.choose_experts(routing, scores, router); });
    }
    void expert_linear(Rows y, const ExpertWeight& w, Rows x, const Routing& routing) override {
        call([this, y, w, x, routing] { inner_.expert_linear(y, w, x, routing); });
    }
    void expert_combine(Rows y, Rows e, const Routing& routing) override {
        call([this, y, e, routing] { inner_.expert_combine(y, e, routing); });
    }
    void select_rows(Rows y, Rows x, const Step& s) override {
        call([this, y, x, &s] { inner_.select_rows(y, x, s); });
    }
    void convolve(Rows y, Rows x, const float* taps, States& st, int32_t layer, const Step& s) override {
        call([this, y, x, taps, &st, layer, &s] { inner_.convolve(y, x, taps, st, layer, s); });
    }
    void delta_gates(Rows decay, Rows beta, const float* dt, const float* a) override {
        call([=, this] { inner_.delta_gates(decay, beta, dt, a); });
    }
    void delta_rule(Rows y, Rows q, Rows k, Rows v, Rows decay, Rows beta, States& st, int32_t layer,
                    const DeltaRule& rule, const Step& s) override {
        call([this, y, q, k, v, decay, beta, &st, layer, rule, &s] {
            inner_.delta_rule(y, q, k, v, decay, beta, st, layer, rule, s);
        });
    }

    int64_t replayed = 0;

  private:
    static CpuOptions options() {
        CpuOptions o;
        o.threads = 1;
        return o;
    }
    void call(std::function<void()> operation) {
        operation();
        if (recording_) recording_->push_back(std::move(operation));
    }

    bool replays_;
    CpuDevice inner_;
    std::map<uint64_t, std::vector<std::function<void()>>> recorded_;
    std::vector<std::function<void()>>* recording_ = nullptr;
};

// Logits of two sequences that decode at different depths, sometimes one, sometimes both.
std::vector<float> decode(Runner& runner, const golden::Case& c) {
    const int32_t per_sequence = runner.shape().pages / 2, n = runner.shape().page_tokens;
    const std::vector<std::vector<int32_t>> texts = {c.long_prompt, c.prompt};
    Step step;
    step.page_tokens = n;
    step.pages_per_sequence = per_sequence;
    for (int32_t page = 0; page < 2 * per_sequence; ++page) step.pages.push_back(page);
    const bool states = runner.state_bytes() > 0;
    if (states)
        for (const int32_t slot : {0, 1}) runner.clear_state(slot);
    std::vector<float> all, logits(size_t(2 * c.vocabulary));
    std::vector<int32_t> position(2, 0);
    for (int i = 0; i < 24; ++i) {
        Step next = step;
        for (const int32_t s : i % 3 == 2 ? std::vector<int32_t>{1} : std::vector<int32_t>{0, 1}) {
            const int32_t row = int32_t(next.tokens.size());
            if (size_t(position[size_t(s)]) >= texts[size_t(s)].size()) continue;
            next.tokens.push_back(texts[size_t(s)][size_t(position[size_t(s)])]);
            next.positions.push_back(position[size_t(s)]);
            next.span_of.push_back(row);
            next.spans.push_back({s, states ? s : -1, row, 1, position[size_t(s)]++});
            next.outputs.push_back(row);
        }
        if (next.tokens.empty()) continue;
        runner.run(next, logits);
        all.insert(all.end(), logits.begin(), logits.begin() + long(next.tokens.size()) * c.vocabulary);
    }
    return all;
}

std::unique_ptr<Runner> runner_of(const golden::Case& c, std::unique_ptr<Device> device) {
    RunnerShape shape;
    shape.step_rows = shape.step_outputs = 2;
    shape.page_tokens = 8;
    shape.pages = 40;
    shape.state_slots = 2;
    shape.context_tokens = 160;
    const auto model = Model::open(c.path);
    std::vector<RankPlace> places;
    places.push_back(
        {std::move(device), std::make_unique<SoloCommunicator>(), whole_share(model->numbers())});
    return std::make_unique<Runner>(model, std::move(places), shape);
}

}  // namespace

TEST_CASE("a replayed step equals a fresh one, bit for bit, every architecture") {
    for (const std::string& name : golden::names("")) {
        CAPTURE(name);
        const golden::Case c = golden::load(name);
        const std::vector<float> want = decode(*runner_of(c, std::make_unique<Recorder>(false)), c);
        auto recorder = std::make_unique<Recorder>(true);
        const Recorder& seen = *recorder;
        const auto runner = runner_of(c, std::move(recorder));
        const std::vector<float> got = decode(*runner, c);
        CHECK(seen.replayed >= 15);
        CHECK(got == want);
    }
}
