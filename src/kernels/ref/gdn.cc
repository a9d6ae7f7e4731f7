// Reference kernels: Gated DeltaNet.
#include "kernels/for_ranges.h"
#include "kernels/ref/chains.h"
#include "kernels/ref/history.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

void gdn_conv(device::Queue& queue, const Batch& batch, const GdnConvArgs& a) {
  for_each(queue, (int64_t{a.channels} + kTile - 1) / kTile, int64_t{kTile} * a.kernel * batch.rows, [&](int64_t tile) {
    const int64_t c0 = tile * kTile, c1 = smaller(c0 + kTile, a.channels), last = a.kernel - 1;
    for (int64_t s = 0; s < batch.sequences; ++s) {
      const SequenceRows& sequence = batch.sequence[s];
      const RowsWithHistory x(sequence, a.x, a.x_stride, a.bank_offset, last, a.channels);
      for (int64_t t = 0; t < sequence.rows; ++t) {
        float* y = a.y + (sequence.first_row + t) * a.y_stride;
        for (int64_t c = c0; c < c1; ++c) y[c] = 0.0f;
        for (int64_t tap = 0; tap < a.kernel; ++tap) {
          const float* in = x.row(t - last + tap);
          for (int64_t c = c0; c < c1; ++c) y[c] = fma(a.w[c * a.kernel + tap], in[c], y[c]);
        }
        for (int64_t c = c0; c < c1; ++c) y[c] = silu(y[c]);
      }
      x.keep(sequence, a.bank_offset, c0, c1);
    }
  });
}

void gdn_qk_norm(device::Queue& queue, const Batch& batch, const GdnQkNormArgs& a) {
  const float query_scale = inverse_sqrt(a.key_dim);
  for_each(queue, int64_t{batch.rows} * a.key_heads, 4 * a.key_dim, [&](int64_t unit) {
    float* q = a.qkv + unit / a.key_heads * a.stride + unit % a.key_heads * a.key_dim;
    float* k = q + int64_t{a.key_heads} * a.key_dim;
    const float rq = 1.0f / sqrt(sum_squares(q, a.key_dim) + 1e-6f);
    const float rk = 1.0f / sqrt(sum_squares(k, a.key_dim) + 1e-6f);
    if (rq == 0.0f || rk == 0.0f) set_status(batch, unit / a.key_heads, kNonFinite);  // the squares overflowed
    for (int64_t i = 0; i < a.key_dim; ++i) q[i] = (q[i] * rq) * query_scale;
    for (int64_t i = 0; i < a.key_dim; ++i) k[i] = k[i] * rk;
  });
}

void gdn_gates(device::Queue& queue, const Batch& batch, const GdnGatesArgs& a) {
  for_each(queue, batch.rows, 16 * a.value_heads, [&](int64_t r) {
    float *alpha = a.alpha + r * a.stride, *beta = a.beta + r * a.stride;
    for (int64_t h = 0; h < a.value_heads; ++h) {
      alpha[h] = exp(a.a[h] * softplus(alpha[h] + a.dt[h]));
      beta[h] = sigmoid(beta[h]);
    }
  });
}

namespace {

constexpr int kDeltaStrides = 8;  // partials of the delta rule's two sums

EVROS_INLINE float fold_delta(const float (&p)[kDeltaStrides][kTile], int64_t j) {
  const float a = p[0][j] + p[4][j], b = p[1][j] + p[5][j], c = p[2][j] + p[6][j], d = p[3][j] + p[7][j];
  return (a + c) + (b + d);
}

/// One token of `columns` columns of one head. s is the state's first column here, row i at s + i * value_dim.
void delta_token(float* s, int64_t key_dim, int64_t value_dim, int64_t columns, const float* q, const float* k,
                 const float* v, float decay, float beta, float* o) {
  float p[kDeltaStrides][kTile] = {};
  for (int64_t i = 0; i < key_dim; ++i) {
    float *row = s + i * value_dim, *sum = p[i % kDeltaStrides];
    for (int64_t j = 0; j < columns; ++j) {
      row[j] = decay * row[j];
      sum[j] = fma(row[j], k[i], sum[j]);
    }
  }
  float d[kTile];
  for (int64_t j = 0; j < columns; ++j) d[j] = beta * (v[j] - fold_delta(p, j));
  for (int i = 0; i < kDeltaStrides; ++i) {
    for (int64_t j = 0; j < columns; ++j) p[i][j] = 0.0f;
  }
  for (int64_t i = 0; i < key_dim; ++i) {
    float *row = s + i * value_dim, *sum = p[i % kDeltaStrides];
    for (int64_t j = 0; j < columns; ++j) {
      row[j] = fma(k[i], d[j], row[j]);
      sum[j] = fma(row[j], q[i], sum[j]);
    }
  }
  for (int64_t j = 0; j < columns; ++j) o[j] = fold_delta(p, j);
}

}  // namespace

void gdn_delta(device::Queue& queue, const Batch& batch, const GdnDeltaArgs& a) {
  const int64_t tiles = (int64_t{a.value_dim} + kTile - 1) / kTile;
  const int64_t units = int64_t{batch.sequences} * a.value_heads * tiles;
  const int64_t head_state = int64_t{a.key_dim} * a.value_dim, keys = int64_t{a.key_heads} * a.key_dim;
  for_each(queue, units, int64_t{kTile} * a.key_dim * batch.rows * 4, [&](int64_t unit) {
    const int64_t j0 = unit % tiles * kTile, head = unit / tiles % a.value_heads;
    const SequenceRows& sequence = batch.sequence[unit / tiles / a.value_heads];
    const int64_t columns = smaller(kTile, a.value_dim - j0), key_head = head % a.key_heads;
    const float* before = reinterpret_cast<const float*>(sequence.bank_in + a.bank_offset) + head * head_state + j0;
    float* s = reinterpret_cast<float*>(sequence.bank_out + a.bank_offset) + head * head_state + j0;
    for (int64_t i = 0; i < a.key_dim; ++i) {
      for (int64_t j = 0; j < columns; ++j) s[i * a.value_dim + j] = before[i * a.value_dim + j];
    }
    for (int64_t r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
      const float* row = a.qkv + r * a.qkv_stride;
      const float *q = row + key_head * a.key_dim, *k = q + keys, *v = row + 2 * keys + head * a.value_dim + j0;
      delta_token(s, a.key_dim, a.value_dim, columns, q, k, v, a.decay[r * a.gate_stride + head],
                  a.beta[r * a.gate_stride + head], a.o + r * a.o_stride + head * a.value_dim + j0);
    }
  });
}

void gdn_out_norm(device::Queue& queue, const Batch& batch, const GdnOutNormArgs& a) {
  for_each(queue, int64_t{batch.rows} * a.value_heads, 8 * a.value_dim, [&](int64_t unit) {
    const int64_t r = unit / a.value_heads, head = unit % a.value_heads;
    float* o = a.o + r * a.o_stride + head * a.value_dim;
    const float* z = a.z + r * a.z_stride + head * a.value_dim;
    const float scale = rms_scale(o, a.value_dim, a.eps);
    if (scale == 0.0f) set_status(batch, r, kNonFinite);  // the squares overflowed
    for (int64_t i = 0; i < a.value_dim; ++i) {
      o[i] = ((o[i] * scale) * a.w[i]) * (a.silu ? silu(z[i]) : sigmoid(z[i]));
    }
  });
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
