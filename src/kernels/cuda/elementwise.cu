// CUDA kernels whose outputs are functions of one element of each input, a thread per element.
#include "kernels/cuda/grid.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

void swiglu(device::Queue& queue, const Batch& batch, const SwigluArgs& a) {
  for_each_element(queue, batch.rows, a.width, [=] __device__(int64_t r, int64_t i) {
    a.y[r * a.y_stride + i] = silu(a.gate[r * a.gate_stride + i]) * a.up[r * a.up_stride + i];
  });
}

void check_finite(device::Queue& queue, const Batch& batch, const CheckFiniteArgs& a) {
  for_each_element(queue, batch.rows, a.width, [=] __device__(int64_t r, int64_t i) {
    if (!is_finite(a.x[r * a.x_stride + i])) set_status(batch, r, kNonFinite);
  });
}

void hc_low(device::Queue& queue, const Batch& batch, const HcLowArgs& a) {
  const float ih = 1.0f / static_cast<float>(a.hc);
  for_each_element(queue, batch.rows, a.rank, [=] __device__(int64_t r, int64_t i) {
    float& lo = a.lo[r * a.stride + i];
    lo = silu(lo * ih);
  });
}

void hc_mix(device::Queue& queue, const Batch& batch, const HcMixArgs& a) {
  const float ih = 1.0f / static_cast<float>(a.hc);
  for_each_element(queue, batch.rows, a.hidden, [=] __device__(int64_t r, int64_t i) {
    const float *up = a.up + r * a.stride + i, *normed = a.normed + r * a.stride + i;
    float acc = 0.0f;
    for (int64_t s = 0; s < a.hc; ++s) acc = fma(sigmoid(up[s * a.hidden]), normed[s * a.hidden], acc);
    a.u[r * a.u_stride + i] = acc * ih;
  });
}

void hc_write(device::Queue& queue, const Batch& batch, const HcWriteArgs& a) {
  const float ih = 1.0f / static_cast<float>(a.hc);
  for_each_element(queue, batch.rows, a.hidden, [=] __device__(int64_t r, int64_t i) {
    const float y = a.y[r * a.y_stride + i];
    for (int64_t s = 0; s < a.hc; ++s) {
      float& x = a.x[r * a.x_stride + s * a.hidden + i];
      x = fma(2.0f * sigmoid(a.inject[r * a.hc + s] * ih), y, x);
    }
  });
}

void gdn_gates(device::Queue& queue, const Batch& batch, const GdnGatesArgs& a) {
  for_each_element(queue, batch.rows, a.value_heads, [=] __device__(int64_t r, int64_t h) {
    float &alpha = a.alpha[r * a.stride + h], &beta = a.beta[r * a.stride + h];
    alpha = exp(a.a[h] * softplus(alpha + a.dt[h]));
    beta = sigmoid(beta);
  });
}

void head_gate(device::Queue& queue, const Batch& batch, const HeadGateArgs& a) {
  for_each_element(queue, batch.rows, int64_t{a.heads} * a.width, [=] __device__(int64_t r, int64_t i) {
    float& out = a.out[r * a.out_stride + i];
    out = out * sigmoid(a.gate[r * a.gate_stride + i / a.width * a.gate_head_stride + i % a.width]);
  });
}

void shared_add(device::Queue& queue, const Batch& batch, const SharedAddArgs& a) {
  for_each_element(queue, batch.rows, a.width, [=] __device__(int64_t r, int64_t i) {
    float& y = a.y[r * a.y_stride + i];
    y = fma(sigmoid(a.gate[r]), a.shared[r * a.shared_stride + i], y);
  });
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
