// Tiled products of the types with 32-column blocks; see tile_kernels.h.
#include "cuda/kernels/tile_kernels.h"

namespace coterie::cuda {

COTERIE_TILES(Type::Q4_0);
COTERIE_TILES(Type::Q4_1);
COTERIE_TILES(Type::Q5_0);
COTERIE_TILES(Type::Q5_1);
COTERIE_TILES(Type::Q8_0);

}  // namespace coterie::cuda
