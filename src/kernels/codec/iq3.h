// IQ3_XXS and IQ3_S: blocks of 256 whose elements come four at a time from a grid of magnitudes, with signs; d (f16) first, then 64 index
// bytes. Layout: docs/model.md 6.4.
//   IQ3_XXS (98 bytes): per 32 elements a word with four sign codes of seven bits and a scale s: ((d * (0.5 + s)) * 0.5) * weight
//   IQ3_S (110): 8 bytes with the ninth bit of every index, 32 sign bytes, 4 bytes with s per 32: (d * (1 + 2 s)) * weight
#pragma once

#include "kernels/codec/codebooks.h"
#include "kernels/codec/iq_signs.h"
#include "kernels/codec/lane.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

struct IQ3_XXS : GroupCodec<IQ3_XXS> {
  static constexpr int kBlock = 256, kBytes = 98;  // elements, bytes
  static constexpr int kGroup = 32;                // elements that share a scale in the integer chain
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = kSignedOffset, kLargest = kSignedOffset + 62;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t g, Group& out) {
    const auto codes = b.word(16 + g);
    const auto s = to_float(shift_right(codes, 28));
    out.scale[0] = b.half() * (Block::number(0.5f) + s) * Block::number(0.5f);
    for (int j = 0; j < 4; ++j) {
      const auto signs = eight_signs<Block>(bits_at(codes, 7 * j, Block::all(127u)));
      const auto indices = shift_right(b.word(2 * g + j / 2), j % 2 * 16);
      for (int half = 0; half < 2; ++half) {
        const auto entry = Block::look_up(iq3_xxs_grid(), bits_at(indices, 8 * half, Block::all(255u)));
        out.word[2 * j + half] = with_signs<Block>(entry, shift_right(signs, 4 * half));
      }
    }
  }
};

struct IQ3_S : GroupCodec<IQ3_S> {
  static constexpr int kBlock = 256, kBytes = 110;
  static constexpr int kGroup = 32;
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = kSignedOffset, kLargest = kSignedOffset + 15;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t g, Group& out) {
    const auto s = bits_at(b.word(26), static_cast<int>(g) * 4, Block::all(15u));
    out.scale[0] = b.half() * to_float(Block::all(1u) + shift_left(s, 1));
    const auto high = shift_right(b.word(16 + g / 4), static_cast<int>(g % 4) * 8), signs = b.word(18 + g);
    for (int i = 0; i < 8; ++i) {
      const auto low = bits_at(b.word(2 * g + i / 4), i % 4 * 8, Block::all(255u));
      const auto index = low | shift_left(bits_at(high, i, Block::all(1u)), 8);
      out.word[i] = with_signs<Block>(Block::look_up(iq3_s_grid(), index), shift_right(signs, 4 * i));
    }
  }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
