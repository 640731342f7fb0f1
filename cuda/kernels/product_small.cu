// Mat-vec kernels of the types with 32-column blocks; see product_kernels.h.
#include "cuda/kernels/product_kernels.h"

namespace coterie::cuda {

COTERIE_PRODUCTS(Type::Q4_0);
COTERIE_PRODUCTS(Type::Q4_1);
COTERIE_PRODUCTS(Type::Q5_0);
COTERIE_PRODUCTS(Type::Q5_1);
COTERIE_PRODUCTS(Type::Q8_0);

}  // namespace coterie::cuda
