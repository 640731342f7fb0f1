// Tiled products of the types with codes that index a table; see tile_kernels.h.
#include "cuda/kernels/tile_kernels.h"

namespace coterie::cuda {

COTERIE_TILES(Type::IQ4_NL);
COTERIE_TILES(Type::IQ4_XS);
COTERIE_TILES(Type::MXFP4);

}  // namespace coterie::cuda
