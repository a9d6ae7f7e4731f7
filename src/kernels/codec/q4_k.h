// Q4_K: blocks of 256 in 144 bytes: d and dmin (f16), 12 bytes with eight 6-bit scales and eight 6-bit minima, 128 bytes of
// nibbles. Eight groups of 32; the low nibbles of 32 bytes are one group, their high nibbles the next. Value of group g:
// (d * scale[g]) * q - (dmin * minimum[g]), q in [0, 15]. Layout: docs/model.md 6.4.
#pragma once

#include <cstddef>

#include "kernels/codec/float16.h"
#include "kernels/codec/search.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

struct Q4_K {
  static constexpr int kBlock = 256;  // elements
  static constexpr int kBytes = 144;
  static constexpr bool kQuantised = true;
  static constexpr int kGroup = 32;  // elements that share a scale in the integer chain
  static constexpr bool kMinimum = true;
  static constexpr int kGroups = kBlock / kGroup;

  /// The floats, in the order of operations of PyPI gguf.
  static EVROS_INLINE void decode(const std::byte* block, float* out) {
    for (int g = 0; g < kGroups; ++g) {
      const float scale = group_scale(block, g), minimum = group_minimum(block, g);
      for (int i = 0; i < kGroup; ++i) out[g * kGroup + i] = scale * static_cast<float>(nibble(block, g, i)) - minimum;
    }
  }

  /// Weight integers q, the scale sw and the minimum mw of each group, as the integer chain takes them.
  static EVROS_INLINE void decode_groups(const std::byte* block, int8_t* q, float* scale, float* minimum) {
    for (int g = 0; g < kGroups; ++g) {
      scale[g] = group_scale(block, g);
      minimum[g] = group_minimum(block, g);
      for (int i = 0; i < kGroup; ++i) q[g * kGroup + i] = static_cast<int8_t>(nibble(block, g, i));
    }
  }

  /// Neither d nor dmin is infinite or NaN.
  static EVROS_INLINE bool finite(const std::byte* block) {
    return (load_u16(block) & 0x7c00u) != 0x7c00u && (load_u16(block + 2) & 0x7c00u) != 0x7c00u;
  }

  /// By the search of AffineBlock; `columns`: what the column of each element weighs, or null.
  static void encode(const float* in, std::byte* block, const float* columns = nullptr) {
    const AffineBlock<15> fit(in, columns);
    __builtin_memset(block, 0, kBytes);
    fit.write_head(block);
    for (int g = 0; g < kGroups; g += 2) {
      for (int i = 0; i < kGroup; ++i) {
        block[16 + g / 2 * 32 + i] = static_cast<std::byte>(fit.level(g, i) | fit.level(g + 1, i) << 4);
      }
    }
  }

 private:
  static EVROS_INLINE uint32_t byte_at(const std::byte* block, int i) { return static_cast<uint32_t>(block[i]); }
  static EVROS_INLINE uint32_t nibble(const std::byte* block, int g, int i) {
    return (byte_at(block, 16 + g / 2 * 32 + i) >> (g % 2 * 4)) & 15u;
  }

  // The twelve bytes: 0..3 and 4..7 hold scale and minimum of groups 0..3 in their low six bits; 8..11 the low nibbles of
  // scale and minimum of groups 4..7, whose two high bits are the high bits of bytes 0..3 and 4..7.
  static EVROS_INLINE uint32_t scale_step(const std::byte* block, int g) {
    return g < 4 ? byte_at(block, 4 + g) & 63u : (byte_at(block, 8 + g) & 15u) | (byte_at(block, g) >> 6 << 4);
  }
  static EVROS_INLINE uint32_t minimum_step(const std::byte* block, int g) {
    return g < 4 ? byte_at(block, 8 + g) & 63u : (byte_at(block, 8 + g) >> 4) | (byte_at(block, 4 + g) >> 6 << 4);
  }
  static EVROS_INLINE float group_scale(const std::byte* block, int g) {
    return f16_to_f32(load_u16(block)) * static_cast<float>(scale_step(block, g));
  }
  static EVROS_INLINE float group_minimum(const std::byte* block, int g) {
    return f16_to_f32(load_u16(block + 2)) * static_cast<float>(minimum_step(block, g));
  }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
