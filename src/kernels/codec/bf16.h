// Bf16 weights: one number a block, widened exactly.
#pragma once

#include <cstddef>

#include "kernels/codec/float16.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

struct Bf16 {
  static constexpr int kBlock = 1;  // elements
  static constexpr int kBytes = 2;
  static constexpr bool kQuantised = false;

  static EVROS_INLINE void decode(const std::byte* block, float* out) { *out = bf16_to_f32(load_u16(block)); }
  /// Neither infinite nor NaN.
  static EVROS_INLINE bool finite(const std::byte* block) { return (load_u16(block) & 0x7f80u) != 0x7f80u; }
  static EVROS_INLINE void encode(const float* in, std::byte* block) {
    const uint16_t bits = f32_to_bf16(*in);
    __builtin_memcpy(block, &bits, sizeof bits);
  }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
