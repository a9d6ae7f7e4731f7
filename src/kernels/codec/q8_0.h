// Q8_0: blocks of 32, scale d (f16), 32 signed bytes; value d * q.
#pragma once

#include <cstddef>

#include "kernels/codec/float16.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

struct Q8_0 {
  static constexpr int kBlock = 32;  // elements
  static constexpr int kBytes = 34;
  static constexpr bool kQuantised = true;
  static constexpr int kGroup = 32;  // elements that share a scale in the integer chain
  static constexpr bool kMinimum = false;

  /// The floats, in the order of operations of PyPI gguf: float(q) * d.
  static EVROS_INLINE void decode(const std::byte* block, float* out) {
    const float d = f16_to_f32(load_u16(block));
    for (int i = 0; i < kBlock; ++i) out[i] = static_cast<float>(static_cast<int8_t>(block[2 + i])) * d;
  }

  /// Weight integers and the scale sw of each group, as the integer chain takes them.
  static EVROS_INLINE void decode_groups(const std::byte* block, int8_t* q, float* scale) {
    *scale = f16_to_f32(load_u16(block));
    for (int i = 0; i < kBlock; ++i) q[i] = static_cast<int8_t>(block[2 + i]);
  }

  /// The scale is neither infinite nor NaN.
  static EVROS_INLINE bool finite(const std::byte* block) { return (load_u16(block) & 0x7c00u) != 0x7c00u; }

  /// As gguf quantises: d = amax / 127 in float, q = x / d rounded half away from zero, then d to f16.
  static EVROS_INLINE void encode(const float* in, std::byte* block) {
    float amax = 0.0f;
    for (int i = 0; i < kBlock; ++i) amax = abs(in[i]) > amax ? abs(in[i]) : amax;
    const float d = amax / 127.0f;
    const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
    const uint16_t bits = f32_to_f16(d);
    __builtin_memcpy(block, &bits, sizeof bits);
    for (int i = 0; i < kBlock; ++i) {
      const float scaled = in[i] * inverse, magnitude = abs(scaled);
      const int32_t whole = magnitude < 128.0f ? static_cast<int32_t>(magnitude) : 127;  // else 1 / d overflowed
      const int32_t rounded = whole + (magnitude - static_cast<float>(whole) >= 0.5f ? 1 : 0);
      block[2 + i] = static_cast<std::byte>(scaled < 0.0f ? -rounded : rounded);
    }
  }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
