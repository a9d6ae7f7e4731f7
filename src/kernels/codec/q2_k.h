// Q2_K and Q3_K: blocks of 256 whose groups of 16 have scales of their own; bit pairs in the order of lane.h. Q2_K (84 bytes): 16 bytes
// with a scale (low nibble) and a minimum (high nibble) each, 64 bytes of pairs, d and dmin (f16): (d * scale) * q - dmin *
// minimum. Q3_K (110 bytes): 32 bytes with the third bit of every element (bit g of byte i: element i of group g of 32), 64
// bytes of pairs, 12 bytes with sixteen 6-bit scales, d: (d * (scale - 32)) * (q - 4). Layout: docs/model.md 6.4.
#pragma once

#include "kernels/codec/lane.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

struct Q2_K : GroupCodec<Q2_K> {
  static constexpr int kBlock = 256, kBytes = 84;  // elements, bytes
  static constexpr int kGroup = 16;                // elements that share a scale in the integer chain
  static constexpr bool kMinimum = true;
  static constexpr int kOffset = 0, kLargest = 3;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t g, Group& out) {
    const auto units = b.word(20), steps = b.word(g / 2);
    const auto d = low_f16(units), dmin = low_f16(shift_right(units, 16));
    for (int s = 0; s < 2; ++s) {
      const auto step = shift_right(steps, static_cast<int>(g % 2) * 16 + s * 8);
      out.scale[s] = d * to_float(step & Block::all(15u));
      out.minimum[s] = dmin * to_float(bits_at(step, 4, Block::all(15u)));
    }
    for (int w = 0; w < 8; ++w) out.word[w] = bit_pairs(b, 4, g, w);
  }
  static EVROS_INLINE bool finite(const std::byte* block) { return are_finite_halves(load_u32(block + 80)); }
};

struct Q3_K : GroupCodec<Q3_K> {
  static constexpr int kBlock = 256, kBytes = 110, kShortAt = 108;
  static constexpr int kGroup = 16;
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = 4, kLargest = 7;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t g, Group& out) {
    const auto d = b.half();
    for (int s = 0; s < 2; ++s) {
      // Scale i: low nibble i / 8 of byte i % 8, and pair i / 4 of byte 8 + i % 4.
      const int i = static_cast<int>(g) * 2 + s, byte = i % 4 * 8;
      const auto low = bits_at(b.word(24 + i % 8 / 4), byte + i / 8 * 4, Block::all(15u));
      const auto high = bits_at(b.word(26), byte + i / 4 * 2, Block::all(3u));
      out.scale[s] = d * to_float((low | shift_left(high, 4)) - Block::all(32u));
    }
    for (int w = 0; w < 8; ++w) {
      const auto high = bits_at(b.word(w), static_cast<int>(g), Block::all(0x01010101u));
      out.word[w] = bit_pairs(b, 8, g, w) | shift_left(high, 2);
    }
  }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
