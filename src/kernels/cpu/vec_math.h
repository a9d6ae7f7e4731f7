// math.h and the sums of chains.h over lanes: the same operations in the same order in every lane.
#pragma once

#include "kernels/cpu/vec.h"
#include "kernels/math.h"
#include "kernels/ref/chains.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

EVROS_INLINE Vec flush_subnormal(Vec x) {
  return select((as_ints(x) & splat(int32_t{0x7f800000})) == splat(int32_t{0}), splat(0.0f), x);
}

EVROS_INLINE Vec exp(Vec x) {
  const Vec shift = splat(12582912.0f);
  const Vec n = fma(x, splat(0x1.715476p+0f), shift) - shift;
  const Vec one = splat(1.0f), low = splat(0x1.05c61p-29f);
  const Vec high = fma(n, splat(-0x1.62e43p-1f), x), r = fma(n, low, high);
  const Vec sum = one + high, rest = fma(n, low, high - (sum - one));
  Vec p = splat(0x1.6a4744p-10f);
  p = fma(p, r, splat(0x1.1239a2p-7f));
  p = fma(p, r, splat(0x1.5558b6p-5f));
  p = fma(p, r, splat(0x1.555492p-3f));
  p = fma(p, r, splat(0x1.fffffcp-2f));
  p = sum + fma(r * r, p, rest);
  const Ints bias = splat(int32_t{127});
  const Ints whole = truncate(n), half = shift_right_signed<1>(whole);
  Vec y = (p * as_floats(shift_left<23>(half + bias))) * as_floats(shift_left<23>(whole - half + bias));
  y = flush_subnormal(y);
  y = select(splat(88.75f) < x, as_floats(splat(int32_t{0x7f800000})), y);
  y = select(x < splat(-87.5f), splat(0.0f), y);
  return select(unordered(x), x, y);
}

/// For 0 <= x <= 1, which is what softplus needs.
EVROS_INLINE Vec log1p_of_fraction(Vec x) {
  const Mask far = splat(0.41421f) < x;
  const Vec one = splat(1.0f), u = one + x;
  const Vec lost = select(x >= one, one - (u - x), x - (u - one)) / u;
  const Ints exponent = shift_right_signed<23>(as_ints(u) - splat(int32_t{0x3f3504f3}));
  const Vec scaled = as_floats(as_ints(u) - shift_left<23>(exponent)) - one;
  const Vec f = select(far, scaled, x), k = select(far, to_float(exponent), splat(0.0f));
  const Vec c = select(far, lost, splat(0.0f));
  Vec p = splat(0x1.147f94p-4f);
  p = fma(p, f, splat(-0x1.de26c0p-4f));
  p = fma(p, f, splat(0x1.e6cdb6p-4f));
  p = fma(p, f, splat(-0x1.fc249ap-4f));
  p = fma(p, f, splat(0x1.233aaap-3f));
  p = fma(p, f, splat(-0x1.555c52p-3f));
  p = fma(p, f, splat(0x1.99a47ep-3f));
  p = fma(p, f, splat(-0x1.000006p-2f));
  p = fma(p, f, splat(0x1.555548p-2f));
  p = fma(p, f, splat(-0.5f));
  const Vec tail = fma(f * f, p, fma(k, splat(-0x1.05c61p-29f), c));
  return select(unordered(x), x, flush_subnormal(fma(k, splat(0x1.62e43p-1f), f + tail)));
}

EVROS_INLINE Vec sigmoid(Vec x) {
  const Vec one = splat(1.0f), e = exp(negate(abs(x)));
  return select(x >= splat(0.0f), one, e) / (one + e);
}

EVROS_INLINE Vec silu(Vec x) { return flush_subnormal(x * sigmoid(x)); }
EVROS_INLINE Vec softplus(Vec x) { return larger(x, splat(0.0f)) + log1p_of_fraction(exp(negate(abs(x)))); }
EVROS_INLINE Vec relu(Vec x) { return larger(x, splat(0.0f)); }

/// The 64 strided partials of a sum to a scalar, and their halving tree.
struct StridedSum {
  static constexpr int kParts = kStrides / static_cast<int>(kWidth);
  Vec part[kParts];

  EVROS_INLINE StridedSum() {
    for (int i = 0; i < kParts; ++i) part[i] = splat(0.0f);
  }
  /// p[j] += p[j + h] for h = 32 ... 1.
  EVROS_INLINE float total() {
    for (int h = kParts / 2; h >= 1; h /= 2) {
      for (int i = 0; i < h; ++i) part[i] = part[i] + part[i + h];
    }
    return fold(part[0]);
  }
};

/// sum_squares() of chains.h. A lane beyond the end adds the square of zero to a partial that is never negative.
EVROS_INLINE float vec_sum_squares(const float* x, int64_t n) {
  StridedSum sum;
  int64_t i = 0;
  for (; i + kStrides <= n; i += kStrides) {
    for (int j = 0; j < StridedSum::kParts; ++j) {
      const Vec a = load(x + i + j * kWidth);
      sum.part[j] = fma(a, a, sum.part[j]);
    }
  }
  for (int j = 0; j < StridedSum::kParts && i + j * kWidth < n; ++j) {
    const int64_t left = n - i - j * kWidth;
    const Vec a = left >= kWidth ? load(x + i + j * kWidth) : load(x + i + j * kWidth, Part(left));
    sum.part[j] = fma(a, a, sum.part[j]);
  }
  return sum.total();
}

EVROS_INLINE float vec_rms_scale(const float* x, int64_t n, float eps) {
  return 1.0f / sqrt(vec_sum_squares(x, n) / static_cast<float>(n) + eps);
}

EVROS_INLINE bool vec_all_finite(const float* x, int64_t n) {
  Ints seen = splat(int32_t{0});
  const Ints exponent = splat(int32_t{0x7f800000});
  for_lanes(n, [&](int64_t i, auto lanes) {
    // The lanes of an infinite or NaN number carry into the sign bit.
    seen = seen | ((as_ints(load(x + i, lanes)) & exponent) + splat(int32_t{0x00800000}));
  });
  return !any(splat(int32_t{0}) > seen);
}

EVROS_INLINE void vec_check_row(const Batch& batch, int64_t row, const float* x, int64_t n) {
  if (!vec_all_finite(x, n)) set_status(batch, row, kNonFinite);
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
