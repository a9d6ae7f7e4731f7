// MXFP4 and NVFP4: nibbles that stand for E2M1 numbers, here doubled (0 1 2 3 4 6 8 12 and their negatives), so scales are halved. Layout:
// docs/model.md 6.4.
//   MXFP4: blocks of 32 in 17 bytes: a byte e, then nibbles in the order of Q4_0: 2^(e - 128) * weight
//   NVFP4: blocks of 64 in 36 bytes: four scales of eight bits (E4M3 without a sign), then 8 bytes for each 16 elements, low
//   nibbles first: (E4M3 * 0.5) * weight. A tensor's outer scale is not the codec's business.
#pragma once

#include "kernels/codec/codebooks.h"
#include "kernels/codec/lane.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

struct MXFP4 : GroupCodec<MXFP4> {
  static constexpr int kBlock = 32, kBytes = 17;  // elements, bytes
  static constexpr int kGroup = 32;               // elements that share a scale in the integer chain
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = 12, kLargest = 24;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t, Group& out) {
    // 2^(e - 128) from two normal powers of two: the smallest results are subnormal, and exact.
    const auto e = b.byte(), half = shift_right(e, 1), bias = Block::all(63u);
    out.scale[0] = as_floats(shift_left(half + bias, 23)) * as_floats(shift_left((e - half) + bias, 23));
    take_nibbles_of(fp4_values(), b, 0, out);
  }
  /// 255 is the NaN of this scale.
  static EVROS_INLINE bool finite(const std::byte* block) { return static_cast<uint32_t>(block[0]) != 255u; }
};

struct NVFP4 : GroupCodec<NVFP4> {
  static constexpr int kBlock = 64, kBytes = 36;
  static constexpr int kGroup = 16;
  static constexpr bool kMinimum = false;
  static constexpr int kOffset = 12, kLargest = 24;

  template <typename Block, typename Group>
  static EVROS_INLINE void group(const Block& b, int64_t g, Group& out) {
    for (int s = 0; s < 2; ++s) {
      const int part = static_cast<int>(g) * 2 + s;
      out.scale[s] = scale_of<Block>(bits_at(b.word(0), 8 * part, Block::all(255u)));
      for (int w = 0; w < 4; ++w) {
        const auto both = b.word(1 + 2 * part + w % 2);
        const auto nibbles = bits_at(both, w / 2 * 4, Block::all(0x0f0f0f0fu));
        out.word[4 * s + w] = Block::look_up_bytes(fp4_values(), nibbles);
      }
    }
  }
  /// Every code is a number: the code that would be NaN reads as zero.
  static EVROS_INLINE bool finite(const std::byte*) { return true; }

 private:
  /// E4M3 in the top bits of a binary16 is 2^-8 times its value, subnormal ones included, which processors read from a
  /// binary16 as fast as others (from a binary32 not); half of that value. 0x7f is zero.
  template <typename Block, typename Word>
  static EVROS_INLINE auto scale_of(Word code) {
    const auto none = Block::all(0u);
    const auto is_number = shift_right(none - (code ^ Block::all(0x7fu)), 31);
    const auto magnitude = code & (none - is_number) & Block::all(0x7fu);
    return low_f16(shift_left(magnitude, 7)) * Block::number(0x1p7f);
  }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
