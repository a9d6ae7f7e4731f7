// Blocks of quantised weights as the integer chain takes them on a GPU: a lane's block in registers, word by word as the
// canonical layout has it (layout.h), and its groups as integers four to a word for __dp4a. Formats: kernels/codec/.
#pragma once

#include "kernels/codec/codec.h"
#include "kernels/cuda/grid.h"
#include "kernels/layout.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

/// One lane's block.
template <typename Codec>
struct BlockWords {
  static constexpr int kShort = Codec::kBytes % 4;  // bytes of the block's short piece
  static constexpr int kWords = Codec::kBytes / 4;
  uint32_t half, word[kWords];  // half: the short piece

  /// `aligned`: the strip's words lie on addresses that are multiples of four; else, in a strip of odd width or behind one,
  /// on even addresses. Behind short pieces of one byte, in a strip of a width that is no multiple of four, on any.
  __device__ void load(const Strip& strip, int lane, int64_t block, bool aligned) {
    const std::byte* in = strip.data + block * Codec::kBytes * strip.width;
    half = 0;
    if constexpr (kShort == 1) {
      half = static_cast<uint32_t>(in[lane]);
      aligned = aligned && strip.width % 4 == 0;
    }
    if constexpr (kShort == 2) half = *reinterpret_cast<const uint16_t*>(in + 2 * lane);
    in += kShort * strip.width + 4 * lane;
    if (aligned) {
      EVROS_UNROLL
      for (int i = 0; i < kWords; ++i) word[i] = *reinterpret_cast<const uint32_t*>(in + 4 * i * strip.width);
    } else if constexpr (kShort == 1) {
      for (int i = 0; i < kWords; ++i) word[i] = load_u32(in + 4 * i * strip.width);
    } else {
      EVROS_UNROLL
      for (int i = 0; i < kWords; ++i) {
        const uint16_t* halves = reinterpret_cast<const uint16_t*>(in + 4 * i * strip.width);
        word[i] = halves[0] | (static_cast<uint32_t>(halves[1]) << 16);
      }
    }
  }

  /// Byte `at` of the block without its short piece.
  __device__ uint32_t byte(int at) const { return (word[at / 4] >> (at % 4 * 8)) & 255u; }
};

/// One group: its integers less an offset, its scale, and its minimum where the format has one.
template <typename Codec>
struct GroupWords {
  uint32_t q[Codec::kGroup / 4];  // weight integer + offset, in [-128, 127]
  float scale, minimum;
};

__device__ inline float half_scale(uint32_t bits) { return f16_to_f32(static_cast<uint16_t>(bits)); }

/// A format of codec/lane.h.
template <typename Codec>
concept HasGroups = requires {
  Codec::kLargest;
};

/// What the integers of GroupWords have too much.
template <typename Codec>
constexpr int kOffset = 0;
template <HasGroups Codec>
constexpr int kOffset<Codec> = Codec::kLargest > 127 ? Codec::kOffset - 128 : Codec::kOffset;
template <>
inline constexpr int kOffset<Q4_0> = 8;
template <>
inline constexpr int kOffset<Q6_K> = 32;

__device__ inline void group_of(const BlockWords<Q8_0>& block, int, GroupWords<Q8_0>& out) {
  EVROS_UNROLL
  for (int i = 0; i < 8; ++i) out.q[i] = block.word[i];
  out.scale = half_scale(block.half);
}

__device__ inline void group_of(const BlockWords<Q4_0>& block, int, GroupWords<Q4_0>& out) {
  EVROS_UNROLL
  for (int i = 0; i < 4; ++i) {
    out.q[i] = block.word[i] & 0x0f0f0f0fu;
    out.q[4 + i] = (block.word[i] >> 4) & 0x0f0f0f0fu;
  }
  out.scale = half_scale(block.half);
}

