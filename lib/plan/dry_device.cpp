#include "plan/dry_device.h"

#include <algorithm>
#include <cmath>

#include "base/failure.h"
#include "plan/shard_bytes.h"

namespace coterie {
namespace {

// Pretends to hold memory: addresses are offsets, never dereferenced.
class DryBuffer final : public Buffer {
  public:
    explicit DryBuffer(uint64_t bytes) {
        bytes_ = bytes;
        data_ = reinterpret_cast<void*>(uintptr_t(4096));
    }
};

class DryDevice final : public Device {
  public:
    Work work;

    std::string name() const override { return "dry"; }
    std::string description() const override { return "counts, computes nothing"; }
    bool supports(const WeightSource&, std::string*) const override { return true; }
    std::unique_ptr<Buffer> allocate(uint64_t bytes) override { return std::make_unique<DryBuffer>(bytes); }
    void write(void*, const void*, uint64_t) override {}
    void read(void*, const void*, uint64_t) override {}
    std::unique_ptr<Weight> prepare(const WeightSource& s) override {
        return std::make_unique<Weight>(s.type, s.in(), s.out(), s.experts());
    }
    std::unique_ptr<Cache> make_cache(const CacheShape& shape) override {
        return std::make_unique<Cache>(shape);
    }
    void copy_page(Cache&, int32_t, int32_t) override {}
    void read_page(const Cache&, int32_t, std::byte*) override {}
    void write_page(Cache&, int32_t, const std::byte*) override {}
    std::unique_ptr<States> make_states(const StateShape& shape) override {
        return std::make_unique<States>(shape);
    }
    void clear_state(States&, int32_t) override {}
    void copy_state(States&, int32_t, int32_t) override {}
    void read_state(const States&, int32_t, std::byte*) override {}
    void write_state(States&, int32_t, const std::byte*) override {}

    void embed(Rows y, const Weight& table, const Step&, float, int64_t) override {
        count(bytes_of(table.type, table.in) * uint64_t(y.rows), 0);
    }
    void rms_norm(Rows, Rows, const float*, float) override { count(0, 0); }
    void l2_norm(Rows, int32_t, float) override { count(0, 0); }
    void linear(Rows, const Weight& w, Rows x, const float*) override { multiply(w, double(x.rows), 1.0); }
    void add(Rows, Rows) override { count(0, 0); }
    void clear(Rows) override { count(0, 0); }
    void activate(Rows, Rows, Rows, Activation) override { count(0, 0); }
    void sigmoid_gate(Rows, Rows) override { count(0, 0); }
    void softcap(Rows, float) override { count(0, 0); }
    void rope(Rows, int32_t, const Rope&, const Step&) override { count(0, 0); }
    void store_kv(Cache&, int32_t, Rows, Rows, const Step&) override { count(0, 0); }
    void attend(Rows, Rows, const Cache& cache, int32_t layer, const Attention& a,
                const Step& step) override {
        const CacheShape::Layer& l = cache.shape.layers[size_t(layer)];
        int64_t tokens = 0;
        for (const Span& span : step.spans) {
            const int64_t all = int64_t(span.position) + span.rows;
            tokens += a.window > 0 ? std::min<int64_t>(all, a.window + span.rows) : all;
        }
        work.cache_bytes +=
            uint64_t(tokens) * uint64_t(l.kv_heads) *
            (bytes_of(cache.shape.key_type, l.key_dim) + bytes_of(cache.shape.value_type, l.value_dim));
        count(0, 0);
    }
    void choose_experts(Routing, Rows, const Router& router) override {
        experts_ = router.experts;
        count(0, 0);
    }
    void expert_linear(Rows y, const ExpertWeight& w, Rows, const Routing& routing) override {
        // Expected number of different experts here among those that `rows` rows choose, `used` of all each,
        // uniformly; and of the choices that fall here.
        const double here = double(w.weight->experts), all = double(std::max(experts_, routing.used));
        const double different = here * (1.0 - std::pow(1.0 - routing.used / all, double(routing.rows)));
        const uint64_t before = work.weight_bytes;
        multiply(*w.weight, double(y.rows) * here / all, different);
        work.expert_bytes += work.weight_bytes - before;
    }
    void expert_combine(Rows, Rows, const Routing&) override { count(0, 0); }
    void select_rows(Rows, Rows, const Step&) override { count(0, 0); }
    void convolve(Rows, Rows, const float*, States&, int32_t, const Step&) override { count(0, 0); }
    void delta_gates(Rows, Rows, const float*, const float*) override { count(0, 0); }
    void delta_rule(Rows, Rows, Rows, Rows, Rows, Rows, States& states, int32_t layer, const DeltaRule&,
                    const Step& step) override {
        const uint64_t state = uint64_t(states.shape.layers[size_t(layer)].state_floats()) * sizeof(float);
        work.cache_bytes += 2 * state * step.spans.size();
        count(0, 0);
    }

    // Fused: one launch each.
    void linear_many(std::span<const Projection> projections, Rows x) override {
        for (const Projection& p : projections) multiply(*p.weight, double(x.rows), 1.0);
        work.operations -= int64_t(projections.size()) - 1;
    }
    void add_rms_norm(Rows, Rows, Rows, const float*, float) override { count(0, 0); }
    void norm_rope_store(Rows, Rows, Rows, const float*, const float*, float, const Rope&, const Attention&,
                         Cache&, int32_t, const Step&) override {
        count(0, 0);
    }
    void gate_up(Rows, const Weight& gate, const Weight& up, Rows x, Activation, Rows) override {
        multiply(gate, double(x.rows), 1.0);
        multiply(up, double(x.rows), 1.0);
        --work.operations;
    }
    void expert_gate_up(Rows e, const ExpertWeight& gate, const ExpertWeight& up, Rows x,
                        const Routing& routing, Activation, Rows) override {
        expert_linear(e, gate, x, routing);
        expert_linear(e, up, x, routing);
        --work.operations;
    }
    void expert_down_combine(Rows, const ExpertWeight& down, Rows e, const Routing& routing, Rows) override {
        expert_linear(e, down, e, routing);
    }

