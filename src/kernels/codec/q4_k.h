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

  /// Per group a scale and a minimum of least weighted squared error, rounded to six bits of the block's largest, then moved
  /// by one step where that lowers the error again.
  static void encode(const float* in, std::byte* block) {
    AffineFit fit[kGroups];
    float top_scale = 0.0f, top_minimum = 0.0f;
    for (int g = 0; g < kGroups; ++g) {
      fit[g] = fit_affine(in + g * kGroup);
      top_scale = fit[g].scale > top_scale ? fit[g].scale : top_scale;
      top_minimum = fit[g].minimum > top_minimum ? fit[g].minimum : top_minimum;
    }
    const uint16_t d_bits = f32_to_f16(top_scale / 63.0f), dmin_bits = f32_to_f16(top_minimum / 63.0f);
    __builtin_memset(block, 0, kBytes);
    __builtin_memcpy(block, &d_bits, sizeof d_bits);
    __builtin_memcpy(block + 2, &dmin_bits, sizeof dmin_bits);
    const float d = f16_to_f32(d_bits), dmin = f16_to_f32(dmin_bits);
    for (int g = 0; g < kGroups; ++g) {
      int32_t scale = step_of(fit[g].scale, d), minimum = step_of(fit[g].minimum, dmin);
      improve(in + g * kGroup, d, dmin, scale, minimum);
      set_steps(block, g, static_cast<uint32_t>(scale), static_cast<uint32_t>(minimum));
      const float inverse = inverse_or_zero(d * static_cast<float>(scale)), low = dmin * static_cast<float>(minimum);
      for (int i = 0; i < kGroup; ++i) {
        const uint32_t q = static_cast<uint32_t>(nearest_level(in[g * kGroup + i], inverse, low));
        std::byte& byte = block[16 + g / 2 * 32 + i];
        byte = static_cast<std::byte>(static_cast<uint32_t>(byte) | (q << (g % 2 * 4)));
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
  static EVROS_INLINE void set_bits(std::byte* block, int i, uint32_t bits) {
    block[i] = static_cast<std::byte>(byte_at(block, i) | bits);
  }
  static EVROS_INLINE void set_steps(std::byte* block, int g, uint32_t scale, uint32_t minimum) {
    if (g < 4) {
      set_bits(block, 4 + g, scale);
      set_bits(block, 8 + g, minimum);
    } else {
      set_bits(block, 8 + g, (scale & 15u) | ((minimum & 15u) << 4));
      set_bits(block, g, scale >> 4 << 6);
      set_bits(block, 4 + g, minimum >> 4 << 6);
    }
  }

  static EVROS_INLINE int32_t step_of(float value, float unit) {
    return unit > 0.0f ? round_between(value / unit, 0, 63) : 0;
  }

  /// Tries the neighbours of both steps.
  static void improve(const float* in, float d, float dmin, int32_t& scale, int32_t& minimum) {
    const ElementWeights<kGroup> weights(in);
    const int32_t scale_from = scale, minimum_from = minimum;
    float best = affine_error(in, weights.w, d * static_cast<float>(scale), dmin * static_cast<float>(minimum));
    for (int32_t s = scale_from - 1; s <= scale_from + 1; ++s) {
      for (int32_t m = minimum_from - 1; m <= minimum_from + 1; ++m) {
        if (s < 0 || s > 63 || m < 0 || m > 63) continue;
        const float error = affine_error(in, weights.w, d * static_cast<float>(s), dmin * static_cast<float>(m));
        if (!(error < best)) continue;
        best = error;
        scale = s;
        minimum = m;
      }
    }
  }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
