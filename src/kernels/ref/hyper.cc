// Reference kernels: hyper-connections.
#include "kernels/for_ranges.h"
#include "kernels/ref/chains.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

void hc_low(device::Queue& queue, const Batch& batch, const HcLowArgs& a) {
  const float ih = 1.0f / static_cast<float>(a.hc);
  for_each(queue, batch.rows, 8 * a.rank, [&](int64_t r) {
    float* lo = a.lo + r * a.stride;
    for (int64_t i = 0; i < a.rank; ++i) lo[i] = silu(lo[i] * ih);
  });
}

void hc_mix(device::Queue& queue, const Batch& batch, const HcMixArgs& a) {
  const float ih = 1.0f / static_cast<float>(a.hc);
  for_each(queue, batch.rows, int64_t{8} * a.hc * a.hidden, [&](int64_t r) {
    const float *up = a.up + r * a.stride, *normed = a.normed + r * a.stride;
    float* u = a.u + r * a.u_stride;
    for (int64_t i = 0; i < a.hidden; ++i) {
      float acc = 0.0f;
      for (int64_t s = 0; s < a.hc; ++s) acc = fma(sigmoid(up[s * a.hidden + i]), normed[s * a.hidden + i], acc);
      u[i] = acc * ih;
    }
  });
}

void hc_write(device::Queue& queue, const Batch& batch, const HcWriteArgs& a) {
  const float ih = 1.0f / static_cast<float>(a.hc);
  for_each(queue, batch.rows, int64_t{a.hc} * a.hidden, [&](int64_t r) {
    const float* y = a.y + r * a.y_stride;
    for (int64_t s = 0; s < a.hc; ++s) {
      const float amount = 2.0f * sigmoid(a.inject[r * a.hc + s] * ih);
      float* x = a.x + r * a.x_stride + s * a.hidden;
      for (int64_t i = 0; i < a.hidden; ++i) x[i] = fma(amount, y[i], x[i]);
    }
  });
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
