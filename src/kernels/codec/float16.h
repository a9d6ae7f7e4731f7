// Half precision and bfloat16, by integer operations: exact widening (subnormals, infinities and NaN included), rounding
// to nearest even. No hardware conversion is needed, and hardware gives the same bits (of a NaN, another NaN).
#pragma once

#include <cstdint>

#include "kernels/math.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

/// Unaligned little-endian 16 bits.
EVROS_INLINE uint16_t load_u16(const void* bytes) {
  uint16_t value;
  __builtin_memcpy(&value, bytes, sizeof value);
  return value;
}

EVROS_INLINE float f16_to_f32(uint16_t h) {
#ifdef __CUDA_ARCH__
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
  return x;
#else
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t magnitude = h & 0x7fffu;
  // A subnormal is its integer times 2^-24: exact in binary32.
  if (magnitude < 0x0400u) return float_from_bits(sign | float_bits(static_cast<float>(magnitude) * 0x1p-24f));
  if (magnitude < 0x7c00u) return float_from_bits(sign | ((magnitude << 13) + (112u << 23)));
  const uint32_t quiet = magnitude > 0x7c00u ? 0x00400000u : 0u;
  return float_from_bits(sign | 0x7f800000u | (magnitude << 13) | quiet);
#endif
}

EVROS_INLINE uint16_t f32_to_f16(float x) {
  const uint32_t bits = float_bits(x), magnitude = bits & 0x7fffffffu;
  const uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x03ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520, half way from the largest half to the next power of two
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: in units of 2^-24, where adding 0.5 leaves exactly those bits
    half = float_bits(float_from_bits(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    const uint32_t rebased = magnitude - (112u << 23);
    half = (rebased + 0x0fffu + ((rebased >> 13) & 1u)) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

EVROS_INLINE float bf16_to_f32(uint16_t b) { return float_from_bits(static_cast<uint32_t>(b) << 16); }

EVROS_INLINE uint16_t f32_to_bf16(float x) {
  uint32_t bits = float_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>(bits >> 16);
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
