// Q4_0: blocks of 32, scale d (f16), 16 bytes; byte i holds element i in its low nibble and element i + 16 in its high
// nibble; value d * (q - 8).
#pragma once

#include <cstddef>

#include "kernels/codec/float16.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

struct Q4_0 {
  static constexpr int kBlock = 32;  // elements
  static constexpr int kBytes = 18;
  static constexpr bool kQuantised = true;
  static constexpr int kGroup = 32;  // elements that share a scale in the integer chain
  static constexpr bool kMinimum = false;

  /// The floats, in the order of operations of PyPI gguf: d * float(q - 8).
  static EVROS_INLINE void decode(const std::byte* block, float* out) {
    const float d = f16_to_f32(load_u16(block));
    for (int i = 0; i < 16; ++i) {
      const int byte = static_cast<int>(block[2 + i]);
      out[i] = d * static_cast<float>((byte & 15) - 8);
      out[i + 16] = d * static_cast<float>((byte >> 4) - 8);
    }
  }

  /// Weight integers q - 8 and the scale sw of each group, as the integer chain takes them.
  static EVROS_INLINE void decode_groups(const std::byte* block, int8_t* q, float* scale) {
    *scale = f16_to_f32(load_u16(block));
    for (int i = 0; i < 16; ++i) {
      const int byte = static_cast<int>(block[2 + i]);
      q[i] = static_cast<int8_t>((byte & 15) - 8);
      q[i + 16] = static_cast<int8_t>((byte >> 4) - 8);
    }
  }

  /// The scale is neither infinite nor NaN.
  static EVROS_INLINE bool finite(const std::byte* block) { return (load_u16(block) & 0x7c00u) != 0x7c00u; }

  /// As gguf quantises: d = (the element of largest magnitude, the first of equals) / -8, q = trunc(x / d + 8.5) in [0, 15].
  static EVROS_INLINE void encode(const float* in, std::byte* block) {
    float extreme = in[0];
    for (int i = 1; i < kBlock; ++i) extreme = abs(in[i]) > abs(extreme) ? in[i] : extreme;
    const float d = extreme / -8.0f;
    const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
    const uint16_t bits = f32_to_f16(d);
    __builtin_memcpy(block, &bits, sizeof bits);
    for (int i = 0; i < 16; ++i) {
      const uint32_t low = nibble(in[i] * inverse), high = nibble(in[i + 16] * inverse);
      block[2 + i] = static_cast<std::byte>(low | (high << 4));
    }
  }

 private:
  static EVROS_INLINE uint32_t nibble(float scaled) {
    const float shifted = scaled + 8.5f;
    return shifted > 0.0f ? (shifted < 15.0f ? static_cast<uint32_t>(shifted) : 15u) : 0u;
  }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
