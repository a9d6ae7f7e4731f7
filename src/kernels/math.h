// The elementary functions of numerics N1 (docs/numerics.md, "Every other chain"), for host and device: IEEE binary32
// operations and fused multiply-adds in a fixed order, so that every machine returns the same bits. No libm.
//
// Worst errors, against the exact value (tested on 1/64 of all inputs, exhaustively by `make test-exhaustive`):
//   exp 0.69 ulp, log1p 2, sigmoid 3, silu 4, softplus 3, wherever e^-|x| is a normal number (|x| <= 87.33).
// A result below the smallest normal number is +0, for all of them: subnormals never leave this header. A NaN comes out as
// a NaN, except from relu, which is `x > 0 ? x : +0`: finite checks stand before it.
//
// How: exp splits x = n ln 2 + r with a two-part ln 2 (exact by fma), adds 1 + r with what that sum's rounding loses carried
// into the polynomial of degree 6 on |r| <= ln(2)/2, and scales exactly, twice. log1p writes 1 + x = 2^k (1 + f),
// sqrt(1/2) <= 1 + f < sqrt(2), carries the rounding error of 1 + x, and uses a polynomial of degree 11. Coefficients are
// weighted minimax fits rounded to binary32 one after another.
#pragma once

#include <cstdint>

#include "kernels/isa.h"

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#error "kernels/math.h must not be compiled with fast-math options: they change results"
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error "kernels/math.h needs float operations rounded to float (on 32-bit x86: -msse2 -mfpmath=sse)"
#endif

namespace evros::kernels {
inline namespace EVROS_ISA {

/// a * b + c, rounded once.
EVROS_INLINE float fma(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

/// IEEE square root.
EVROS_INLINE float sqrt(float x) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(x);
#else
  return __builtin_sqrtf(x);
#endif
}

EVROS_INLINE uint32_t float_bits(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

EVROS_INLINE float float_from_bits(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

/// By exponent bits, as finite checks have to (comparisons treat NaN differently per device).
EVROS_INLINE bool is_finite(float x) { return (float_bits(x) & 0x7f800000u) != 0x7f800000u; }

EVROS_INLINE float abs(float x) { return float_from_bits(float_bits(x) & 0x7fffffffu); }

/// x, or +0 when |x| is below the smallest normal number.
EVROS_INLINE float flush_subnormal(float x) { return (float_bits(x) & 0x7f800000u) == 0 ? 0.0f : x; }

/// To the nearest integer, ties to even, for |x| < 2^22: adding 1.5 * 2^23 leaves no fraction bits.
EVROS_INLINE float round_even(float x) { return (x + 12582912.0f) - 12582912.0f; }

/// e^x. +inf above 88.7228, +0 below -87.3365.
EVROS_INLINE float exp(float x) {
  if (x != x) return x;
  if (x > 88.75f) return float_from_bits(0x7f800000u);
  if (x < -87.5f) return 0.0f;
  const float n = fma(x, 0x1.715476p+0f, 12582912.0f) - 12582912.0f;  // rint(x / ln 2)
  const float high = fma(n, -0x1.62e43p-1f, x);                       // exact: ln 2, high part
  const float r = fma(n, 0x1.05c61p-29f, high);                       // ln 2, low part
  const float sum = 1.0f + high;
  const float rest = fma(n, 0x1.05c61p-29f, high - (sum - 1.0f));  // sum + rest is 1 + r, but for 2^-46
  float p = 0x1.6a4744p-10f;
  p = fma(p, r, 0x1.1239a2p-7f);
  p = fma(p, r, 0x1.5558b6p-5f);
  p = fma(p, r, 0x1.555492p-3f);
  p = fma(p, r, 0x1.fffffcp-2f);
  p = sum + fma(r * r, p, rest);
  // 2^n in two steps, because n may be 128 and the result may be below the smallest normal.
  const int32_t whole = static_cast<int32_t>(n), half = whole >> 1;
  const float y = (p * float_from_bits(static_cast<uint32_t>(half + 127) << 23)) *
                  float_from_bits(static_cast<uint32_t>(whole - half + 127) << 23);
  return flush_subnormal(y);
}

/// ln(1 + x). -inf at -1, NaN below.
EVROS_INLINE float log1p(float x) {
  if (x != x || x == float_from_bits(0x7f800000u)) return x;
  if (x <= -1.0f) return float_from_bits(x == -1.0f ? 0xff800000u : 0x7fc00000u);
  float f = x, k = 0.0f, c = 0.0f;
  if (x < -0.29289f || x > 0.41421f) {
    const float u = 1.0f + x;
    c = (x >= 1.0f ? 1.0f - (u - x) : x - (u - 1.0f)) / u;  // what rounding lost of 1 + x, as a term of the logarithm
    const int32_t exponent = (static_cast<int32_t>(float_bits(u)) - 0x3f3504f3) >> 23;  // bits of sqrt(1/2)
    f = float_from_bits(float_bits(u) - (static_cast<uint32_t>(exponent) << 23)) - 1.0f;
    k = static_cast<float>(exponent);
  }
  float p = 0x1.147f94p-4f;
  p = fma(p, f, -0x1.de26c0p-4f);
  p = fma(p, f, 0x1.e6cdb6p-4f);
  p = fma(p, f, -0x1.fc249ap-4f);
  p = fma(p, f, 0x1.233aaap-3f);
  p = fma(p, f, -0x1.555c52p-3f);
  p = fma(p, f, 0x1.99a47ep-3f);
  p = fma(p, f, -0x1.000006p-2f);
  p = fma(p, f, 0x1.555548p-2f);
  p = fma(p, f, -0.5f);
  const float tail = fma(f * f, p, fma(k, -0x1.05c61p-29f, c));
  return flush_subnormal(fma(k, 0x1.62e43p-1f, f + tail));
}

EVROS_INLINE float sigmoid(float x) {
  const float e = exp(-abs(x));
  return x >= 0.0f ? 1.0f / (1.0f + e) : e / (1.0f + e);
}

/// Below -87.33, where sigmoid is +0, the result is +0.
EVROS_INLINE float silu(float x) { return flush_subnormal(x * sigmoid(x)); }

EVROS_INLINE float softplus(float x) { return (x > 0.0f ? x : 0.0f) + log1p(exp(-abs(x))); }

EVROS_INLINE float relu(float x) { return x > 0.0f ? x : 0.0f; }

}  // namespace EVROS_ISA
}  // namespace evros::kernels
