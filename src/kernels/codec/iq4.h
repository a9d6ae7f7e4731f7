// IQ4_NL and IQ4_XS: nibbles that stand for sixteen uneven values T. IQ4_NL: blocks of 32, d (f16) and nibbles in the order of Q4_0: d * T[q].
// IQ4_XS: blocks of 256 in 136 bytes: d, a 16-bit number with the two high bits and four bytes with the low nibbles of eight
// scales, then 16 bytes of nibbles for each group of 32: (d * (scale - 32)) * T[q]. Layout: docs/model.md 6.4.
#pragma once

#include "kernels/codec/codebooks.h"
#include "kernels/codec/lane.h"
#include "kernels/codec/search.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

struct IQ4_NL : GroupCodec<IQ4_NL> {
  static constexpr int kBlock = 32, kBytes = 18;  // elements, bytes
  static constexpr int kGroup = 32;               // elements that share a scale in the integer chain
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = 128, kLargest = 255;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t, Group& out) {
    out.scale[0] = b.half();
    take_nibbles_of(iq4_values(), b, 0, out);
  }

  /// The scale of least weighted squared error among those that bring the element of largest magnitude near one end of T: for levels
  /// fixed, the best scale leaves the error sum w x x - (sum w T x)^2 / sum w T T, so the largest quotient wins.
  static void encode(const float* in, std::byte* block) {
    float extreme = 0.0f;
    for (int i = 0; i < kBlock; ++i) extreme = abs(in[i]) > abs(extreme) ? in[i] : extreme;
    int32_t level[kBlock];
    uint16_t bits = 0;
    if (extreme != 0.0f) bits = f32_to_f16(best_scale(in, extreme));
    nearest(in, inverse_of(f16_to_f32(bits)), level);
    __builtin_memcpy(block, &bits, sizeof bits);
    for (int i = 0; i < 16; ++i) block[2 + i] = static_cast<std::byte>(level[i] | level[i + 16] << 4);
  }

 private:
  static EVROS_INLINE float value(int32_t level) { return static_cast<float>(iq4_values()[level] - kOffset); }
  static EVROS_INLINE float inverse_of(float d) { return d != 0.0f ? 1.0f / d : 0.0f; }

  /// The level of the value nearest to x * inverse: how many middles between neighbours it is above.
  static void nearest(const float* x, float inverse, int32_t* level) {
    for (int i = 0; i < kBlock; ++i) level[i] = 0;
    for (int32_t t = 0; t < 15; ++t) {
      const float middle = (value(t) + value(t + 1)) * 0.5f;
      for (int i = 0; i < kBlock; ++i) level[i] += x[i] * inverse > middle ? 1 : 0;
    }
  }

  static float best_scale(const float* x, float extreme) {
    constexpr int kTries = 8;
    const ElementWeights<kBlock> weights(x);
    float best = extreme / value(0), best_gain = 0.0f;
    for (int32_t end = 0; end < 16; end += 15) {
      for (int t = -kTries; t <= kTries; ++t) {
        int32_t level[kBlock];
        nearest(x, (value(end) + static_cast<float>(t)) / extreme, level);
        float swx = 0.0f, sww = 0.0f;
        for (int i = 0; i < kBlock; ++i) {
          const float of_level = value(level[i]);
          swx += weights.w[i] * (of_level * x[i]);
          sww += weights.w[i] * (of_level * of_level);
        }
        if (!(sww > 0.0f) || !(swx * swx / sww > best_gain)) continue;
        best_gain = swx * swx / sww;
        best = swx / sww;
      }
    }
    return best;
  }
};

struct IQ4_XS : GroupCodec<IQ4_XS> {
  static constexpr int kBlock = 256, kBytes = 136;
  static constexpr int kGroup = 32;
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = 128, kLargest = 255;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t g, Group& out) {
    const auto head = b.word(0);
    const int i = static_cast<int>(g);
    const auto low = bits_at(b.word(1), 4 * i, Block::all(15u)), high = bits_at(head, 16 + 2 * i, Block::all(3u));
    out.scale[0] = low_f16(head) * to_float((low | shift_left(high, 4)) - Block::all(32u));
    take_nibbles_of(iq4_values(), b, 2 + 4 * g, out);
  }
  static EVROS_INLINE bool finite(const std::byte* block) { return is_finite_half(load_u16(block)); }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
