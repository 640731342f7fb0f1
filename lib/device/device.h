// The first seam of the house: what a model needs of a device.
//
// Plain operations are pure virtual and defined by the reference device's float64 loops. Fused operations
// have a body made of plain ones; the body is the definition, and an override must match it. Activations are
// F32; rows are tokens. Pointers are device addresses and stay fixed between steps; what changes lives in the
// Step. A step allocates nothing. A device chooses its own weight layout in prepare(); nobody above sees it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/threads.h"
#include "device/step.h"
#include "quant/type.h"

namespace coterie {

// A view of activations [rows, width], row-major, `stride` floats from row to row.
struct Rows {
    float* data = nullptr;
    int64_t rows = 0;
    int64_t width = 0;
    int64_t stride = 0;

    Rows() = default;
    Rows(float* d, int64_t r, int64_t w) : data(d), rows(r), width(w), stride(w) {}
    float* row(int64_t i) const { return data + i * stride; }
    // Each row of `parts` equal pieces seen as rows of their own; needs stride == width.
    Rows split(int64_t parts) const { return Rows(data, rows * parts, width / parts); }
};

// What a rank keeps of one tensor of a file. The kept part has shape [in, out, experts] where in, out and
// experts are the totals of the ranges below. Rows are kept in the order of the ranges, which may permute and
// skip.
struct WeightSource {
    std::string name;  // in the file, for messages
    Type type = Type::F32;
    int64_t file_in = 0, file_out = 0;  // shape of one matrix in the file
    std::vector<const std::byte*>
        matrices;                // one per kept expert (one in all for a plain matrix), in file layout
    std::vector<Range> rows;     // of the output dimension
    std::vector<Range> columns;  // of the input dimension; multiples of 32, or of 1 for unquantised types
    bool gather = false;         // rows are looked up (embedding), not multiplied
    // Tells the owner of the mapping that these bytes were copied and their pages may be dropped. May be
    // empty.
    std::function<void(const std::byte* data, uint64_t bytes)> release;

    int64_t in() const;
    int64_t out() const;
    int64_t experts() const { return int64_t(matrices.size()); }
};

// A prepared weight: [in, out, experts] in a layout of the device's own.
class Weight {
  public:
    Weight(Type type, int64_t in, int64_t out, int64_t experts)
        : type(type), in(in), out(out), experts(experts) {}
    virtual ~Weight() = default;
    const Type type;  // as in the file
    const int64_t in, out, experts;
    // What it takes on the device, once all of it has been touched; here: as in the file.
    virtual uint64_t bytes() const {
        const TypeTraits& t = traits(type);
        return uint64_t(double(in) / t.block_elements * t.block_bytes) * uint64_t(out) * uint64_t(experts);
    }
};

// Device memory.
class Buffer {
  public:
    virtual ~Buffer() = default;
    void* data() const { return data_; }
    uint64_t bytes() const { return bytes_; }

