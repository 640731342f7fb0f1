// Tiled products of the types with floats; see tile_kernels.h.
#include "cuda/kernels/tile_kernels.h"

namespace coterie::cuda {

COTERIE_TILES(Type::F32);
COTERIE_TILES(Type::F16);
COTERIE_TILES(Type::BF16);

}  // namespace coterie::cuda