  private:
    static uint64_t bytes_of(Type type, int64_t n) {
        const TypeTraits& t = traits(type);
        return uint64_t(double(n) / t.block_elements * t.block_bytes);
    }
    void count(uint64_t bytes, uint64_t multiplications) {
        ++work.operations;
        work.weight_bytes += bytes;
        work.multiplications += multiplications;
    }
    void multiply(const Weight& w, double rows, double matrices) {
        count(uint64_t(matrices * double(w.out) * double(bytes_of(w.type, w.in))),
              uint64_t(rows * double(w.in) * double(w.out)));
    }
    int32_t experts_ = 0;  // of the model
};

class DryCommunicator final : public Communicator {
  public:
    DryCommunicator(Work& work, const Share& share) : work_(work), share_(share) {}
    int rank() const override { return share_.rank; }
    int size() const override { return share_.ranks; }
    void all_reduce_sum(Rows x) override { add(x); }
    void all_gather(Rows, Rows x) override { add(x); }
    void send(Rows x, int) override { add(x); }
    void receive(Rows x, int) override { add(x); }
    void abort() noexcept override {}

  private:
    void add(Rows x) {
        ++work_.reductions;
        work_.reduction_bytes += uint64_t(x.rows * x.width) * sizeof(float);
    }
    Work& work_;
    const Share& share_;
};

RankWeights dry_weights(const Model& model, const Share& share, Device& device) {
    RankWeights weights(model.numbers().layers);
    for (const TensorEntry& entry : model.table().entries()) {
        if (!holds(entry, share)) continue;
        const ShardShape shard = shard_shape(entry, model.numbers(), share);
        if (shard.empty()) continue;
        if (is_numbers(entry.kind))
            weights.set(entry.part, entry.layer, device.allocate(shard.elements() * sizeof(float)));
        else
            weights.set(entry.part, entry.layer,
                        std::make_unique<Weight>(entry.type, shard.in, shard.out, shard.experts));
    }
    return weights;
}

}  // namespace

CacheShape cache_shape(const Hyperparameters& h, const Share& share) {
    CacheShape shape;
    for (int64_t i = share.layers.begin; i < share.layers.end; ++i) {
        if (h.recurrent[size_t(i)]) continue;
        const Attention a = local_attention(h, share, int32_t(i));
        shape.layers.push_back({a.kv_heads, a.key_dim, a.value_dim});
    }
    return shape;
}

StateShape state_shape(const Hyperparameters& h, const Share& share) {
    StateShape shape;
    for (int64_t i = share.layers.begin; i < share.layers.end; ++i) {
        if (!h.recurrent[size_t(i)]) continue;
        const Range keys = share.layer[size_t(i)].key_heads;
        const int32_t key_heads = int32_t(keys.end - keys.begin),
                      value_heads = key_heads * (h.value_heads / h.key_heads);
        shape.layers.push_back(
            {(2 * key_heads + value_heads) * h.state_dim, h.taps, value_heads, h.state_dim, h.state_dim});
    }
    return shape;
}

struct DryRun::State {
    State(const Model& m, const Share& s, const CacheShape& cache_of)
        : model(m),
          share(s),
          communicator(device.work, share),
          weights(dry_weights(m, s, device)),
          cache(device.make_cache(cache_of)),
          states(device.make_states(state_shape(m.numbers(), s))) {}
    const Model& model;
    const Share& share;
    DryDevice device;
    DryCommunicator communicator;
    const RankWeights weights;
    std::unique_ptr<Cache> cache;
    std::unique_ptr<States> states;
};

DryRun::DryRun(const Model& model, const Share& share, const CacheShape& cache)
    : state_(std::make_unique<State>(model, share, cache)) {}
DryRun::~DryRun() = default;

Work DryRun::step(const DryStep& dry) {
    COTERIE_CHECK(dry.sequences > 0 && dry.rows >= dry.sequences);
    Step step;
    step.tokens.resize(size_t(dry.rows));
    step.positions.resize(size_t(dry.rows));
    step.span_of.resize(size_t(dry.rows));
    step.outputs.resize(size_t(dry.outputs));
    for (int64_t i = 0; i < dry.sequences; ++i) {
        const int64_t begin = dry.rows * i / dry.sequences, end = dry.rows * (i + 1) / dry.sequences;
        step.spans.push_back({int32_t(i), 0, int32_t(begin), int32_t(end - begin), int32_t(dry.position)});
    }
    State& s = *state_;
    s.device.work = {};
    Scratch scratch(reinterpret_cast<void*>(uintptr_t(1) << 20), uint64_t(1) << 46);
    Pass pass{s.device,
              s.communicator,
              s.model.numbers(),
              s.share,
              s.weights,
              s.cache.get(),
              s.states.get(),
              scratch,
              step,
              Rows(nullptr, dry.outputs, s.model.numbers().vocabulary)};
    s.model.architecture().forward(pass);
    s.device.work.scratch_bytes = scratch.peak();
    return s.device.work;
}

Work dry_run(const Model& model, const Share& share, const CacheShape& cache, const DryStep& dry) {
    return DryRun(model, share, cache).step(dry);
}

}  // namespace coterie