  protected:
    void* data_ = nullptr;
    uint64_t bytes_ = 0;
};

// Keys and values of all layers of a rank, in pages of page_tokens tokens.
struct CacheShape {
    struct Layer {
        int32_t kv_heads = 0, key_dim = 0, value_dim = 0;
    };
    std::vector<Layer> layers;                          // attention layers of this rank, in order
    Type key_type = Type::F16, value_type = Type::F16;  // F32, F16 or Q8_0
    int32_t page_tokens = 64;
    int32_t pages = 0;
    // Bytes of one page over all layers.
    uint64_t page_bytes() const;
};
class Cache {
  public:
    explicit Cache(CacheShape shape) : shape(std::move(shape)) {}
    virtual ~Cache() = default;
    const CacheShape shape;
};

// Recurrent state of all delta-net layers of a rank: `slots` of (convolution history, state matrices), F32.
struct StateShape {
    struct Layer {
        int32_t channels = 0, taps = 0;                       // history: [taps - 1, channels], oldest first
        int32_t value_heads = 0, key_dim = 0, value_dim = 0;  // state: [value_heads, value_dim, key_dim]
        int64_t history_floats() const { return int64_t(taps - 1) * channels; }
        int64_t state_floats() const { return int64_t(value_heads) * key_dim * value_dim; }
    };
    std::vector<Layer> layers;
    int32_t slots = 0;
    uint64_t slot_bytes() const;
};
class States {
  public:
    explicit States(StateShape shape) : shape(std::move(shape)) {}
    virtual ~States() = default;
    const StateShape shape;
};

// Rotary embedding of the first `dimensions` of each head; the rest passes through.
struct Rope {
    enum class Pairs { adjacent, halves };  // (2i, 2i+1) as in llama; (i, i + dimensions/2) as in NEOX
    Pairs pairs = Pairs::halves;
    int32_t dimensions = 0;
    const float* frequencies =
        nullptr;             // [dimensions/2] radians per position, device address (scaling included)
    float magnitude = 1.0f;  // factor on cos and sin (YaRN)
};

struct Attention {
    int32_t heads = 0, kv_heads = 0, key_dim = 0, value_dim = 0;
    float scale = 1.0f;
    int32_t window = 0;            // > 0: key j is visible to query i when i - j < window
    float softcap = 0.0f;          // > 0: scores = cap * tanh(scores / cap)
    const float* sinks = nullptr;  // [heads] an extra score per head that carries no value
    // A rank may hold heads that don't start or end with a group: query heads per kv head in the whole model
    // (0: heads / kv_heads), and how many heads of the first kv head's group lie on an earlier rank.
    int32_t group = 0, group_offset = 0;
    int32_t kv_head(int32_t head) const {
        return (group_offset + head) / (group > 0 ? group : heads / kv_heads);
    }
};

struct Router {
    enum class Gating { softmax, sigmoid, selected_softmax, sqrt_softplus };
    int32_t experts = 0, used = 0;
    Gating gating = Gating::softmax;
    bool normalise = true;  // weights /= max(sum, 6.1e-5)
    float scale = 1.0f;
    const float* selection_bias = nullptr;  // [experts] added to the score for the selection only
    int32_t groups = 1, groups_used = 1;
};

// The experts each row chose, best first; ties go to the lower expert number. Global expert numbers.
struct Routing {
    int32_t* experts = nullptr;  // [rows, used]
    float* weights = nullptr;    // [rows, used]
    int64_t rows = 0;
    int32_t used = 0;
};

// One of the best of a row, as a sampler wants them: its place and its value.
struct Ranked {
    int32_t index = -1;  // -1: the row has no more numbers above -inf
    float value = 0;
};

enum class Activation {
    silu,           // g * sigmoid(g) * u
    gelu_tanh,      // gelu(g) * u
    clamped_swiglu  // gpt-oss: g = min(g, 7), u = clamp(u, -7, 7): g * sigmoid(1.702 g) * (u + 1)
};

// Experts [first, first + weight.experts) of the model live here; rows routed elsewhere contribute nothing.
struct ExpertWeight {
    const Weight* weight = nullptr;
    const float* bias = nullptr;  // [experts here, out]
    int32_t first = 0;
};

struct Projection {
    Rows y;
    const Weight* weight = nullptr;
    const float* bias = nullptr;  // [out]
};

struct DeltaRule {
    int32_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
    // Key head of value head j: j mod key_heads when tiled, j div (value_heads / key_heads) otherwise.
    bool tiled = true;
    float query_scale = 1.0f;
};

class Device {
  public:
    virtual ~Device() = default;

    // --- what it is
    // -----------------------------------------------------------------------------------------------
    virtual std::string name() const = 0;         // "cpu", "reference", "cuda:0"
    virtual std::string description() const = 0;  // one line for a person: model, instruction set, threads
    // What keeps the device from its speed or its results from being right at this moment, a sentence; empty:
    // nothing known. Costs up to some milliseconds.
    virtual std::string complaint() const { return {}; }
    // Whether weights of this type and shape can be prepared; if not, why is a sentence. Asked by the
    // planner.
    virtual bool supports(const WeightSource& source, std::string* why) const = 0;

