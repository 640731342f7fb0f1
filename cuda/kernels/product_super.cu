// Mat-vec kernels of the types with K-quants; see product_kernels.h.
#include "cuda/kernels/product_kernels.h"

namespace coterie::cuda {

COTERIE_PRODUCTS(Type::Q3_K);
COTERIE_PRODUCTS(Type::Q4_K);
COTERIE_PRODUCTS(Type::Q5_K);
COTERIE_PRODUCTS(Type::Q6_K);

}  // namespace coterie::cuda
