// Vector kernels: norms and rotary positions. Lanes are columns; the partials of a norm's sum lie side by side.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/for_ranges.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {
namespace {

/// x[i] *= factor.
void scale_row(float* x, int64_t n, float factor) {
  const Vec f = splat(factor);
  for_lanes(n, [&](int64_t i, auto lanes) { store(x + i, load(x + i, lanes) * f, lanes); });
}

template <bool kSilu>
void gate_head(float* o, const float* w, const float* z, int64_t n, float scale) {
  const Vec r = splat(scale);
  for_lanes(n, [&](int64_t i, auto lanes) {
    const Vec gate = load(z + i, lanes);
    store(o + i, ((load(o + i, lanes) * r) * load(w + i, lanes)) * (kSilu ? silu(gate) : sigmoid(gate)), lanes);
  });
}

}  // namespace

void rotate_lanes(float* x, const float* table, int64_t dims) {
  const int64_t half = dims / 2;
  int64_t i = 0;
  for (; i + kWidth <= half; i += kWidth) {
    Vec c, s;
    deinterleave(load(table + 2 * i), load(table + 2 * i + kWidth), c, s);
    const Vec x0 = load(x + i), x1 = load(x + i + half);
    store(x + i, fma(x0, c, negate(x1 * s)));
    store(x + i + half, fma(x0, s, x1 * c));
  }
  for (; i < half; ++i) {
    const float c = table[2 * i], s = table[2 * i + 1], x0 = x[i], x1 = x[i + half];
    x[i] = kernels::fma(x0, c, -(x1 * s));
    x[i + half] = kernels::fma(x0, s, x1 * c);
  }
}

void rms_norm(device::Queue& queue, const Batch& batch, const RmsNormArgs& a) {
  for_each(queue, int64_t{batch.rows} * a.groups, a.width / 4, [&](int64_t unit) {
    const int64_t r = unit / a.groups, group = unit % a.groups;
    const float* x = a.x + r * a.x_stride + group * a.x_group_stride;
    const float* gain = a.gain + group * a.gain_stride;
    float* y = a.y + r * a.y_stride + group * a.y_group_stride;
    const float scale = vec_rms_scale(x, a.width, a.eps);
    if (scale == 0.0f) set_status(batch, r, kNonFinite);  // the squares overflowed
    const Vec factor = splat(scale);
    for_lanes(a.width, [&](int64_t i, auto lanes) {
      store(y + i, (load(x + i, lanes) * factor) * load(gain + i, lanes), lanes);
    });
  });
}

void rope(device::Queue& queue, const Batch& batch, const RopeArgs& a) {
  for_each(queue, batch.rows, int64_t{a.groups} * a.dims / 8, [&](int64_t r) {
    for (int64_t group = 0; group < a.groups; ++group) {
      rotate_lanes(a.x + r * a.x_stride + group * a.x_group_stride, a.table + r * a.dims, a.dims);
    }
  });
}

void gdn_qk_norm(device::Queue& queue, const Batch& batch, const GdnQkNormArgs& a) {
  const float query_scale = inverse_sqrt(a.key_dim);
  for_each(queue, int64_t{batch.rows} * a.key_heads, a.key_dim, [&](int64_t unit) {
    float* q = a.qkv + unit / a.key_heads * a.stride + unit % a.key_heads * a.key_dim;
    float* k = q + int64_t{a.key_heads} * a.key_dim;
    const float rq = 1.0f / kernels::sqrt(vec_sum_squares(q, a.key_dim) + 1e-6f);
    const float rk = 1.0f / kernels::sqrt(vec_sum_squares(k, a.key_dim) + 1e-6f);
    if (rq == 0.0f || rk == 0.0f) set_status(batch, unit / a.key_heads, kNonFinite);  // the squares overflowed
    scale_row(q, a.key_dim, rq);
    scale_row(q, a.key_dim, query_scale);
    scale_row(k, a.key_dim, rk);
  });
}

void gdn_out_norm(device::Queue& queue, const Batch& batch, const GdnOutNormArgs& a) {
  for_each(queue, int64_t{batch.rows} * a.value_heads, 2 * a.value_dim, [&](int64_t unit) {
    const int64_t r = unit / a.value_heads, head = unit % a.value_heads;
    float* o = a.o + r * a.o_stride + head * a.value_dim;
    const float* z = a.z + r * a.z_stride + head * a.value_dim;
    const float scale = vec_rms_scale(o, a.value_dim, a.eps);
    if (scale == 0.0f) set_status(batch, r, kNonFinite);  // the squares overflowed
    if (a.silu) {
      gate_head<true>(o, a.w, z, a.value_dim, scale);
    } else {
      gate_head<false>(o, a.w, z, a.value_dim, scale);
    }
  });
}

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
