// Chooses the mat-vec kernel of a type and how many lanes share an output.
#include "cuda/kernels/kernel_language.h"
#include "cuda/kernels/products.h"
#include "cuda/kernels/types.h"

namespace coterie::cuda {

template <Type type>
cudaError_t launch_product(const Product& p, const Further& further, cudaStream_t stream);
template <Type type>
cudaError_t launch_combined(const Product& p, cudaStream_t stream);

namespace {

// Lanes that share an output: the most that leave none idle, or 32 where that would be few.
int32_t shared_by(int32_t pieces) {
    for (int32_t lanes = 32; lanes >= 8; lanes /= 2)
        if (pieces % lanes == 0) return lanes;
    return pieces > 64 ? 32 : pieces > 16 ? 8 : 4;
}

cudaError_t launch_prepared(Product& p, const Further* further, cudaStream_t stream) {
    if (p.y.rows == 0 || p.w.out == 0) return cudaSuccess;
    p.lanes = shared_by(is_packed(p.w.type) ? p.w.groups : (p.w.in + 3) / 4);
    p.aligned = reinterpret_cast<uintptr_t>(p.x.data) % 16 == 0 && p.x.stride % 4 == 0;
    return for_type(p.w.type, [&](auto type) {
        return further ? launch_product<type()>(p, *further, stream) : launch_combined<type()>(p, stream);
    });
}

}  // namespace

cudaError_t product(Product p, cudaStream_t stream, const Further& further) {
    return launch_prepared(p, &further, stream);
}
cudaError_t product_combined(Product p, cudaStream_t stream) {
    return launch_prepared(p, nullptr, stream);
}

}  // namespace coterie::cuda
