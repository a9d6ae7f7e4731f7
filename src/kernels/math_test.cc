#include "kernels/math.h"

#include <gtest/gtest.h>

#include "kernels/math_sweep.h"

namespace evros::kernels {
namespace {

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

TEST(Math, ValuesAtTheEdgesAreTheOnesOfTheNumericsPage) {
  EXPECT_EQ(exp(0.0f), 1.0f);
  EXPECT_EQ(exp(-0.0f), 1.0f);
  EXPECT_EQ(exp(1.0f), 0x1.5bf0a8p+1f);            // e = 2.71828182845..., nearest float
  EXPECT_EQ(exp(88.72283f), 0x1.ffff08p+127f);     // the last input before overflow: 3.40279851e38 exactly rounded
  EXPECT_TRUE(std::isinf(exp(88.72284f)));
  EXPECT_EQ(float_bits(exp(-87.4f)), 0u);          // e^-87.4 = 1.1e-38 is below 2^-126
  EXPECT_EQ(float_bits(exp(-INFINITY)), 0u);
  EXPECT_EQ(float_bits(silu(-100.0f)), 0u);        // +0, not -0
  EXPECT_EQ(float_bits(relu(-0.0f)), 0u);
  EXPECT_EQ(float_bits(relu(NAN)), 0u);
  EXPECT_EQ(sigmoid(0.0f), 0.5f);
  EXPECT_EQ(sigmoid(200.0f), 1.0f);
  EXPECT_EQ(log1p(0x1p-130f), 0.0f);
  EXPECT_EQ(log1p(1.0f), 0x1.62e43p-1f);           // ln 2
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