    // --- memory
    // ---------------------------------------------------------------------------------------------------
    virtual std::unique_ptr<Buffer> allocate(uint64_t bytes) = 0;        // zeroed; Failure(out_of_memory)
    virtual void write(void* to, const void* from, uint64_t bytes) = 0;  // host -> device
    virtual void read(void* to, const void* from,
                      uint64_t bytes) = 0;  // device -> host; waits for earlier calls
    virtual std::unique_ptr<Weight> prepare(const WeightSource& source) = 0;
    // Weights that are brought into the device's layout later, when used again or while it is idle. Any
    // thread.
    virtual uint64_t pending_bytes() const { return 0; }
    virtual std::unique_ptr<Cache> make_cache(const CacheShape& shape) = 0;
    virtual void copy_page(Cache& cache, int32_t from, int32_t to) = 0;
    virtual void read_page(const Cache& cache, int32_t page, std::byte* to) = 0;  // page_bytes()
    virtual void write_page(Cache& cache, int32_t page, const std::byte* from) = 0;
    virtual std::unique_ptr<States> make_states(const StateShape& shape) = 0;
    virtual void clear_state(States& states, int32_t slot) = 0;
    virtual void copy_state(States& states, int32_t from, int32_t to) = 0;
    virtual void read_state(const States& states, int32_t slot, std::byte* to) = 0;  // slot_bytes()
    virtual void write_state(States& states, int32_t slot, const std::byte* from) = 0;

    // --- a step
    // ---------------------------------------------------------------------------------------------------
    virtual void begin(const Step& step) { (void)step; }  // new contents; called before a step's operations
    virtual void wait() {}                                // until all calls so far are done
    // Runs calls, or replays what they recorded under the same key: the same calls at the same addresses, for
    // a step of the same shape with other contents. Here: runs them.
    virtual void replay(uint64_t key, const std::function<void()>& calls) {
        (void)key;
        calls();
    }

