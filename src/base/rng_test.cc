#include "base/rng.h"

#include <gtest/gtest.h>

namespace evros {
namespace {

// Known answers published with the Random123 library (philox4x32 10 rounds).
TEST(Philox, MatchesThePublishedKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Uniform, StaysBelowOneAndFillsTheInterval) {
  double low = 1, high = 0, sum = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double u = uniform(42, 0, static_cast<uint64_t>(i));
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    low = std::min(low, u);
    high = std::max(high, u);
    sum += u;
  }
  EXPECT_LT(low, 1e-4);
  EXPECT_GT(high, 1 - 1e-4);
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);  // five standard deviations
}

}  // namespace
}  // namespace evros
