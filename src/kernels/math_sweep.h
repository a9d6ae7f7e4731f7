// Test support: holds math.h against the double-precision libm over a stride of all 2^32 inputs.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/math.h"

namespace evros::kernels {

/// A function of math.h with its reference and its promise.
struct SweptFunction {
  const char* name;
  float (*ours)(float);
  double (*exact)(double);
  double ulps;            // largest error allowed
  float lowest;           // below this input the result is +0, or within the bound
};

inline double exact_sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline double exact_silu(double x) { return x * exact_sigmoid(x); }
inline double exact_softplus(double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

inline constexpr SweptFunction kSweptFunctions[] = {
    {"exp", [](float x) { return exp(x); }, [](double x) { return std::exp(x); }, 1.01, -INFINITY},
    {"log1p", [](float x) { return log1p(x); }, [](double x) { return std::log1p(x); }, 2.0, -INFINITY},
    {"sigmoid", [](float x) { return sigmoid(x); }, exact_sigmoid, 3.0, -INFINITY},
    {"silu", [](float x) { return silu(x); }, exact_silu, 4.0, -87.33f},
    {"softplus", [](float x) { return softplus(x); }, exact_softplus, 3.0, -INFINITY},
};

struct SweepResult {
  double worst_ulps = 0.0;
  float worst_input = 0.0f;
  uint64_t failures = 0;
  float first_failure = 0.0f;
};

/// Error of `got` in units of the spacing of floats at the exact value (by its exponent bits: this is the sweep's hot spot).
inline double error_in_ulps(float got, double exact) {
  const uint64_t biased = std::bit_cast<uint64_t>(exact) >> 52 & 0x7ff, exponent = biased < 1023 - 126 ? 1023 - 126 : biased;
  const double ulps_per_unit = std::bit_cast<double>((2 * 1023 + 23 - exponent) << 52);
  return std::fabs(static_cast<double>(got) - exact) * ulps_per_unit;
}

/// Does ours(x) keep the promise? error receives ulps where they make sense.
inline bool keeps_promise(const SweptFunction& f, float x, double& error) {
  constexpr double kSmallest = 0x1p-126, kLargest = 0x1.ffffffp+127;  // the latter: where rounding reaches infinity
  const float got = f.ours(x);
  error = 0.0;
  if (std::isinf(x)) return std::isnan(got) || got == static_cast<float>(f.exact(static_cast<double>(x)));
  const double exact = f.exact(static_cast<double>(x));
  if (std::isnan(exact)) return std::isnan(got);
  if (std::isnan(got)) return false;
  if (std::isinf(exact)) return static_cast<double>(got) == exact;
  const bool plus_zero = float_bits(got) == 0;
  if (std::fabs(exact) < kSmallest * (1.0 - 0x1p-23)) return plus_zero;
  if (x < f.lowest && plus_zero) return true;
  if (std::isinf(got)) return std::fabs(exact) >= kLargest * (1.0 - 0x1p-24);
  if (plus_zero) return std::fabs(exact) < kSmallest * (1.0 + 0x1p-23);
  error = error_in_ulps(got, exact);
  return error <= f.ulps;
}

/// Every stride-th input of [begin, end) as bit patterns.
inline SweepResult sweep(const SweptFunction& f, uint64_t begin, uint64_t end, uint64_t stride) {
  SweepResult result;
  for (uint64_t bits = begin; bits < end; bits += stride) {
    const float x = float_from_bits(static_cast<uint32_t>(bits));
    double error;
    if (!keeps_promise(f, x, error) && result.failures++ == 0) result.first_failure = x;
    if (error > result.worst_ulps) {
      result.worst_ulps = error;
      result.worst_input = x;
    }
  }
  return result;
}

}  // namespace evros::kernels
