#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/check.h"
#include "base/result.h"
#include "base/str.h"

namespace evros {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error{Code::invalid_argument, cat(n, " is odd")};
  return n / 2;
}

Result<int> quarter(int n) {
  EVROS_ASSIGN(const int h, half(n));
  return half(h);
}

Status divisible_by_four(int n) {
  EVROS_TRY(quarter(n));
  return {};
}

TEST(Result, ErrorOfTheInnermostCallReachesTheCallerUnchanged) {
  const auto outer = quarter(6);
  ASSERT_FALSE(outer.ok());
  EXPECT_EQ(outer.error().code, Code::invalid_argument);
  EXPECT_EQ(outer.error().message, "3 is odd");
  EXPECT_EQ(divisible_by_four(7).error().message, "7 is odd");
}

TEST(Result, ValueIsHandedOnAndMayBeMoveOnly) {
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_TRUE(divisible_by_four(12).ok());
  Result<std::unique_ptr<int>> owner(std::make_unique<int>(5));
  const std::unique_ptr<int> taken = std::move(owner).value();
  EXPECT_EQ(*taken, 5);
}

TEST(ResultDeathTest, ReadingTheWrongSideStopsInEveryBuild) {
  EXPECT_DEATH(static_cast<void>(half(3).value()), "CHECK\\(ok\\(\\)\\)");
  EXPECT_DEATH(static_cast<void>(half(4).error()), "CHECK\\(!ok\\(\\)\\)");
  EXPECT_DEATH(static_cast<void>(Status().error()), "CHECK\\(!ok\\(\\)\\)");
}

TEST(Result, EveryCodeHasItsOwnName) {
  EXPECT_STREQ(code_name(Code::bad_file), "bad_file");
  EXPECT_STREQ(code_name(Code::out_of_memory), "out_of_memory");
  EXPECT_STREQ(code_name(Code::device), "device");
}

TEST(Cat, NumbersAreWrittenInFullAndRoundTrip) {
  EXPECT_EQ(cat("a", 'b', std::string("c"), std::string_view("d"), 1, true), "abcd1true");
  EXPECT_EQ(cat(INT64_MIN, ' ', UINT64_MAX), "-9223372036854775808 18446744073709551615");
  EXPECT_EQ(cat(0.1, ' ', -0.0f, ' ', 1e300), "0.1 -0 1e+300");
}

TEST(Bytes, LoadsAreLittleEndianAndNeedNoAlignment) {
  const std::array<unsigned char, 9> bytes{0xff, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08};
  EXPECT_EQ(load<uint16_t>(&bytes[1]), 0x0201);
  EXPECT_EQ(load<uint32_t>(&bytes[1]), 0x04030201u);
  EXPECT_EQ(load<uint64_t>(&bytes[1]), 0x0807060504030201u);
  std::array<unsigned char, 5> out{};
  store(&out[1], uint32_t{0x0a0b0c0d});
  EXPECT_EQ(out, (std::array<unsigned char, 5>{0, 0x0d, 0x0c, 0x0b, 0x0a}));
}

TEST(Bytes, SizesThatWrapAreRefused) {
  EXPECT_EQ(checked_mul(1ull << 32, (1ull << 32) - 1), (1ull << 32) * ((1ull << 32) - 1));
  EXPECT_EQ(checked_mul(1ull << 32, 1ull << 32), std::nullopt);
  EXPECT_EQ(checked_mul(1ull << 62, 4), std::nullopt);
  EXPECT_EQ(checked_add(UINT64_MAX, 0), UINT64_MAX);
  EXPECT_EQ(checked_add(UINT64_MAX, 1), std::nullopt);
}

TEST(Bytes, RoundingUpKeepsMultiples) {
  EXPECT_EQ(align_up(0, 64), 0u);
  EXPECT_EQ(align_up(1, 64), 64u);
  EXPECT_EQ(align_up(64, 64), 64u);
  EXPECT_EQ(align_up(65, 64), 128u);
}

}  // namespace
}  // namespace evros
