// Q5_K: blocks of 256 in 176 bytes: d, dmin and twelve bytes of scales as Q4_K has them, 32 bytes with the fifth bit of every element
// (bit g of byte i: element i of group g), 128 bytes of nibbles in the order of Q4_K. Layout: docs/model.md 6.4.
#pragma once

#include "kernels/codec/lane.h"
#include "kernels/codec/search.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

struct Q5_K : GroupCodec<Q5_K> {
  static constexpr int kBlock = 256, kBytes = 176;  // elements, bytes
  static constexpr int kGroup = 32;                 // elements that share a scale in the integer chain
  static constexpr bool kMinimum = true;
  static constexpr int kOffset = 0, kLargest = 31;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t g, Group& out) {
    take_scales(b, g, out);
    const int nibble = static_cast<int>(g % 2) * 4;
    for (int w = 0; w < 8; ++w) {
      const auto low = bits_at(b.word(12 + g / 2 * 8 + w), nibble, Block::all(0x0f0f0f0fu));
      const auto high = bits_at(b.word(4 + w), static_cast<int>(g), Block::all(0x01010101u));
      out.word[w] = low | shift_left(high, 4);
    }
  }
  static EVROS_INLINE bool finite(const std::byte* block) { return are_finite_halves(load_u32(block)); }

  /// By the search of AffineBlock; `columns`: what the column of each element weighs, or null.
  static void encode(const float* in, std::byte* block, const float* columns = nullptr) {
    const AffineBlock<31> fit(in, columns);
    __builtin_memset(block, 0, kBytes);
    fit.write_head(block);
    for (int i = 0; i < 32; ++i) {
      uint32_t fifth = 0;
      for (int g = 0; g < kBlock / kGroup; ++g) fifth |= fit.level(g, i) >> 4 << g;
      block[16 + i] = static_cast<std::byte>(fifth);
      for (int g = 0; g < kBlock / kGroup; g += 2) {
        block[48 + g / 2 * 32 + i] = static_cast<std::byte>((fit.level(g, i) & 15u) | (fit.level(g + 1, i) & 15u) << 4);
      }
    }
  }

 private:
  /// Words 1 and 2 hold scale and minimum of groups 0..3 in the low six bits of their bytes; word 3 the low nibbles of scale
  /// and minimum of groups 4..7, whose two high bits are the high bits of words 1 and 2.
  template <typename Block, typename Group>
  static EVROS_INLINE void take_scales(const Block& b, int64_t g, Group& out) {
    const int shift = static_cast<int>(g % 4) * 8;
    auto scale = shift_right(b.word(1), shift), minimum = shift_right(b.word(2), shift);
    if (g >= 4) {
      const auto low = shift_right(b.word(3), shift), high = Block::all(0x30u);
      scale = (low & Block::all(15u)) | (shift_right(scale, 2) & high);
      minimum = bits_at(low, 4, Block::all(15u)) | (shift_right(minimum, 2) & high);
    }
    const auto units = b.word(0);
    out.scale[0] = low_f16(units) * to_float(scale & Block::all(63u));
    out.minimum[0] = low_f16(shift_right(units, 16)) * to_float(minimum & Block::all(63u));
  }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
