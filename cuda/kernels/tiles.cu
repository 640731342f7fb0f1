// Chooses the tiled kernel of a type.
#include "cuda/kernels/kernel_language.h"
#include "cuda/kernels/tiles.h"
#include "cuda/kernels/types.h"

namespace coterie::cuda {

template <Type type>
cudaError_t launch_tiles(const Product& p, const Grouping& grouping, cudaStream_t stream);

cudaError_t product_tiled(Product p, const Grouping& grouping, cudaStream_t stream) {
    if (p.y.rows == 0 || p.w.out == 0) return cudaSuccess;
    p.aligned = reinterpret_cast<uintptr_t>(p.x.data) % 16 == 0 && p.x.stride % 4 == 0;
    return for_type(p.w.type, [&](auto type) { return launch_tiles<type()>(p, grouping, stream); });
}

}  // namespace coterie::cuda
