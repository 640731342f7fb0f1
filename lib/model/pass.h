// One forward pass on one rank: what forward() is given, and the blocks architectures share. Every block
// takes the normed input h and gives y, this rank's part of a sum (zero where it holds nothing); the ranks
// meet in sum_add_norm().
#pragma once
#include <cstdint>
#include <functional>

#include "device/communicator.h"
#include "device/device.h"
#include "model/rank_weights.h"

namespace coterie {

// Activation memory of a step, handed out from one region that the plan sized. Nothing is freed inside a step
// but in reverse order.
class Scratch {
  public:
    Scratch(void* base, uint64_t capacity) : base_(static_cast<std::byte*>(base)), capacity_(capacity) {}
    Rows rows(int64_t rows, int64_t width);
    Routing routing(int64_t rows, int32_t used);
    uint64_t mark() const { return used_; }
    void release(uint64_t mark) { used_ = mark; }
    uint64_t peak() const { return peak_; }

  private:
    void* take(uint64_t bytes);
    std::byte* base_;
    uint64_t capacity_, used_ = 0, peak_ = 0;
};

// Takes what a pass makes of its wanted rows, instead of leaving it in the pass's logits: as many rows at a
// time as those have room for. Or, if hidden, all rows as they are before the output head, normed.
struct OutputTap {
    bool hidden = false;
    std::function<void(int64_t first, Rows rows)> take;  // rows first, first + 1, ... of the wanted
};

struct Pass {
    Device& device;
    Communicator& communicator;
    const Hyperparameters& h;
    const Share& share;
    const RankWeights& weights;
    Cache* cache;    // null when no layer here has attention
    States* states;  // null when no layer here is recurrent
    Scratch& scratch;
    const Step& step;
    Rows logits;  // [outputs, vocabulary], filled by end_layers(); its memory belongs to the caller
    const OutputTap* tap = nullptr;

    const Weight& matrix(Part part, int32_t layer = -1) const;  // must be there
    const float* vector(Part part, int32_t layer = -1) const { return weights.vector(part, layer); }
    Rows rows(int64_t width) const { return scratch.rows(step.rows(), width); }
    int32_t cache_layer(int32_t layer) const;  // the index of an attention layer among those of this rank
    int32_t state_layer(int32_t layer) const;  // the index of a recurrent layer among those of this rank
};

// Frees a block's scratch when it ends.
class Scope {
  public:
    explicit Scope(Pass& pass) : scratch_(pass.scratch), mark_(pass.scratch.mark()) {}
    ~Scope() { scratch_.release(mark_); }

  private:
    Scratch& scratch_;
    uint64_t mark_;
};

// x: token embeddings, or what the rank with the layers before sends.
Rows begin_layers(Pass& pass);
// h = x normed for the first layer of this rank, if it has any.
void first_norm(Pass& pass, Rows h, Rows x);
// y = sum over ranks of y; x += y; h = rms_norm(x; gain)
void sum_add_norm(Pass& pass, Rows x, Rows y, Rows h, const float* gain);
// As above, but y is normed by itself before it is added (Gemma).
void sum_norm_add_norm(Pass& pass, Rows x, Rows y, Rows h, const float* y_gain, const float* gain);
// The norm that follows layer `layer`: of the next layer, or the output norm, or none at the last layer of a
// rank that sends on.
const float* next_norm(const Pass& pass, int32_t layer);
// h: output-normed rows -> logits of the wanted rows; or sends x to the rank with the layers after.
void end_layers(Pass& pass, Rows x, Rows h);

// The whole pass of a decoder that norms before each block: attention or delta net, then experts or a dense
// FFN.
void pre_norm_layers(Pass& pass, Activation activation);

// Softmax attention with whatever the layer's weights have: biases, head norms, an output gate, sinks, a
// window.
void attention(Pass& pass, int32_t layer, Rows h, Rows y);
// Dense gated FFN.
void feed_forward(Pass& pass, int32_t layer, Rows h, Rows y, Activation activation);
// Routed experts, and the shared expert if there is one.
void experts(Pass& pass, int32_t layer, Rows h, Rows y, Activation activation);
// Gated delta net.
void delta_net(Pass& pass, int32_t layer, Rows h, Rows y);

}  // namespace coterie
