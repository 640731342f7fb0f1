// Mat-vec kernels of the types with floats; see product_kernels.h.
#include "cuda/kernels/product_kernels.h"

namespace coterie::cuda {

COTERIE_PRODUCTS(Type::F32);
COTERIE_PRODUCTS(Type::F16);
COTERIE_PRODUCTS(Type::BF16);

}  // namespace coterie::cuda
