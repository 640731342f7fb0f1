// An NVIDIA GPU behind the device seam. One stream in order; every operation is a few launches of kernels/
// and returns before they ran; wait() and read() wait, with a deadline. Steps of a shape seen before are
// replayed as graphs. A device that stopped answering ends every call with device_lost, and the process
// lives.
//
// One host thread at a time may call it.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "cuda/kernels/attention.h"
#include "cuda/kernels/elements.h"
#include "cuda/kernels/products.h"
#include "cuda/kernels/recurrent.h"
#include "cuda/kernels/tiles.h"
#include "cuda/memory.h"
#include "cuda/step_mirror.h"
#include "device/device.h"

namespace coterie::cuda {

constexpr int oldest_major = 7;  // compute capability

struct CudaOptions {
    int device = 0;
    bool graphs = true;       // replay() records
    double deadline_s = 120;  // how long a wait may take before the device counts as lost
    int pack_threads = 0;     // that read and pack a weight when it is loaded; 0: up to 4 of the usable cores
};

std::string pci_text(const cudaDeviceProp& properties);  // "0000:65:00.0"

class CudaDevice : public Device {
  public:
    // Throws unsupported for a device that is not there or too old.
    explicit CudaDevice(const CudaOptions& options = {});
    ~CudaDevice() override;

    std::string name() const override;
    std::string description() const override;
    std::string complaint() const override;
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
    void wait() override;
    void replay(uint64_t key, const std::function<void()>& calls) override;

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

    void rank(Ranked* best, int32_t count, Rows x) override;
    int32_t most_ranked() const override;

    void linear_many(std::span<const Projection> projections, Rows x) override;
    void add_rms_norm(Rows x, Rows y, Rows h, const float* gain, float eps) override;
    void norm_rope_store(Rows q, Rows k, Rows v, const float* q_gain, const float* k_gain, float eps,
                         const Rope& rope, const Attention& attention, Cache& cache, int32_t layer,
                         const Step& step) override;
    void gate_up(Rows y, const Weight& gate, const Weight& up, Rows x, Activation activation,
                 Rows scratch) override;
    void expert_gate_up(Rows e, const ExpertWeight& gate, const ExpertWeight& up, Rows x,
                        const Routing& routing, Activation activation, Rows scratch) override;
    void expert_down_combine(Rows y, const ExpertWeight& down, Rows e, const Routing& routing,
                             Rows scratch) override;

  private:
    struct Graph;
    void done(cudaError_t error, const char* doing) const;  // of a launch or a call
    void not_recorded(const char* what) const;              // throws when calls are being recorded
    void* scratch(DeviceMemory& memory, uint64_t bytes, const char* what);
    void rounded(Product& product, Rows x);  // sets product's input
    // Where norms and activations round what they make in the same launch, for the products that read it
    // next; no codes where y's width forbids it. It is good until something is written to y.
    Rounded rounding_of(Rows y);
    void written(Rows y);
    void record(Graph& graph, const std::function<void()>& calls);
    void copy_out(void* to, const void* from, uint64_t bytes);
    void copy_in(void* to, const void* from, uint64_t bytes);
    // Choices sorted by expert, where there are enough rows for tiles and few enough experts; empty
    // otherwise.
    Grouping grouping(const Choices& choices, int64_t rows, int32_t experts);
    void multiply(const Product& product, const Grouping& grouping);
    void product_of(Product product, Rows y, const Weight& weight, Rows x, const float* bias,
                    const Further& further = {});

    CudaOptions options_;
    int processors_ = 1;
    std::string card_, pci_;
    Stream stream_;
    Event finished_, copied_[2];  // copied_: a part of the staging memory, when weights are loaded
    StepMirror step_;
    PinnedMemory staging_;  // of copies to and from the host
    DeviceMemory rounded_codes_, rounded_scales_, made_codes_, made_scales_, attention_partial_, order_,
        tiles_, ranking_;
    Rows made_;                // the rows that made_codes_ holds rounded; none: data is null
    uint64_t generation_ = 0;  // grows when an address that a graph may hold has changed
    bool recording_ = false;
    std::map<uint64_t, Graph> graphs_;
};

}  // namespace coterie::cuda
