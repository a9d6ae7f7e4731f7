// IQ1_S and IQ1_M: blocks of 256 whose elements come eight at a time from a grid of -1, 0 and 1, all eight moved by +- 1/8. In integers:
// weight = 8 * grid +- 1, scale an eighth (docs/numerics.md). Layout: docs/model.md 6.4.
//   IQ1_S (50 bytes): d (f16), 32 low bytes of the index; per 32 elements a 16-bit number with four times three high bits, a
//   scale s of three bits and the sign of the move: (d * (2 s + 1)) * (grid +- 1/8)
//   IQ1_M (56): 32 low bytes of the index, 16 bytes with a nibble per 8 elements (three high bits, the sign of the move), four
//   16-bit numbers with four scales of three bits each, one per 16 elements, whose high nibbles together are d
#pragma once

#include "kernels/codec/codebooks.h"
#include "kernels/codec/lane.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

constexpr int kIq1Offset = 9;  // grid entries are stored plus one: 8 * (entry - 1) +- 1

/// Elements 8j ... 8j + 7; `down`, 0 or 1, moves them down.
template <typename Block, typename Word, typename Group>
EVROS_INLINE void take_moved_eight(Word index, Word down, int j, Group& out) {
  const auto move = (down - Block::all(1u)) & Block::all(0x02020202u);
  Word first, second;
  Block::look_up_two(iq1_grid(), index, first, second);
  out.word[2 * j] = shift_left(first, 3) + move;
  out.word[2 * j + 1] = shift_left(second, 3) + move;
}

template <typename Block, typename Number, typename Word>
EVROS_INLINE Number iq1_scale(Number d, Word s) {
  return d * to_float(shift_left(s & Block::all(7u), 1) + Block::all(1u)) * Block::number(0.125f);
}

struct IQ1_S : GroupCodec<IQ1_S> {
  static constexpr int kBlock = 256, kBytes = 50;  // elements, bytes
  static constexpr int kGroup = 32;                // elements that share a scale in the integer chain
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = kIq1Offset, kLargest = 18;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t g, Group& out) {
    const auto low = b.word(g), high = shift_right(b.word(8 + g / 2), static_cast<int>(g % 2) * 16);
    out.scale[0] = iq1_scale<Block>(b.half(), shift_right(high, 12));
    const auto down = bits_at(high, 15, Block::all(1u));
    for (int j = 0; j < 4; ++j) {
      const auto index = bits_at(low, 8 * j, Block::all(255u)) | shift_left(bits_at(high, 3 * j, Block::all(7u)), 8);
      take_moved_eight<Block>(index, down, j, out);
    }
  }
};

struct IQ1_M : GroupCodec<IQ1_M> {
  static constexpr int kBlock = 256, kBytes = 56;
  static constexpr int kGroup = 16;
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = kIq1Offset, kLargest = 18;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t g, Group& out) {
    const auto d = low_f16(scale_bits(b));
    const int i = static_cast<int>(g);
    const auto steps = shift_right(b.word(12 + g / 4), i / 2 % 2 * 16 + i % 2 * 6);
    for (int s = 0; s < 2; ++s) out.scale[s] = iq1_scale<Block>(d, shift_right(steps, 3 * s));
    const auto low = b.word(g), nibbles = shift_right(b.word(8 + g / 2), i % 2 * 16);
    for (int j = 0; j < 4; ++j) {
      const auto nibble = shift_right(nibbles, 4 * j);
      const auto index = bits_at(low, 8 * j, Block::all(255u)) | shift_left(nibble & Block::all(7u), 8);
      take_moved_eight<Block>(index, bits_at(nibble, 3, Block::all(1u)), j, out);
    }
  }
  static EVROS_INLINE bool finite(const std::byte* block) { return is_finite_half(scale_bits(RowBlock<IQ1_M>{block})); }

 private:
  template <typename Block>
  static EVROS_INLINE typename Block::Word scale_bits(const Block& b) {
    const auto first = b.word(12), second = b.word(13);
    return bits_at(first, 12, Block::all(0xfu)) | bits_at(first, 24, Block::all(0xf0u)) |
           bits_at(second, 4, Block::all(0xf00u)) | bits_at(second, 16, Block::all(0xf000u));
  }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
