// Grids of magnitudes with signs beside them, which IQ2 and IQ3 share. A weight becomes 64 plus or minus its magnitude.
#pragma once

#include "kernels/codec/lane.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

constexpr int kSignedOffset = 64;

/// Seven signs and, for the eighth, their parity: every group of eight has an even number of negative weights.
template <typename Block, typename Word>
EVROS_INLINE Word eight_signs(Word code) {
  auto parity = code ^ shift_right(code, 4);
  parity = parity ^ shift_right(parity, 2);
  parity = parity ^ shift_right(parity, 1);
  return code | shift_left(parity & Block::all(1u), 7);
}

/// Four magnitudes of at most 64, negative where one of the low four bits of `signs` is set, plus 64. Of a byte m with the mask
/// s of seven ones, (m ^ s) + 64 - s is 64 + m for s = 0 and (127 - m) + 64 - 127 = 64 - m else; no byte overflows.
template <typename Block, typename Word>
EVROS_INLINE Word with_signs(Word magnitudes, Word signs) {
  const auto ones = spread_bits<0>(signs);
  const auto mask = shift_left(ones, 7) - ones;
  return (magnitudes ^ mask) + Block::all(0x40404040u) - mask;
}

/// Entry `index` of a grid of eight as elements 8j ... 8j + 7.
template <typename Block, typename Word, typename Group>
EVROS_INLINE void take_eight(const uint32_t* grid, Word index, Word signs, int j, Group& out) {
  Word first, second;
  Block::look_up_two(grid, index, first, second);
  out.word[2 * j] = with_signs<Block>(first, signs);
  out.word[2 * j + 1] = with_signs<Block>(second, shift_right(signs, 4));
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
