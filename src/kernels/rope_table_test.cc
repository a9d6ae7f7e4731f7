#include "kernels/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace evros::kernels {
namespace {

struct Expected {
  int dims;
  double theta;
  int64_t position;
  int pair;
  float cos, sin;
};

// cos and sin of position * theta^(-2 pair / dims), 60 digits (mpmath), rounded to float.
constexpr Expected kExpected[] = {
    {64, 10000000.0, 0, 0, 0x1p+0f, 0x0p+0f},
    {64, 10000000.0, 1, 0, 0x1.14a28p-1f, 0x1.aed548p-1f},
    {64, 10000000.0, 1, 1, 0x1.a5536cp-1f, 0x1.22e8eap-1f},
    {64, 10000000.0, 1, 31, 0x1p+0f, 0x1.635e88p-23f},
    {64, 10000000.0, 4095, 31, 0x1.fffff8p-1f, 0x1.63485p-11f},
    {64, 10000000.0, 4096, 1, 0x1.dc0b66p-1f, -0x1.78f6fcp-2f},
    {64, 10000000.0, 65537, 16, -0x1.32c8b6p-2f, 0x1.e87b74p-1f},
    {64, 10000000.0, 262143, 0, -0x1.37e404p-1f, 0x1.960a26p-1f},
    {64, 10000000.0, 262143, 1, 0x1.d77384p-1f, 0x1.8f6366p-2f},
    {64, 10000000.0, 262143, 30, 0x1.feae6cp-1f, 0x1.25c83p-4f},
    {64, 10000000.0, 262143, 31, 0x1.ff84b2p-1f, 0x1.6341a8p-5f},
    {8, 10000000.0, 0, 0, 0x1p+0f, 0x0p+0f},
    {8, 10000000.0, 1, 0, 0x1.14a28p-1f, 0x1.aed548p-1f},
    {8, 10000000.0, 1, 1, 0x1.ffeb46p-1f, 0x1.235684p-6f},
    {8, 10000000.0, 1, 3, 0x1p+0f, 0x1.796182p-18f},
    {8, 10000000.0, 4095, 3, 0x1.ffdd4p-1f, 0x1.794162p-6f},
    {8, 10000000.0, 4096, 1, -0x1.abcb06p-1f, -0x1.19502cp-1f},
    {8, 10000000.0, 65537, 2, -0x1.32c8b6p-2f, 0x1.e87b74p-1f},
    {8, 10000000.0, 262143, 0, -0x1.37e404p-1f, 0x1.960a26p-1f},
    {8, 10000000.0, 262143, 1, 0x1.c41d48p-1f, -0x1.e0919cp-2f},
    {8, 10000000.0, 262143, 2, 0x1.643afp-2f, 0x1.e00512p-1f},
    {8, 10000000.0, 262143, 3, 0x1.8b4b6ap-4f, 0x1.fd9c3p-1f},
    {8, 10000.0, 0, 0, 0x1p+0f, 0x0p+0f},
    {8, 10000.0, 1, 0, 0x1.14a28p-1f, 0x1.aed548p-1f},
    {8, 10000.0, 1, 1, 0x1.fd713p-1f, 0x1.98eaecp-4f},
    {8, 10000.0, 1, 3, 0x1.fffffp-1f, 0x1.0624dap-10f},
    {8, 10000.0, 4095, 3, -0x1.2866a6p-1f, -0x1.a17b2ap-1f},
    {8, 10000.0, 4096, 1, 0x1.79c4d4p-2f, 0x1.dbe29ap-1f},
    {8, 10000.0, 65537, 2, -0x1.5d2318p-2f, 0x1.e15228p-1f},
    {8, 10000.0, 262143, 0, -0x1.37e404p-1f, 0x1.960a26p-1f},
    {8, 10000.0, 262143, 1, 0x1.5190cep-1f, 0x1.80f582p-1f},
    {8, 10000.0, 262143, 2, 0x1.d10ac8p-3f, 0x1.f2a028p-1f},
    {8, 10000.0, 262143, 3, -0x1.6ea022p-3f, -0x1.f7baacp-1f},
    {64, 1000000.0, 0, 0, 0x1p+0f, 0x0p+0f},
    {64, 1000000.0, 1, 0, 0x1.14a28p-1f, 0x1.aed548p-1f},
    {64, 1000000.0, 1, 1, 0x1.97c954p-1f, 0x1.359a74p-1f},
    {64, 1000000.0, 1, 31, 0x1p+0f, 0x1.9d5ef2p-20f},
    {64, 1000000.0, 4095, 31, 0x1.fffd64p-1f, 0x1.9d4468p-8f},
    {64, 1000000.0, 4096, 1, -0x1.f2fbb2p-2f, 0x1.bf1978p-1f},
    {64, 1000000.0, 65537, 16, -0x1.d0014ap-1f, 0x1.b0ddcap-2f},
    {64, 1000000.0, 262143, 0, -0x1.37e404p-1f, 0x1.960a26p-1f},
    {64, 1000000.0, 262143, 1, 0x1.bef724p-1f, 0x1.f376a6p-2f},
    {64, 1000000.0, 262143, 30, 0x1.a037b6p-1f, 0x1.2a2c2ep-1f},
    {64, 1000000.0, 262143, 31, 0x1.d6d89cp-1f, 0x1.923bc2p-2f},
};

TEST(RopeTable, GivesTheNearestFloatsOfTheExactAngles) {
  for (const Expected& e : kExpected) {
    std::vector<float> row(static_cast<size_t>(e.dims));
    RopeTable(e.dims, e.theta).row(e.position, row);
    EXPECT_EQ(row[2 * e.pair], e.cos) << e.dims << " " << e.theta << " " << e.position << " " << e.pair;
    EXPECT_EQ(row[2 * e.pair + 1], e.sin) << e.dims << " " << e.theta << " " << e.position << " " << e.pair;
  }
}

TEST(RopeTable, StaysWithinAHairOfHalfAnUlpOfLongDouble) {
  const RopeTable table(64, 1e7);
  std::vector<float> row(64);
  double worst = 0;
  for (int64_t position = 0; position < 262144; position += 97) {
    table.row(position, row);
    for (int i = 0; i < 32; ++i) {
      const long double angle = static_cast<long double>(position) * std::pow(1e7L, -2.0L * i / 64.0L);
      const long double exact[2] = {std::cos(angle), std::sin(angle)};
      for (int j = 0; j < 2; ++j) {
        int exponent;
        std::frexp(exact[j], &exponent);
        const long double ulp = std::ldexp(1.0L, exponent - 24);
        if (std::fabs(exact[j]) < 1e-6L) continue;  // there the reference's own angle is the larger error
        worst =
            std::fmax(worst, static_cast<double>(std::fabs(static_cast<long double>(row[2 * i + j]) - exact[j]) / ulp));
      }
    }
  }
  EXPECT_LT(worst, 0.5001);
}

/// FNV-1a, 64 bits, over the little-endian bytes of rows 0 ... 262143: published in docs/numerics.md, the same for every
/// compiler, optimisation level and machine.
TEST(RopeTable, ChecksumOfEveryRowIsThePublishedOne) {
  const RopeTable table(64, 1e7);
  std::vector<float> row(64);
  uint64_t hash = 0xcbf29ce484222325u;
  for (int64_t position = 0; position < 262144; ++position) {
    table.row(position, row);
    unsigned char bytes[256];
    std::memcpy(bytes, row.data(), sizeof bytes);
    for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3u;
  }
  EXPECT_EQ(hash, 0x491298a7c6c4d269u);
}

TEST(RopeTable, KeepsItsAccuracyFarBeyondTheContext) {
  // The phase is an integer product modulo 2^64, so a far position is as accurate as the frequency's last bit allows:
  // 10^9 * 2^-65 turns. Values: mpmath.
  std::vector<float> row(2);
  RopeTable(2, 10.0).row(1'000'000'000, row);
  EXPECT_NEAR(row[0], 0.83788719, 2e-7);  // cos(10^9)
  EXPECT_NEAR(row[1], 0.54584344, 2e-7);  // sin(10^9)
}

}  // namespace
}  // namespace evros::kernels
