// CUDA kernel: the gates of PLE, a block per row and stream.
#include "kernels/cuda/grid.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace {

/// Threads take the segments of the chain, kThreads at a time; thread 0 adds their sums up in order.
__global__ void __launch_bounds__(kThreads) ple_gate_kernel(Batch batch, PleGateArgs a, float root) {
  __shared__ float sums[kThreads], weight;
  const int64_t r = blockIdx.x / a.hc, first = blockIdx.x % a.hc * int64_t{a.hidden};
  const float *key = a.key + r * a.stride + first, *query = a.query + r * a.stride + first;
  const int64_t segments = round_up_div(a.hidden, kSegment);
  float dot = 0.0f;
  for (int64_t s0 = 0; s0 < segments; s0 += kThreads) {
    const int64_t begin = (s0 + threadIdx.x) * kSegment, end = smaller(begin + kSegment, a.hidden);
    float acc = 0.0f;
    EVROS_UNROLL_8
    for (int64_t k = begin; k < end; ++k) acc = fma(key[k], query[k], acc);
    sums[threadIdx.x] = acc;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int64_t s = s0; s < smaller(s0 + kThreads, segments); ++s) dot = s == 0 ? sums[0] : dot + sums[s - s0];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    const float s = dot / root;
    if (!is_finite(s)) set_status(batch, r, kNonFinite);
    const float magnitude = sqrt(abs(s) > 1e-6f ? abs(s) : 1e-6f);
    weight = s == 0.0f ? 0.5f : sigmoid(s < 0.0f ? -magnitude : magnitude);
  }
  __syncthreads();
  const float* value = a.value + r * a.value_stride;
  float* gv = a.gv + r * a.gv_stride + first;
  for (int64_t i = threadIdx.x; i < a.hidden; i += kThreads) gv[i] = weight * value[i];
}

}  // namespace

void ple_gate(device::Queue& queue, const Batch& batch, const PleGateArgs& a) {
  launch(queue, int64_t{batch.rows} * a.hc, kThreads, ple_gate_kernel, batch, a, sqrt(static_cast<float>(a.hidden)));
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
