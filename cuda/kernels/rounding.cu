// Activations to 8 bits: per 32 columns d = max |x| / 127, q = round(x / d), and the sums of q over 16
// columns.
//
// 8 lanes per group, 4 columns each: 4 groups a warp. Grid (groups / 16, rows), 128 threads. Bytes per
// column: 4 read, 1.25 written. Bound by latency at one row.
#include "cuda/kernels/kernel_language.h"
#include "cuda/kernels/rounding.h"

namespace coterie::cuda {

namespace {

constexpr int threads = 128, groups_of_block = threads / 8;

__global__ void __launch_bounds__(threads) round_kernel(Rounded to, View x, bool aligned) {
    const int group = int(blockIdx.x) * groups_of_block + int(threadIdx.x) / 8, part = int(threadIdx.x) & 7;
    const int64_t row = blockIdx.y;
    const bool inside = group < to.groups;
    float4 v = make_float4(0, 0, 0, 0);
    const float* from = x.data + row * x.stride + group * group_columns + part * 4;
    if (inside && aligned) v = load_whole(reinterpret_cast<const float4*>(from));
    if (inside && !aligned) v = make_float4(from[0], from[1], from[2], from[3]);
    const float most = lanes_max(fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))), 8);
    // Below this the quotient would leave the range of F32; such numbers are as good as zero.
    const bool tiny = most < 1e-35f;
    const float d = tiny ? 0.0f : most / 127.0f, inverse = tiny ? 0.0f : 127.0f / most;
    const int q[4] = {int(rintf(v.x * inverse)), int(rintf(v.y * inverse)), int(rintf(v.z * inverse)),
                      int(rintf(v.w * inverse))};
    const int sum = lanes_sum(q[0] + q[1] + q[2] + q[3], 4);
    const int other = __shfl_xor_sync(0xffffffffu, sum, 4);
    if (!inside) return;
    const uint32_t bytes = (q[0] & 255) | (q[1] & 255) << 8 | (q[2] & 255) << 16 | uint32_t(q[3] & 255) << 24;
    const int64_t at = row * to.groups + group;
    reinterpret_cast<uint32_t*>(
        to.codes)[(row * to.groups * 2 + part / 4 * to.groups + group) * 4 + (part & 3)] = bytes;
    if (part == 0) to.scales[at] = RoundedScale{d, {int16_t(sum), int16_t(other)}};
}

}  // namespace

cudaError_t round_rows(const Rounded& to, View x, cudaStream_t stream) {
    if (x.rows == 0 || to.groups == 0) return cudaSuccess;
    const bool aligned = reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && x.stride % 4 == 0;
    return launch({dim3(parts_of(to.groups, groups_of_block), unsigned(x.rows)), dim3(threads), 0, stream,
                   "round_rows"},
                  round_kernel, to, x, aligned);
}

}  // namespace coterie::cuda
