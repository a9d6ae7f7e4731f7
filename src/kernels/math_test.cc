#include "kernels/math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <thread>
#include <vector>

namespace evros::kernels {
namespace {

/// A function of math.h with its reference and its promise.
struct SweptFunction {
  const char* name;
  float (*ours)(float);
  double (*exact)(double);
  double ulps;   // largest error allowed
  float lowest;  // below this input the result is +0, or within the bound
};

double exact_sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double exact_silu(double x) { return x * exact_sigmoid(x); }
double exact_softplus(double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

constexpr SweptFunction kSweptFunctions[] = {
    {"exp", [](float x) { return exp(x); }, [](double x) { return std::exp(x); }, 0.69, -INFINITY},
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
double error_in_ulps(float got, double exact) {
  const uint64_t biased = std::bit_cast<uint64_t>(exact) >> 52 & 0x7ff,
                 exponent = biased < 1023 - 126 ? 1023 - 126 : biased;
  const double ulps_per_unit = std::bit_cast<double>((2 * 1023 + 23 - exponent) << 52);
  return std::fabs(static_cast<double>(got) - exact) * ulps_per_unit;
}

/// Does ours(x) keep the promise? error receives ulps where they make sense.
bool keeps_promise(const SweptFunction& f, float x, double& error) {
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
SweepResult sweep(const SweptFunction& f, uint64_t begin, uint64_t end, uint64_t stride) {
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

/// One in about 64 of all inputs: an odd stride meets every pattern of low bits, and every exponent.
class MathSweep : public testing::TestWithParam<SweptFunction> {};

TEST_P(MathSweep, StaysWithinItsErrorBoundOnEveryExponent) {
  const SweepResult result = sweep(GetParam(), 0, uint64_t{1} << 32, 63);
  EXPECT_EQ(result.failures, 0u) << "first at " << std::hexfloat << result.first_failure;
  EXPECT_LE(result.worst_ulps, GetParam().ulps) << "at " << std::hexfloat << result.worst_input;
  EXPECT_GT(result.worst_ulps, 0.3);  // a sweep that never saw a rounding error looked at nothing
}

INSTANTIATE_TEST_SUITE_P(All, MathSweep, testing::ValuesIn(kSweptFunctions),
                         [](const auto& function) { return std::string(function.param.name); });

/// All 2^32 inputs, on all cores: minutes, so `make test-exhaustive` runs it and CI takes the sixty-fourth above.
class DISABLED_MathExhaustive : public testing::TestWithParam<SweptFunction> {};

TEST_P(DISABLED_MathExhaustive, StaysWithinItsErrorBoundOnEveryInput) {
  const uint64_t workers = std::max(1u, std::thread::hardware_concurrency()), all = uint64_t{1} << 32;
  std::vector<SweepResult> results(workers);
  std::vector<std::thread> threads;
  for (uint64_t w = 0; w < workers; ++w) {
    threads.emplace_back([&, w] { results[w] = sweep(GetParam(), all * w / workers, all * (w + 1) / workers, 1); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const SweepResult& r : results) {
    EXPECT_EQ(r.failures, 0u) << "first at " << std::hexfloat << r.first_failure;
    std::printf("worst %.4f ulp at %a (allowed %.2f)\n", r.worst_ulps, static_cast<double>(r.worst_input),
                GetParam().ulps);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DISABLED_MathExhaustive, testing::ValuesIn(kSweptFunctions),
                         [](const auto& function) { return std::string(function.param.name); });

TEST(Math, ValuesAtTheEdgesAreTheOnesOfTheNumericsPage) {
  EXPECT_EQ(exp(0.0f), 1.0f);
  EXPECT_EQ(exp(-0.0f), 1.0f);
  EXPECT_EQ(exp(1.0f), 0x1.5bf0a8p+1f);         // e = 2.71828182845..., nearest float
  EXPECT_EQ(exp(88.72283f), 0x1.ffff08p+127f);  // the last input before overflow: 3.40279851e38 exactly rounded
  EXPECT_TRUE(std::isinf(exp(88.72284f)));
  EXPECT_EQ(float_bits(exp(-87.4f)), 0u);  // e^-87.4 = 1.1e-38 is below 2^-126
  EXPECT_EQ(float_bits(exp(-INFINITY)), 0u);
  EXPECT_EQ(float_bits(silu(-100.0f)), 0u);  // +0, not -0
  EXPECT_EQ(float_bits(relu(-0.0f)), 0u);
  EXPECT_EQ(float_bits(relu(NAN)), 0u);
  EXPECT_EQ(sigmoid(0.0f), 0.5f);
  EXPECT_EQ(sigmoid(200.0f), 1.0f);
  EXPECT_EQ(log1p(0x1p-130f), 0.0f);
  EXPECT_EQ(log1p(1.0f), 0x1.62e43p-1f);  // ln 2
  EXPECT_EQ(softplus(0.0f), 0x1.62e43p-1f);
}

TEST(Math, NanComesOutAsNan) {
  for (const SweptFunction& f : kSweptFunctions) {
    EXPECT_TRUE(std::isnan(f.ours(float_from_bits(0x7fc00001u)))) << f.name;
    EXPECT_TRUE(std::isnan(f.ours(float_from_bits(0xff800001u)))) << f.name;
  }
}

TEST(Math, RoundEvenTakesTiesToEven) {
  EXPECT_EQ(round_even(0.5f), 0.0f);
  EXPECT_EQ(round_even(1.5f), 2.0f);
  EXPECT_EQ(round_even(-2.5f), -2.0f);
  EXPECT_EQ(round_even(126.5f), 126.0f);
  EXPECT_EQ(round_even(-127.0f), -127.0f);
}

TEST(Math, FiniteMeansAnExponentThatIsNotAllOnes) {
  EXPECT_TRUE(is_finite(3.4e38f));
  EXPECT_TRUE(is_finite(0.0f));
  EXPECT_FALSE(is_finite(INFINITY));
  EXPECT_FALSE(is_finite(-INFINITY));
  EXPECT_FALSE(is_finite(NAN));
}

}  // namespace
}  // namespace evros::kernels
