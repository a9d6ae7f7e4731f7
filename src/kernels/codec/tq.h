// TQ1_0 and TQ2_0: blocks of 256 weights of -1, 0 and 1 with one scale d (f16), which comes last: d * (t - 1). Layout: docs/model.md 6.4.
//   TQ1_0 (54 bytes): five base-3 digits a byte: digit n of bytes 0..31 are elements 32 n ..., of bytes 32..47 elements
//   160 + 16 n ...; digit n < 4 of bytes 48..51 elements 240 + 4 n ... Digit n of b is ((b * 3^n mod 256) * 3) / 256.
//   TQ2_0 (66): bit pairs in the order of lane.h
#pragma once

#include "kernels/codec/lane.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

struct TQ1_0 : GroupCodec<TQ1_0> {
  static constexpr int kBlock = 256, kBytes = 54, kShortAt = 52;  // elements, bytes
  static constexpr int kGroup = 32;                               // elements that share a scale in the integer chain
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = 1, kLargest = 2;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t g, Group& out) {
    out.scale[0] = b.half();
    const int i = static_cast<int>(g);
    for (int w = 0; w < 8; ++w) {
      if (i < 5) {
        out.word[w] = digits<Block>(b.word(w), i);
      } else if (i < 7 || w < 4) {
        out.word[w] = digits<Block>(b.word(8 + w % 4), (i - 5) * 2 + w / 4);
      } else {
        out.word[w] = digits<Block>(b.word(12), w - 4);
      }
    }
  }

 private:
  template <typename Block, typename Word>
  static EVROS_INLINE Word digits(Word bytes, int n) {
    const auto low = Block::all(0x00ff00ffu);
    return digit<Block>(bytes & low, n) | shift_left(digit<Block>(shift_right(bytes, 8) & low, n), 8);
  }

  /// Digit n of the bytes 0 and 2 of every word. 255 * 3^5 fits into 16 bits.
  template <typename Block, typename Word>
  static EVROS_INLINE Word digit(Word bytes, int n) {
    const auto low = Block::all(0x00ff00ffu);
    for (; n >= 2; n -= 2) bytes = bytes + shift_left(bytes, 3);
    if (n > 0) bytes = bytes + shift_left(bytes, 1);
    bytes = bytes & low;
    return shift_right(bytes + shift_left(bytes, 1), 8) & low;
  }
};

struct TQ2_0 : GroupCodec<TQ2_0> {
  static constexpr int kBlock = 256, kBytes = 66, kShortAt = 64;
  static constexpr int kGroup = 32;
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = 1, kLargest = 3;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t g, Group& out) {
    out.scale[0] = b.half();
    for (int w = 0; w < 8; ++w) out.word[w] = bit_pairs(b, 0, g, w);
  }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
