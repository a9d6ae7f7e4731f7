// CUDA kernels: norms, a block per row and group, and rotary positions.
#include "kernels/cuda/grid.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace {

/// rms_scale() by a block.
__device__ float block_rms_scale(const float* x, int64_t n, float eps, float (&shared)[kStrides]) {
  return 1.0f / sqrt(block_sum_squares(x, n, shared) / static_cast<float>(n) + eps);
}

__global__ void __launch_bounds__(kThreads) rms_norm_kernel(Batch batch, RmsNormArgs a) {
  __shared__ float shared[kStrides];
  const int64_t r = blockIdx.x / a.groups, group = blockIdx.x % a.groups;
  const float* x = a.x + r * a.x_stride + group * a.x_group_stride;
  const float* gain = a.gain + group * a.gain_stride;
  float* y = a.y + r * a.y_stride + group * a.y_group_stride;
  const float scale = block_rms_scale(x, a.width, a.eps, shared);
  if (threadIdx.x == 0 && scale == 0.0f) set_status(batch, r, kNonFinite);  // the squares overflowed
  for (int64_t i = threadIdx.x; i < a.width; i += blockDim.x) y[i] = (x[i] * scale) * gain[i];
}

__global__ void __launch_bounds__(kThreads) gdn_qk_norm_kernel(Batch batch, GdnQkNormArgs a, float query_scale) {
  __shared__ float shared[kStrides];
  const int64_t r = blockIdx.x / a.key_heads, head = blockIdx.x % a.key_heads;
  float* q = a.qkv + r * a.stride + head * a.key_dim;
  float* k = q + int64_t{a.key_heads} * a.key_dim;
  const float rq = 1.0f / sqrt(block_sum_squares(q, a.key_dim, shared) + 1e-6f);
  const float rk = 1.0f / sqrt(block_sum_squares(k, a.key_dim, shared) + 1e-6f);
  if (threadIdx.x == 0 && (rq == 0.0f || rk == 0.0f)) set_status(batch, r, kNonFinite);  // the squares overflowed
  for (int64_t i = threadIdx.x; i < a.key_dim; i += blockDim.x) {
    q[i] = (q[i] * rq) * query_scale;
    k[i] = k[i] * rk;
  }
}

__global__ void __launch_bounds__(kThreads) gdn_out_norm_kernel(Batch batch, GdnOutNormArgs a) {
  __shared__ float shared[kStrides];
  const int64_t r = blockIdx.x / a.value_heads, head = blockIdx.x % a.value_heads;
  float* o = a.o + r * a.o_stride + head * a.value_dim;
  const float* z = a.z + r * a.z_stride + head * a.value_dim;
  const float scale = block_rms_scale(o, a.value_dim, a.eps, shared);
  if (threadIdx.x == 0 && scale == 0.0f) set_status(batch, r, kNonFinite);  // the squares overflowed
  for (int64_t i = threadIdx.x; i < a.value_dim; i += blockDim.x) {
    o[i] = ((o[i] * scale) * a.w[i]) * (a.silu ? silu(z[i]) : sigmoid(z[i]));
  }
}

/// Threads for rows of n elements: the 64 partials at least.
int norm_threads(int64_t n) { return n <= 128 ? kStrides : kThreads; }

}  // namespace

void rms_norm(device::Queue& queue, const Batch& batch, const RmsNormArgs& a) {
  launch(queue, int64_t{batch.rows} * a.groups, norm_threads(a.width), rms_norm_kernel, batch, a);
}

void gdn_qk_norm(device::Queue& queue, const Batch& batch, const GdnQkNormArgs& a) {
  launch(queue, int64_t{batch.rows} * a.key_heads, norm_threads(a.key_dim), gdn_qk_norm_kernel, batch, a,
         inverse_sqrt(a.key_dim));
}

void gdn_out_norm(device::Queue& queue, const Batch& batch, const GdnOutNormArgs& a) {
  launch(queue, int64_t{batch.rows} * a.value_heads, norm_threads(a.value_dim), gdn_out_norm_kernel, batch, a);
}

void rope(device::Queue& queue, const Batch& batch, const RopeArgs& a) {
  const int64_t half = a.dims / 2;
  for_each_element(queue, batch.rows, a.groups * half, [=] __device__(int64_t r, int64_t pair) {
    const int64_t i = pair % half;
    float* x = a.x + r * a.x_stride + pair / half * a.x_group_stride;
    const float c = a.table[r * a.dims + 2 * i], s = a.table[r * a.dims + 2 * i + 1], x0 = x[i], x1 = x[i + half];
    x[i] = fma(x0, c, -(x1 * s));
    x[i + half] = fma(x0, s, x1 * c);
  });
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