/// Word 0: d and dmin; words 1 to 3: the steps of scales and minima; then the nibbles of two groups in every eight words.
__device__ inline void group_of(const BlockWords<Q4_K>& block, int g, GroupWords<Q4_K>& out) {
  EVROS_UNROLL
  for (int i = 0; i < 8; ++i) out.q[i] = (block.word[4 + g / 2 * 8 + i] >> (g % 2 * 4)) & 0x0f0f0f0fu;
  const uint32_t scale = g < 4 ? block.byte(4 + g) & 63u : (block.byte(8 + g) & 15u) | (block.byte(g) >> 6 << 4);
  const uint32_t minimum = g < 4 ? block.byte(8 + g) & 63u : (block.byte(8 + g) >> 4) | (block.byte(4 + g) >> 6 << 4);
  out.scale = half_scale(block.word[0] & 0xffffu) * static_cast<float>(scale);
  out.minimum = half_scale(block.word[0] >> 16) * static_cast<float>(minimum);
}

/// Words 0 to 31: low nibbles; 32 to 47: high pairs; 48 to 51: steps of the scales.
__device__ inline void group_of(const BlockWords<Q6_K>& block, int g, GroupWords<Q6_K>& out) {
  EVROS_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int e = 16 * g + 4 * i;  // the word's first element
    const uint32_t low = block.word[(e / 128 * 64 + e % 64) / 4] >> (e % 128 / 64 * 4);
    const uint32_t high = block.word[32 + (e / 128 * 32 + e % 32) / 4] >> (e % 128 / 32 * 2);
    out.q[i] = (low & 0x0f0f0f0fu) | ((high & 0x03030303u) << 4);
  }
  out.scale = half_scale(block.half) * static_cast<float>(static_cast<int8_t>(block.byte(192 + g)));
}

/// A lane's block as the formats of codec/lane.h read one.
template <typename Codec>
struct LaneBlock : RowBlock<Codec> {
  const BlockWords<Codec>& words;

  __device__ explicit LaneBlock(const BlockWords<Codec>& block) : RowBlock<Codec>{nullptr}, words(block) {}
  __device__ uint32_t word(int64_t i) const { return words.word[i]; }
  __device__ float half() const { return half_scale(words.half); }
  __device__ uint32_t byte() const { return words.half; }
};

template <HasGroups Codec>
__device__ void group_of(const BlockWords<Codec>& block, int g, GroupWords<Codec>& out) {
  constexpr int kScales = RowGroup<Codec>::kScales, kWords = Codec::kGroup / 4;
  RowGroup<Codec> both;  // or one, of 32 elements
  Codec::group(LaneBlock<Codec>(block), g / kScales, both);
  const int s = g % kScales;
  EVROS_UNROLL
  for (int i = 0; i < kWords; ++i) {
    out.q[i] = both.word[s * kWords + i] ^ (Codec::kLargest > 127 ? 0x80808080u : 0u);
  }
  out.scale = both.scale[s];
  if constexpr (Codec::kMinimum) out.minimum = both.minimum[s];
}

/// The group's exact integer dot with activations x from a multiple of kGroup on, and S, the sum of the latter.
template <typename Codec>
__device__ int32_t group_dot(const GroupWords<Codec>& group, const QuantSegment& x, int at, int32_t sum) {
  int32_t dot = 0;
  EVROS_UNROLL
  for (int i = 0; i < Codec::kGroup / 16; ++i) {
    const int4 v = *reinterpret_cast<const int4*>(x.q + at + 16 * i);
    dot = __dp4a(static_cast<int>(group.q[4 * i]), v.x, dot);
    dot = __dp4a(static_cast<int>(group.q[4 * i + 1]), v.y, dot);
    dot = __dp4a(static_cast<int>(group.q[4 * i + 2]), v.z, dot);
    dot = __dp4a(static_cast<int>(group.q[4 * i + 3]), v.w, dot);
  }
  return dot - kOffset<Codec> * sum;
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
