// CUDA kernel: router, a block per row.
#include "kernels/cuda/grid.h"
#include "kernels/ref/ranking.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace {

/// An expert's rank is the number of experts before it: those of higher probability, and of equal ones the lower ids. A
/// thread counts them for one expert at a time, against probabilities that the block brings in piece by piece.
__global__ void __launch_bounds__(kThreads) router_kernel(Batch batch, RouterArgs a) {
  __shared__ float shared[kStrides], maxima[kWarp], piece[kThreads];
  const int64_t r = blockIdx.x;
  const float* logits = a.logits + r * a.stride;
  int32_t* ids = a.ids + r * a.used;
  float* weights = a.weights + r * a.used;
  bool bad = false;
  for (int64_t e = threadIdx.x; e < a.experts; e += kThreads) bad = bad || !is_finite(logits[e]);
  if (__syncthreads_or(bad) != 0) {
    if (threadIdx.x == 0) {
      set_status(batch, r, kNonFinite);
      rank_nothing(a.used, ids, weights);
    }
    return;  // the whole block
  }
  const float m = block_max(logits, a.experts, maxima);
  const float sum = strided_sum(a.experts, shared, [&](float p, int64_t e) { return p + exp(logits[e] - m); });
  for (int32_t e0 = 0; e0 < a.experts; e0 += kThreads) {
    const int32_t e = e0 + static_cast<int32_t>(threadIdx.x);
    const float mine = e < a.experts ? exp(logits[e] - m) / sum : 0.0f;
    int32_t rank = 0;
    for (int32_t f0 = 0; f0 < a.experts; f0 += kThreads) {
      const int32_t f = f0 + static_cast<int32_t>(threadIdx.x);
      __syncthreads();  // the piece before may still be read
      piece[threadIdx.x] = f < a.experts ? exp(logits[f] - m) / sum : 0.0f;
      __syncthreads();
      const int32_t count = a.experts - f0 < kThreads ? a.experts - f0 : kThreads;
      for (int32_t i = 0; i < count; ++i) rank += piece[i] > mine || (piece[i] == mine && f0 + i < e) ? 1 : 0;
    }
    if (e < a.experts && rank < a.used) {
      ids[rank] = e;
      weights[rank] = mine;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0 && a.normalise) share_weights(a.used, weights);
}

}  // namespace

void router(device::Queue& queue, const Batch& batch, const RouterArgs& a) {
  launch(queue, batch.rows, kThreads, router_kernel, batch, a);
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
