// Q6_K: blocks of 256 in 210 bytes: 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales, d (f16). Of each
// half (128 elements, 64 low bytes l, 32 high bytes h) element 32 * part + i takes nibble part / 2 of l[32 * (part % 2) + i]
// and bits 2 * part of h[i]. Value of a group of 16: (d * scale) * (q - 32), q in [0, 63]. Layout: docs/model.md 6.4.
#pragma once

#include <cstddef>

#include "kernels/codec/float16.h"
#include "kernels/codec/search.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

struct Q6_K {
  static constexpr int kBlock = 256;  // elements
  static constexpr int kBytes = 210;
  static constexpr bool kQuantised = true;
  static constexpr int kGroup = 16;  // elements that share a scale in the integer chain
  static constexpr bool kMinimum = false;
  static constexpr int kGroups = kBlock / kGroup;

  /// The floats, in the order of operations of PyPI gguf.
  static EVROS_INLINE void decode(const std::byte* block, float* out) {
    for (int i = 0; i < kBlock; ++i) out[i] = group_scale(block, i / kGroup) * static_cast<float>(level(block, i));
  }

  /// Weight integers q - 32 and the scale sw of each group, as the integer chain takes them.
  static EVROS_INLINE void decode_groups(const std::byte* block, int8_t* q, float* scale) {
    for (int g = 0; g < kGroups; ++g) scale[g] = group_scale(block, g);
    for (int i = 0; i < kBlock; ++i) q[i] = static_cast<int8_t>(level(block, i));
  }

  /// The scale d is neither infinite nor NaN.
  static EVROS_INLINE bool finite(const std::byte* block) { return (load_u16(block + kScale) & 0x7c00u) != 0x7c00u; }

  /// Per group the scale of least weighted squared error, of either sign because 64 levels reach one further below than
  /// above; then rounded to eight bits of the block's largest. `columns`: what the column of each element weighs, or null.
  static void encode(const float* in, std::byte* block, const float* columns = nullptr) {
    float scale[kGroups], extreme = 0.0f;
    for (int g = 0; g < kGroups; ++g) {
      scale[g] = fit_signed(in + g * kGroup, columns == nullptr ? nullptr : columns + g * kGroup);
      extreme = abs(scale[g]) > abs(extreme) ? scale[g] : extreme;
    }
    const uint16_t bits = f32_to_f16(extreme / -128.0f);
    __builtin_memset(block, 0, kBytes);
    __builtin_memcpy(block + kScale, &bits, sizeof bits);
    const float d = f16_to_f32(bits);
    for (int g = 0; g < kGroups; ++g) {
      const int32_t step = d != 0.0f ? round_between(scale[g] / d, -128, 127) : 0;
      block[kSteps + g] = static_cast<std::byte>(step);
      const float unit = d * static_cast<float>(step);
      for (int i = g * kGroup; i < (g + 1) * kGroup; ++i) {
        set_level(block, i, unit != 0.0f ? round_between(in[i] / unit, -32, 31) : 0);
      }
    }
  }

 private:
  static constexpr int kHigh = 128, kSteps = 192, kScale = 208;

  static EVROS_INLINE int low_byte(int i) { return i / 128 * 64 + i % 64; }
  static EVROS_INLINE int low_shift(int i) { return i % 128 / 64 * 4; }
  static EVROS_INLINE int high_byte(int i) { return kHigh + i / 128 * 32 + i % 32; }
  static EVROS_INLINE int high_shift(int i) { return i % 128 / 32 * 2; }

  static EVROS_INLINE int32_t level(const std::byte* block, int i) {
    const uint32_t low = (static_cast<uint32_t>(block[low_byte(i)]) >> low_shift(i)) & 15u;
    const uint32_t high = (static_cast<uint32_t>(block[high_byte(i)]) >> high_shift(i)) & 3u;
    return static_cast<int32_t>(low | (high << 4)) - 32;
  }
  static EVROS_INLINE void set_level(std::byte* block, int i, int32_t value) {
    const uint32_t q = static_cast<uint32_t>(value + 32);
    std::byte &low = block[low_byte(i)], &high = block[high_byte(i)];
    low = static_cast<std::byte>(static_cast<uint32_t>(low) | ((q & 15u) << low_shift(i)));
    high = static_cast<std::byte>(static_cast<uint32_t>(high) | ((q >> 4) << high_shift(i)));
  }
  static EVROS_INLINE float group_scale(const std::byte* block, int g) {
    return f16_to_f32(load_u16(block + kScale)) *
           static_cast<float>(static_cast<int8_t>(static_cast<uint8_t>(block[kSteps + g])));
  }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
