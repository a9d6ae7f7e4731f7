// Little-endian loads and overflow-checked sizes for everything that comes from a file.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

namespace evros {

static_assert(std::endian::native == std::endian::little,
              "Evros reads files and state by value; big-endian is not supported");

/// Reads a T from unaligned little-endian bytes.
template <typename T>
requires std::is_trivially_copyable_v<T> T load(const void* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <typename T>
requires std::is_trivially_copyable_v<T>
void store(void* bytes, const T& value) { std::memcpy(bytes, &value, sizeof value); }

/// a * b, or nothing when it does not fit 64 bits.
inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// a + b, or nothing when it does not fit 64 bits.
inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

/// n rounded up to a multiple of `alignment`, a power of two. The caller knows that n is far from 2^64.
constexpr uint64_t align_up(uint64_t n, uint64_t alignment) { return (n + alignment - 1) & ~(alignment - 1); }

}  // namespace evros
