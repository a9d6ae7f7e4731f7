// IQ2_XXS, IQ2_XS and IQ2_S: blocks of 256 whose elements come eight at a time from a grid of magnitudes, with signs; d (f16) first. The
// value is ((d * (0.5 + s)) * 0.25) * weight, s a scale of four bits. Layout: docs/model.md 6.4.
//   IQ2_XXS (66 bytes): per 32 elements four index bytes, then a word with four sign codes of seven bits and s on top
//   IQ2_XS (74): per 8 a 16-bit number, nine bits of index and a sign code; eight bytes with s for every 16 elements
//   IQ2_S (82): 32 low bytes of the index, 32 sign bytes, 8 bytes with two high bits of the index, 8 bytes with s per 16
#pragma once

#include "kernels/codec/codebooks.h"
#include "kernels/codec/iq_signs.h"
#include "kernels/codec/lane.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

template <typename Block, typename Number, typename Word>
EVROS_INLINE Number iq2_scale(Number d, Word s) {
  return d * (Block::number(0.5f) + to_float(s & Block::all(15u))) * Block::number(0.25f);
}

struct IQ2_XXS : GroupCodec<IQ2_XXS> {
  static constexpr int kBlock = 256, kBytes = 66;  // elements, bytes
  static constexpr int kGroup = 32;                // elements that share a scale in the integer chain
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = kSignedOffset, kLargest = kSignedOffset + 43;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t g, Group& out) {
    const auto indices = b.word(2 * g), codes = b.word(2 * g + 1);
    out.scale[0] = iq2_scale<Block>(b.half(), shift_right(codes, 28));
    for (int j = 0; j < 4; ++j) {
      const auto signs = eight_signs<Block>(bits_at(codes, 7 * j, Block::all(127u)));
      take_eight<Block>(iq2_xxs_grid(), bits_at(indices, 8 * j, Block::all(255u)), signs, j, out);
    }
  }
};

/// The nibble of every 16 elements in words `first` and first + 1.
template <typename Block, typename Group>
EVROS_INLINE void take_iq2_scales(const Block& b, int64_t first, int64_t g, Group& out) {
  const auto d = b.half();
  const auto both = shift_right(b.word(first + g / 4), static_cast<int>(g % 4) * 8);
  for (int s = 0; s < 2; ++s) out.scale[s] = iq2_scale<Block>(d, shift_right(both, 4 * s));
}

struct IQ2_XS : GroupCodec<IQ2_XS> {
  static constexpr int kBlock = 256, kBytes = 74;
  static constexpr int kGroup = 16;
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = kSignedOffset, kLargest = kSignedOffset + 43;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t g, Group& out) {
    take_iq2_scales(b, 16, g, out);
    for (int j = 0; j < 4; ++j) {
      const auto both = shift_right(b.word(2 * g + j / 2), j % 2 * 16);
      const auto signs = eight_signs<Block>(bits_at(both, 9, Block::all(127u)));
      take_eight<Block>(iq2_xs_grid(), both & Block::all(511u), signs, j, out);
    }
  }
};

struct IQ2_S : GroupCodec<IQ2_S> {
  static constexpr int kBlock = 256, kBytes = 82;
  static constexpr int kGroup = 16;
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = kSignedOffset, kLargest = kSignedOffset + 43;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t g, Group& out) {
    take_iq2_scales(b, 18, g, out);
    const auto low = b.word(g), signs = b.word(8 + g);
    const auto high = shift_right(b.word(16 + g / 4), static_cast<int>(g % 4) * 8);
    for (int j = 0; j < 4; ++j) {
      const auto index = bits_at(low, 8 * j, Block::all(255u)) | shift_left(bits_at(high, 2 * j, Block::all(3u)), 8);
      take_eight<Block>(iq2_s_grid(), index, shift_right(signs, 8 * j), j, out);
    }
  }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
