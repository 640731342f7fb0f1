// Products of weights with many rows of activations, dense or routed to experts: tiles of outputs and rows.
#pragma once
#include "cuda/kernels/products.h"

namespace coterie::cuda {

// Rows that meet the same matrix: places [begin, begin + count) of an order of choices. matrix -1: their
// expert is elsewhere, and they become zeros.
struct RowTile {
    int32_t matrix, begin, count;
};

// The choices of a step sorted by expert and cut into tiles, in device memory.
struct Grouping {
    int32_t* order = nullptr;  // [choices]
    RowTile* tiles = nullptr;  // [most_tiles()]; those left over have count 0
    int32_t tile_rows = 0, most = 0;
};

// Rows of a tile that suit so many choices among so many experts.
int32_t rows_of_tile(int64_t choices, int32_t experts);
// Tiles that choices can need at most, whichever experts they are for; experts: of the weight here.
int32_t most_tiles(int64_t choices, int32_t experts, int32_t tile_rows);
constexpr int32_t most_grouped_experts = 1024;

// One block: counts, running sums, then each choice takes its place. The order within an expert is any.
cudaError_t group_choices(const Grouping& to, const Choices& choices, int64_t count, int32_t experts,
                          cudaStream_t stream);

// y = w x + bias, or routed as product() does it. With p.up nothing: gate and up are two of these.
cudaError_t product_tiled(Product p, const Grouping& grouping, cudaStream_t stream);
constexpr int64_t fewest_tiled_rows = 9, fewest_tiled_routed_rows = 17;

}  // namespace coterie::cuda
