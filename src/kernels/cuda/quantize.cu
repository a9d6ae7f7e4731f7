// CUDA kernel: quantisation of activations, a warp per group of 32.
#include "kernels/cuda/quantize.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace {

__global__ void __launch_bounds__(kThreads) quantize_kernel(Batch batch, QuantizeArgs a) {
  const int64_t groups = a.cols / 32, unit = thread_index() / kWarp, r = unit / groups, group = unit % groups;
  if (r >= batch.rows) return;  // the whole warp
  const float x = a.x[r * a.x_stride + group * 32 + lane_index()];
  const bool clean = quantize_group(x, a.out.segments + r * quant_segments(a.cols), group);
  if (!clean && lane_index() == 0) set_status(batch, r, kNonFinite);
}

}  // namespace

void quantize(device::Queue& queue, const Batch& batch, const QuantizeArgs& a) {
  const int64_t warps = batch.rows * (a.cols / 32);
  launch(queue, round_up_div(warps * kWarp, kThreads), kThreads, quantize_kernel, batch, a);
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
