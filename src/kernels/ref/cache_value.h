// How a number enters the K/V cache in 16 bits.
#pragma once

#include <cstdint>

#include "kernels/codec/float16.h"
#include "kernels/kernels.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

/// Rounds x to the 16-bit type. False when a finite value became infinite.
EVROS_INLINE bool round_to_cache(CacheType type, float x, uint16_t* bits) {
  *bits = type == CacheType::f16 ? f32_to_f16(x) : f32_to_bf16(x);
  const uint16_t infinity = type == CacheType::f16 ? 0x7c00u : 0x7f80u;
  return !is_finite(x) || (*bits & 0x7fffu) != infinity;
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