    // --- plain operations
    // ----------------------------------------------------------------------------------------- y[r] = scale
    // * table[tokens[r] - first]; zero where the token's row is not in [first, first + table.out).
    virtual void embed(Rows y, const Weight& table, const Step& step, float scale, int64_t first) = 0;
    // y = x * rsqrt(mean(x^2) + eps) * gain, per row; gain [width] may be null. y may be x.
    virtual void rms_norm(Rows y, Rows x, const float* gain, float eps) = 0;
    // x = x * rsqrt(sum(x^2) + eps), per head of x [rows, heads * dim], in place; x may be a strided view.
    virtual void l2_norm(Rows x, int32_t heads, float eps) = 0;
    // y = weight x + bias
    virtual void linear(Rows y, const Weight& weight, Rows x, const float* bias) = 0;
    virtual void add(Rows x, Rows y) = 0;  // x += y
    // y = 0: what a rank that holds nothing of a layer's part adds to the sum. Here: written from the host.
    virtual void clear(Rows y);
    // y = act(gate) * up. y may be gate or up.
    virtual void activate(Rows y, Rows gate, Rows up, Activation activation) = 0;
    // y *= sigmoid(gate); gate has y's width, or width 1 for one factor per row.
    virtual void sigmoid_gate(Rows y, Rows gate) = 0;
    virtual void softcap(Rows x, float cap) = 0;  // x = cap * tanh(x / cap)
    // Rotates x [rows, heads * key_dim] in place by the rows' positions.
    virtual void rope(Rows x, int32_t heads, const Rope& rope, const Step& step) = 0;
    // Writes k [rows, kv_heads * key_dim] and v [rows, kv_heads * value_dim] at the rows' positions.
    virtual void store_kv(Cache& cache, int32_t layer, Rows k, Rows v, const Step& step) = 0;
    // y [rows, heads * value_dim] = softmax(scale * q k) v over the row's own sequence, positions <= its own.
    virtual void attend(Rows y, Rows q, const Cache& cache, int32_t layer, const Attention& attention,
                        const Step& step) = 0;
    // scores [rows, experts] are logits.
    virtual void choose_experts(Routing routing, Rows scores, const Router& router) = 0;
    // y[r * used + j] = W[e(r, j)] x + bias; x has a row per step row, or one per (row, choice). Zero rows
    // for experts elsewhere.
    virtual void expert_linear(Rows y, const ExpertWeight& weight, Rows x, const Routing& routing) = 0;
    // y[r] = sum over j of weights(r, j) * e[r * used + j]
    virtual void expert_combine(Rows y, Rows e, const Routing& routing) = 0;
    virtual void select_rows(Rows y, Rows x, const Step& step) = 0;  // y[i] = x[outputs[i]]
    // Causal depthwise convolution with SiLU: y[t, c] = silu(sum over k of taps[c, k] * u[t - K + 1 + k, c]),
    // u = history, then x. taps: [channels, K]. Updates the history. y must not be x.
    virtual void convolve(Rows y, Rows x, const float* taps, States& states, int32_t layer,
                          const Step& step) = 0;
    // decay = softplus(alpha + dt) * a (a log, <= 0); beta = sigmoid(beta). In place, per head; dt and a are
    // [heads].
    virtual void delta_gates(Rows decay, Rows beta, const float* dt, const float* a) = 0;
    // The gated delta rule, token by token per sequence, state S [value_dim, key_dim] per value head (F32);
    // q, k and v may be strided views:
    //   S = exp(decay) S;  d = beta (v - S k);  S += d k^T;  y = S (query_scale q)
    virtual void delta_rule(Rows y, Rows q, Rows k, Rows v, Rows decay, Rows beta, States& states,
                            int32_t layer, const DeltaRule& rule, const Step& step) = 0;

    // The count best of each row of x, best first, of equal ones the lower index; NaN counts as -inf. best
    // [rows, count] is device memory; what is past the numbers above -inf has index -1. Here: picked on the
    // host.
    virtual void rank(Ranked* best, int32_t count, Rows x);
    // The largest count for which rank() and reading its result is quicker than reading the rows; 0: never,
    // as where rows lie in the host's memory.
    virtual int32_t most_ranked() const { return 0; }

    // --- fused operations: the body in device.cpp is the definition
    // -------------------------------------------------
    virtual void linear_many(std::span<const Projection> projections, Rows x);
    // x += y; h = rms_norm(x)
    virtual void add_rms_norm(Rows x, Rows y, Rows h, const float* gain, float eps);
    // RMS norm per head of q and k (gains may be null), rope on both, then store k and v.
    virtual void norm_rope_store(Rows q, Rows k, Rows v, const float* q_gain, const float* k_gain, float eps,
                                 const Rope& rope, const Attention& attention, Cache& cache, int32_t layer,
                                 const Step& step);
    // y = act(Wg x) * (Wu x); scratch has y's shape.
    virtual void gate_up(Rows y, const Weight& gate, const Weight& up, Rows x, Activation activation,
                         Rows scratch);
    // e[r * used + j] = act(Wg_e x) * (Wu_e x); scratch has e's shape.
    virtual void expert_gate_up(Rows e, const ExpertWeight& gate, const ExpertWeight& up, Rows x,
                                const Routing& routing, Activation activation, Rows scratch);
    // y[r] = sum over j of weight(r, j) * (Wd_e e[r * used + j] + bias); scratch is [rows * used, y.width].
    virtual void expert_down_combine(Rows y, const ExpertWeight& down, Rows e, const Routing& routing,
                                     Rows scratch);
};

}  // namespace coterie
