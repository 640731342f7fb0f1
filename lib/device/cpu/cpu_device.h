// The CPU device: threads, packed weights, and the kernels of the best instruction set. It overrides the
// fused operations where one parallel region saves several. What it computes is defined by the reference
// device; how far it may differ is that quantised weights meet activations rounded to 8 bits per 32 columns.
//
// One operation is one parallel region (none when it is small). Work is split by ranges fixed in advance
// where parts are equal, and by a shared counter where they are not (experts, attention). A step allocates
// nothing once its shapes have been seen: scratch grows to the largest and stays.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/threads.h"
#include "device/cpu/elements.h"
#include "device/cpu/kernels.h"
#include "device/cpu/memory.h"
#include "device/cpu/packer.h"
#include "device/device.h"

namespace coterie {

struct CpuOptions {
    int threads = 0;  // 0: the usable physical cores
    bool pin = false;
    std::string isa = "auto";
    // Activations in two planes of 8 bits instead of one: squared error below 1e-7 of the whole, at up to
    // twice the multiplications. For small models, whose answers 8 bits can change.
    bool fine = false;
    Log log;
};

class CpuDevice : public Device {
  public:
    explicit CpuDevice(const CpuOptions& options = {});
    ~CpuDevice() override;

    std::string name() const override { return "cpu"; }
    std::string description() const override;
    bool supports(const WeightSource& source, std::string* why) const override;
    int threads() const { return team_.size(); }
    cpu::Isa isa() const { return kernels_.isa; }

    std::unique_ptr<Buffer> allocate(uint64_t bytes) override;
    void write(void* to, const void* from, uint64_t bytes) override;
    void read(void* to, const void* from, uint64_t bytes) override;
    std::unique_ptr<Weight> prepare(const WeightSource& source) override;
    uint64_t pending_bytes() const override { return packer_->pending(); }
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

    void linear_many(std::span<const Projection> projections, Rows x) override;
    void add_rms_norm(Rows x, Rows y, Rows h, const float* gain, float eps) override;
    void gate_up(Rows y, const Weight& gate, const Weight& up, Rows x, Activation activation,
                 Rows scratch) override;
    void expert_gate_up(Rows e, const ExpertWeight& gate, const ExpertWeight& up, Rows x,
                        const Routing& routing, Activation activation, Rows scratch) override;
    void expert_down_combine(Rows y, const ExpertWeight& down, Rows e, const Routing& routing,
                             Rows scratch) override;

  private:
    struct Input;     // activations of one operation, quantised once
    struct Grouped;   // choices sorted by expert
    struct Rotation;  // cosines and sines of a step's positions

    // function(first, last) over [0, rows), in parallel when the work (in floats touched) is worth it.
    template <typename Function>
    void for_rows(int64_t rows, int64_t width, Function&& function) {
        if (rows * width < parallel_floats || team_.size() == 1) return function(int64_t(0), rows);
        team_.run([&](int member) {
            const Range part = part_of(rows, member, team_.size());
            if (part.begin < part.end) function(part.begin, part.end);
        });
    }
    // function(i, member) for i in [0, count), handed out one by one.
    template <typename Function>
    void for_tasks(int64_t count, Function&& function) {
        next_.store(0, std::memory_order_relaxed);
        team_.run([&](int member) {
            for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count;) function(i, member);
        });
    }
    void act(float* y, const float* gate, const float* up, int64_t n, Activation activation) const;
    void prepare_input(Rows x, bool quantised);
    void quantise_part(Rows x, int member);
    void group_choices(const Routing& routing, int64_t first, int64_t experts, bool row_per_choice, Rows x);
    void pack_used_again(std::span<const ExpertWeight* const> weights);
    // A thread's part of an operation on chosen experts: function(task) for tasks until none is left.
    template <typename Function>
    void take_tasks(Rows x, int member, Function&& function);
    // y of a task's choices = its groups of the weight's rows, with their bias.
    void multiply_chosen(const ExpertWeight& weight, size_t task, float* const* y, int member);
    const Rotation& rotation(const Rope& rope, const Step& step);

    static constexpr int64_t parallel_floats = 16384;

    const cpu::Kernels& kernels_;
    const cpu::Elements& elements_;
    ThreadTeam team_;
    Log log_;
    alignas(64) std::atomic<int64_t> next_{0};
    bool fine_ = false;
    std::shared_ptr<cpu::Packer> packer_ = std::make_shared<cpu::Packer>();
    std::unique_ptr<Input> input_;
    std::unique_ptr<Grouped> grouped_;
    std::vector<std::unique_ptr<Rotation>> rotations_;
    std::vector<std::vector<float>> thread_scratch_;
    std::vector<cpu::HostMemory> thread_group_;  // an expert's group, packed on the way
    std::vector<float> shared_scratch_;
    struct HeadPart {
        int32_t kv_head, head, heads;
    };
    std::vector<HeadPart> head_parts_;
};

}  // namespace coterie
