// How a model is cut for one rank: which units of each axis the rank holds. Plain data, made by the planner.
// The cut of a tensor follows from its axes (tensor_table.h); a layer's local sizes follow from here.
#pragma once
#include <cstdint>
#include <vector>

#include "model/hyperparameters.h"

namespace coterie {

// What a dimension of a tensor is counted in, and so how it is cut.
enum class Axis {
    none,            // every rank holds all of it
    heads,           // query heads
    kv_heads,        // repeated on several ranks when there are fewer than ranks
    feed_forward,    // columns of the dense FFN, cut at multiples of 32
    expert_width,    // columns inside each expert, cut at multiples of 32
    experts,         // whole experts
    shared_width,    // columns of the shared expert, cut at multiples of 32
    vocabulary,      // rows of the embedding and the head
    value_heads,     // of the delta net; a rank holds those of its key heads
    delta_channels,  // query, key and value channels of the delta net, side by side
    // Numbers added to a sum over ranks (biases): they go to the one rank that holds the first unit summed.
    heads_sum,
    feed_forward_sum,
    expert_sum,  // once per expert
};

struct LayerShare {
    Range heads{0, 0}, kv_heads{0, 0};
    Range feed_forward{0, 0}, expert_width{0, 0}, experts{0, 0}, shared_width{0, 0};
    Range key_heads{0, 0};  // of the delta net
};

struct Share {
    int32_t rank = 0, ranks = 1;
    Range layers{0, 0};  // [begin, end); all of them unless split by layer
    bool has_embedding = true, has_head = true;
    Range vocabulary{0, 0};
    std::vector<LayerShare> layer;  // [layers of the model]

    bool sums() const {
        return has_embedding && has_head && ranks > 1;
    }  // tensor or expert mode: partial sums meet
};

// Everything on one rank.
Share whole_share(const Hyperparameters& h);

// The ranges of a dimension of `extent` elements that this rank holds. layer is -1 for tensors outside
// layers.
std::vector<Range> cut(Axis axis, int64_t extent, const Hyperparameters& h, const Share& share,
                       int32_t layer);

// The attention of a layer as this rank computes it.
Attention local_attention(const Hyperparameters& h, const Share& share, int32_t layer);

}  // namespace coterie
