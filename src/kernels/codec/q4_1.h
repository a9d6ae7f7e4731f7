// Q4_1, Q5_0 and Q5_1: blocks of 32 with one scale d (f16), nibbles in the order of Q4_0 and, in Q5, a word with the fifth bit of
// every element. Q4_1 and Q5_1 add a number m (f16): d * q + m, so their minimum is -m; Q5_0 is d * (q - 16). Layout:
// docs/model.md 6.4.
#pragma once

#include "kernels/codec/lane.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

/// d and m lie in one word.
template <typename Block, typename Group>
EVROS_INLINE void take_scale_and_sum(const Block& b, Group& out) {
  const auto both = b.word(0);
  out.scale[0] = low_f16(both);
  out.minimum[0] = negate(low_f16(shift_right(both, 16)));
}

struct Q4_1 : GroupCodec<Q4_1> {
  static constexpr int kBlock = 32, kBytes = 20;  // elements, bytes
  static constexpr int kGroup = 32;               // elements that share a scale in the integer chain
  static constexpr bool kMinimum = true;
  static constexpr int kOffset = 0, kLargest = 15;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t, Group& out) {
    take_scale_and_sum(b, out);
    take_nibbles(b, 1, out);
  }
  static EVROS_INLINE bool finite(const std::byte* block) { return are_finite_halves(load_u32(block)); }
};

struct Q5_0 : GroupCodec<Q5_0> {
  static constexpr int kBlock = 32, kBytes = 22;
  static constexpr int kGroup = 32;
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = 16, kLargest = 31;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t, Group& out) {
    out.scale[0] = b.half();
    take_nibbles(b, 1, out);
    add_fifth_bits(b.word(0), out);
  }
};

struct Q5_1 : GroupCodec<Q5_1> {
  static constexpr int kBlock = 32, kBytes = 24;
  static constexpr int kGroup = 32;
  static constexpr bool kMinimum = true;
  static constexpr int kOffset = 0, kLargest = 31;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t, Group& out) {
    take_scale_and_sum(b, out);
    take_nibbles(b, 2, out);
    add_fifth_bits(b.word(1), out);
  }
  static EVROS_INLINE bool finite(const std::byte* block) { return are_finite_halves(load_u32(block)); }

  /// As gguf quantises: m the least element, d = (largest - least) / 31, q = trunc((x - m) / d + 0.5).
  static EVROS_INLINE void encode(const float* in, std::byte* block) {
    float least = in[0], largest = in[0];
    for (int i = 1; i < kBlock; ++i) {
      least = in[i] < least ? in[i] : least;
      largest = in[i] > largest ? in[i] : largest;
    }
    const float d = (largest - least) / 31.0f, inverse = d == 0.0f ? 0.0f : 1.0f / d;
    const uint32_t units = f32_to_f16(d) | static_cast<uint32_t>(f32_to_f16(least)) << 16;
    uint32_t fifth = 0;
    for (int i = 0; i < 16; ++i) {
      const uint32_t low = level((in[i] - least) * inverse), high = level((in[i + 16] - least) * inverse);
      block[8 + i] = static_cast<std::byte>((low & 15u) | (high & 15u) << 4);
      fifth |= low >> 4 << i | high >> 4 << (i + 16);
    }
    __builtin_memcpy(block, &units, sizeof units);
    __builtin_memcpy(block + 4, &fifth, sizeof fifth);
  }

 private:
  static EVROS_INLINE uint32_t level(float scaled) {
    const float moved = scaled + 0.5f;
    return moved >= 0.0f ? (moved < 31.0f ? static_cast<uint32_t>(moved) : 31u) : 0u;
  }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
