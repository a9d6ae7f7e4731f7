// F32 weights: one number a block, widened exactly.
#pragma once

#include <cstddef>

#include "kernels/math.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

struct F32 {
  static constexpr int kBlock = 1;  // elements
  static constexpr int kBytes = 4;
  static constexpr bool kQuantised = false;

  static EVROS_INLINE void decode(const std::byte* block, float* out) { __builtin_memcpy(out, block, sizeof *out); }
  /// Neither infinite nor NaN.
  static EVROS_INLINE bool finite(const std::byte* block) {
    float x;
    decode(block, &x);
    return is_finite(x);
  }
  static EVROS_INLINE void encode(const float* in, std::byte* block) { __builtin_memcpy(block, in, sizeof *in); }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
