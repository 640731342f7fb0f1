// Mat-vec kernels of the types with codes that index a table; see product_kernels.h.
#include "cuda/kernels/product_kernels.h"

namespace coterie::cuda {

COTERIE_PRODUCTS(Type::IQ4_NL);
COTERIE_PRODUCTS(Type::IQ4_XS);
COTERIE_PRODUCTS(Type::MXFP4);

}  // namespace coterie::cuda
