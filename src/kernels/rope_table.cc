#include "kernels/rope_table.h"

#include <cmath>

#include "base/check.h"

namespace evros::kernels {

namespace {

__extension__ using u128 = unsigned __int128;  // as a fraction: units of 2^-128

/// floor(a * b / 2^128).
u128 multiply(u128 a, u128 b) {
  const uint64_t a0 = static_cast<uint64_t>(a), a1 = static_cast<uint64_t>(a >> 64);
  const uint64_t b0 = static_cast<uint64_t>(b), b1 = static_cast<uint64_t>(b >> 64);
  const u128 low = u128{a0} * b0, middle1 = u128{a1} * b0, middle2 = u128{a0} * b1;
  const u128 carry = (low >> 64) + static_cast<uint64_t>(middle1) + static_cast<uint64_t>(middle2);
  return u128{a1} * b1 + (middle1 >> 64) + (middle2 >> 64) + (carry >> 64);
}

/// x^n, every product rounded down; n >= 1.
u128 power(u128 x, int n) {
  u128 result = x;
  for (int bit = 30 - __builtin_clz(static_cast<unsigned>(n)); bit >= 0; --bit) {
    result = multiply(result, result);
    if ((n >> bit) & 1) result = multiply(result, x);
  }
  return result;
}

/// p / 2^128 * mantissa * 2^exponent <= 1, exactly; mantissa below 2^53.
bool at_most_one(u128 p, uint64_t mantissa, int exponent) {
  // p * mantissa as top * 2^64 + bottom, to be compared with 2^(128 - exponent).
  const u128 low = u128{static_cast<uint64_t>(p)} * mantissa;
  const u128 top = u128{static_cast<uint64_t>(p >> 64)} * mantissa + (low >> 64);
  const uint64_t bottom = static_cast<uint64_t>(low);
  const int shift = 128 - exponent;
  if (shift < 0) return top == 0 && bottom == 0;
  if (shift >= 64) {
    const u128 limit = u128{1} << (shift - 64);  // shift <= 180
    return top < limit || (top == limit && bottom == 0);
  }
  return top == 0 && bottom <= uint64_t{1} << shift;
}

/// theta^(-1/n) for theta > 1: the largest fraction whose n-th power times theta does not exceed 1, found bit by bit. Its
/// error is about 2^-128 * theta: nothing at the 64 bits that are kept.
u128 inverse_root(double theta, int n) {
  int exponent;
  const double fraction = std::frexp(theta, &exponent);  // exact; theta = mantissa * 2^(exponent - 53)
  const uint64_t mantissa = static_cast<uint64_t>(std::ldexp(fraction, 53));
  u128 root = 0;
  for (int bit = 127; bit >= 0; --bit) {
    const u128 candidate = root | u128{1} << bit;
    if (at_most_one(power(candidate, n), mantissa, exponent - 53)) root = candidate;
  }
  return root;
}

// 1 / (2 pi) in units of 2^-128.
constexpr u128 kInverseTwoPi = u128{0x28BE60DB9391054Aull} << 64 | 0x7F09D5F47D4D3770ull;

/// sin and cos of an angle in [-pi/4, pi/4]: Taylor series, in double and in this order on every machine. The first term
/// left out is below 2^-63; what remains is a few roundings of double, far below a float's.
double sine(double x) {
  const double z = x * x;
  double p = 1.0 / 355687428096000.0;  // 1 / 17!
  p = p * z - 1.0 / 1307674368000.0;
  p = p * z + 1.0 / 6227020800.0;
  p = p * z - 1.0 / 39916800.0;
  p = p * z + 1.0 / 362880.0;
  p = p * z - 1.0 / 5040.0;
  p = p * z + 1.0 / 120.0;
  p = p * z - 1.0 / 6.0;
  return x + x * (z * p);
}

double cosine(double x) {
  const double z = x * x;
  double p = 1.0 / 20922789888000.0;  // 1 / 16!
  p = p * z - 1.0 / 87178291200.0;
  p = p * z + 1.0 / 479001600.0;
  p = p * z - 1.0 / 3628800.0;
  p = p * z + 1.0 / 40320.0;
  p = p * z - 1.0 / 720.0;
  p = p * z + 1.0 / 24.0;
  p = p * z - 0.5;
  return 1.0 + z * p;
}

}  // namespace

RopeTable::RopeTable(int dims, double theta) {
  CHECK(dims > 0 && dims % 2 == 0 && std::isfinite(theta) && theta > 1.0);
  turns_.resize(static_cast<size_t>(dims) / 2);
  const u128 step = inverse_root(theta, dims / 2);
  u128 frequency = kInverseTwoPi;
  for (uint64_t& turns : turns_) {
    turns = static_cast<uint64_t>((frequency + (u128{1} << 63)) >> 64);
    frequency = multiply(frequency, step);
  }
}

void RopeTable::row(int64_t position, std::span<float> out) const {
  CHECK(out.size() == 2 * turns_.size());
  for (size_t i = 0; i < turns_.size(); ++i) {
    const uint64_t phase = static_cast<uint64_t>(position) * turns_[i];  // wraps: whole turns do not matter
    const uint64_t quarter = (phase + (uint64_t{1} << 61)) >> 62;        // nearest quarter turn, 0 ... 3
    const int64_t rest = static_cast<int64_t>(phase - (quarter << 62));  // within an eighth of a turn
    const double angle = static_cast<double>(rest) * (0x1.921fb54442d18p+2 * 0x1p-64);
    const double s = sine(angle), c = cosine(angle);
    const double cos = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
    const double sin = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
    out[2 * i] = static_cast<float>(cos);
    out[2 * i + 1] = static_cast<float>(sin);
  }
}

}  // namespace evros::kernels
