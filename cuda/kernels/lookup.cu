// Embedding: a thread decodes one group of 32 columns, or 4 floats. Grid (pieces / 128, rows). Bytes: the
// rows looked up, and 4 per column written. Bound by latency.
#include "cuda/kernels/groups.h"
#include "cuda/kernels/kernel_language.h"
#include "cuda/kernels/lookup.h"
#include "cuda/kernels/products.h"
#include "cuda/kernels/types.h"

namespace coterie::cuda {

namespace {

constexpr int threads = 128;

template <Type type>
__device__ __forceinline__ void decode_group(float* to, const Packed& w, int64_t row, int group,
                                             float scale) {
    constexpr Format f = format_of(type);
    int codes[8];
    load_codes<type>(w, row, group, codes);
    const Factors factors = load_factors<type>(w, row, group);
    for (int i = 0; i < 32; ++i) {
        const int code = int8_t(codes[i / 4] >> (8 * (i & 3))) - f.offset;
        to[i] = scale * ((i < 16 ? factors.first : factors.second) * float(code) - factors.minimum);
    }
}

template <Type type>
__global__ void __launch_bounds__(threads)
    look_up_kernel(View y, Packed table, const int32_t* tokens, float scale, int64_t first) {
    const int piece = int(blockIdx.x) * threads + int(threadIdx.x);
    const int64_t row = blockIdx.y, at = tokens[row] - first;
    const bool here = at >= 0 && at < table.out;
    constexpr int columns = is_packed(type) ? group_columns : 4;
    const int begin = piece * columns;
    if (begin >= y.width) return;
    float* to = y.data + row * y.stride + begin;
    if constexpr (is_packed(type)) {
        if (here) return decode_group<type>(to, table, at, piece, scale);
    }
    for (int i = 0; i < columns && begin + i < y.width; ++i) {
        to[i] = 0;
        if constexpr (!is_packed(type))
            if (here) to[i] = scale * float_weight<type>(table, at * table.stride + begin + i);
    }
}

template <Type type>
cudaError_t look_up_as(View y, const Packed& table, const int32_t* tokens, float scale, int64_t first,
                       cudaStream_t stream) {
    const int columns = is_packed(type) ? group_columns : 4;
    return launch(
        {dim3(parts_of(y.width, columns * threads), unsigned(y.rows)), dim3(threads), 0, stream, "look_up"},
        look_up_kernel<type>, y, table, tokens, scale, first);
}

}  // namespace

cudaError_t look_up(View y, const Packed& table, const int32_t* tokens, float scale, int64_t first,
                    cudaStream_t stream) {
    if (y.rows == 0 || y.width == 0) return cudaSuccess;
    return for_type(table.type,
                    [&](auto type) { return look_up_as<type()>(y, table, tokens, scale, first, stream); });
}

}  // namespace coterie::cuda
