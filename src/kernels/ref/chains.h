// The summation chains that the reference kernels share (docs/numerics.md), and status words.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/math.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

constexpr int64_t kSegment = 256;  // k is cut into segments of this length
constexpr int kStrides = 64;       // partials of a sum to a scalar
constexpr int kTile = 64;  // attention entries of one partial sum; also the columns that a loop keeps on its stack

EVROS_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/// The float chain: per segment acc = fma(a[k], b[k], acc) from +0, k ascending; segment sums added ascending.
EVROS_INLINE float dot_chain(const float* a, const float* b, int64_t n) {
  float y = 0.0f;
  for (int64_t begin = 0; begin < n; begin += kSegment) {
    const int64_t end = smaller(begin + kSegment, n);
    float acc = 0.0f;
    for (int64_t k = begin; k < end; ++k) acc = fma(a[k], b[k], acc);
    y = begin == 0 ? acc : y + acc;
  }
  return y;
}

/// The last step of a strided sum: p[j] += p[j + h] for h = 32 ... 1. Overwrites p.
EVROS_INLINE float fold_strides(float (&p)[kStrides]) {
  for (int h = kStrides / 2; h >= 1; h /= 2) {
    for (int j = 0; j < h; ++j) p[j] += p[j + h];
  }
  return p[0];
}

/// Sum of squares over 64 strided partials.
EVROS_INLINE float sum_squares(const float* x, int64_t n) {
  float p[kStrides] = {};
  for (int64_t i = 0; i < n; ++i) p[i % kStrides] = fma(x[i], x[i], p[i % kStrides]);
  return fold_strides(p);
}

/// The r of an RMS norm: 1 / sqrt(mean square + eps).
EVROS_INLINE float rms_scale(const float* x, int64_t n, float eps) {
  return 1.0f / sqrt(sum_squares(x, n) / static_cast<float>(n) + eps);
}

/// float(1 / sqrt(n)), the constant of attention, QSA and query scaling: rounded once from double.
EVROS_INLINE float inverse_sqrt(int64_t n) { return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(n))); }

/// Rotates one vector in place: pairs (i, i + dims/2), table = {cos, sin} of each pair.
EVROS_INLINE void rotate(float* x, const float* table, int64_t dims) {
  const int64_t half = dims / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float c = table[2 * i], s = table[2 * i + 1], x0 = x[i], x1 = x[i + half];
    x[i] = fma(x0, c, -(x1 * s));
    x[i + half] = fma(x0, s, x1 * c);
  }
}

/// ORs a StatusBit into the word of row's sequence; threads may do so at the same time.
EVROS_INLINE void set_status(const Batch& batch, int64_t row, uint32_t bit) {
#ifdef __CUDA_ARCH__
  atomicOr(&batch.status[batch.row_sequence[row]], bit);
#else
  __atomic_fetch_or(&batch.status[batch.row_sequence[row]], bit, __ATOMIC_RELAXED);
#endif
}

EVROS_INLINE bool all_finite(const float* x, int64_t n) {
  uint32_t bad = 0;
  for (int64_t i = 0; i < n; ++i) bad |= is_finite(x[i]) ? 0u : 1u;
  return bad == 0;
}

EVROS_INLINE void check_row(const Batch& batch, int64_t row, const float* x, int64_t n) {
  if (!all_finite(x, n)) set_status(batch, row, kNonFinite);
}

/// Where the row of `position` lies. page_tokens is a multiple of tokens_per_row.
EVROS_INLINE std::byte* page_row(const Batch& batch, const SequenceRows& sequence, const PageRows& page,
                                 int64_t position) {
  const int64_t in_page = position % batch.page_tokens / page.tokens_per_row;
  return sequence.pages[position / batch.page_tokens] + page.offset + in_page * page.row_bytes;
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
