// The reference device: what every plain operation means, as float64 loops over host memory, one thread, no
// cleverness. It overrides no fused operation. Other devices are measured against it; nothing is measured for
// speed here. Activations, keys, values and states are stored as the seam says (F32, or the cache's types);
// every sum within an operation is in double and rounded once, when it is stored.
#pragma once
#include <memory>
#include <string>

#include "device/device.h"

namespace coterie {

class ReferenceDevice : public Device {
  public:
    std::string name() const override { return "reference"; }
    std::string description() const override { return "float64 loops on one thread, for checking"; }
    bool supports(const WeightSource& source, std::string* why) const override;

    std::unique_ptr<Buffer> allocate(uint64_t bytes) override;
    void write(void* to, const void* from, uint64_t bytes) override;
    void read(void* to, const void* from, uint64_t bytes) override;
    std::unique_ptr<Weight> prepare(const WeightSource& source) override;
    std::unique_ptr<Cache> make_cache(const CacheShape& shape) override;
    void copy_page(Cache& cache, int32_t from, int32_t to) override;
    void read_page(const Cache& cache, int32_t page, std::byte* to) override;
    void write_page(Cache& cache, int32_t page, const std::byte* from) override;
    std::unique_ptr<States> make_states(const StateShape& shape) override;
    void clear_state(States& states, int32_t slot) override;
    void copy_state(States& states, int32_t from, int32_t to) override;
    void read_state(const States& states, int32_t slot, std::byte* to) override;
    void write_state(States& states, int32_t slot, const std::byte* from) override;

    void begin(const Step& step) override;

    void embed(Rows y, const Weight& table, const Step& step, float scale, int64_t first) override;
    void rms_norm(Rows y, Rows x, const float* gain, float eps) override;
    void l2_norm(Rows x, int32_t heads, float eps) override;
    void linear(Rows y, const Weight& weight, Rows x, const float* bias) override;
    void add(Rows x, Rows y) override;
    void clear(Rows y) override;
    void activate(Rows y, Rows gate, Rows up, Activation activation) override;
    void sigmoid_gate(Rows y, Rows gate) override;
    void softcap(Rows x, float cap) override;
    void rope(Rows x, int32_t heads, const Rope& rope, const Step& step) override;
    void store_kv(Cache& cache, int32_t layer, Rows k, Rows v, const Step& step) override;
    void attend(Rows y, Rows q, const Cache& cache, int32_t layer, const Attention& attention,
                const Step& step) override;
    void choose_experts(Routing routing, Rows scores, const Router& router) override;
    void expert_linear(Rows y, const ExpertWeight& weight, Rows x, const Routing& routing) override;
    void expert_combine(Rows y, Rows e, const Routing& routing) override;
    void select_rows(Rows y, Rows x, const Step& step) override;
    void convolve(Rows y, Rows x, const float* taps, States& states, int32_t layer,
                  const Step& step) override;
    void delta_gates(Rows decay, Rows beta, const float* dt, const float* a) override;
    void delta_rule(Rows y, Rows q, Rows k, Rows v, Rows decay, Rows beta, States& states, int32_t layer,
                    const DeltaRule& rule, const Step& step) override;
};

}  // namespace coterie
