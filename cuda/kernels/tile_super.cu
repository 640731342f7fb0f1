// Tiled products of the types with K-quants; see tile_kernels.h.
#include "cuda/kernels/tile_kernels.h"

namespace coterie::cuda {

COTERIE_TILES(Type::Q3_K);
COTERIE_TILES(Type::Q4_K);
COTERIE_TILES(Type::Q5_K);
COTERIE_TILES(Type::Q6_K);

}  // namespace coterie::cuda
