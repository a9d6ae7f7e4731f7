// What the system gives besides files: chance (seeds that were not given, names that nobody guesses or repeats) and the date.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "base/str.h"

namespace evros::server {

inline uint64_t random_u64() {
  std::random_device source;
  return uint64_t{source()} << 32 | source();
}

/// `prefix` and 24 hexadecimal digits.
inline std::string random_name(std::string_view prefix) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out(prefix);
  std::random_device source;
  for (int word = 0; word < 3; ++word) {
    const uint32_t bits = source();
    for (int digit = 0; digit < 8; ++digit) out += kHex[bits >> (4 * digit) & 15];
  }
  return out;
}

/// Seconds since 1970.
inline int64_t unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace evros::server
