// How the weights of a strip become registers. A quantised format gives, for one vector of rows and one group of 32
// elements, the eight words of unsigned weights, their scales and minima; loops know nothing else of it. Weights are
// unsigned because the dot instructions want one unsigned operand: the true weight is the byte minus kOffset. Layouts: the
// codecs of the same names; places in a strip: kernels/layout.h.
#pragma once

#include "kernels/codec/codec.h"
#include "kernels/cpu/words.h"
#include "kernels/layout.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {

/// 32 elements of kVecLanes rows: word w holds elements 4w ... 4w + 3.
template <typename Format>
struct Group {
  static constexpr int kScales = 32 / Format::kGroup;
  Ints word[8];
  Vec scale[kScales];
  Vec minimum;  // only where Format::kMinimum
};

/// Word i of a block of a full strip, for the vector of rows that begins at `lane`.
EVROS_INLINE Ints word_of(const std::byte* words, int64_t i, int64_t lane) {
  return load_words(words + i * 4 * kStripRows + 4 * lane);
}

/// The codec of a format and, for the integer chain, what it adds: the largest unsigned weight, the offset, and
/// group(block, g, lane, out): group g of a block of a full strip, rows lane ... lane + kVecLanes.
struct VecQ8_0 : Q8_0 {
  static constexpr int kOffset = 128, kLargest = 255;
  static EVROS_INLINE void group(const std::byte* block, int64_t, int64_t lane, Group<VecQ8_0>& out) {
    out.scale[0] = load_f16(block + 2 * lane);
    for (int w = 0; w < 8; ++w) {
      out.word[w] = (word_of(block + 2 * kStripRows, w, lane) ^ splat(static_cast<int32_t>(0x80808080u)));
    }
  }
};

struct VecQ4_0 : Q4_0 {
  static constexpr int kOffset = 8, kLargest = 15;
  static EVROS_INLINE void group(const std::byte* block, int64_t, int64_t lane, Group<VecQ4_0>& out) {
    out.scale[0] = load_f16(block + 2 * lane);
    for (int w = 0; w < 4; ++w) {
      const Ints both = word_of(block + 2 * kStripRows, w, lane);
      out.word[w] = (both & splat(0x0f0f0f0f));
      out.word[w + 4] = (shift_right(both, 4) & splat(0x0f0f0f0f));
    }
  }
};

struct VecQ4_K : Q4_K {
  static constexpr int kOffset = 0, kLargest = 15;
  static EVROS_INLINE void group(const std::byte* block, int64_t g, int64_t lane, Group<VecQ4_K>& out) {
    const int shift = static_cast<int>(g % 4) * 8;
    const Ints d = word_of(block, 0, lane);
    Ints scale = shift_right(word_of(block, 1, lane), shift);
    Ints minimum = shift_right(word_of(block, 2, lane), shift);
    if (g >= 4) {
      const Ints low = shift_right(word_of(block, 3, lane), shift), high = splat(0x30);
      scale = ((low & splat(15)) | (shift_right(scale, 2) & high));
      minimum = ((shift_right(low, 4) & splat(15)) | (shift_right(minimum, 2) & high));
    }
    out.scale[0] = (low_f16(d) * to_float((scale & splat(63))));
    out.minimum = (low_f16(shift_right(d, 16)) * to_float((minimum & splat(63))));
    const int nibble = static_cast<int>(g % 2) * 4;
    for (int w = 0; w < 8; ++w) {
      const Ints both = word_of(block, 4 + g / 2 * 8 + w, lane);
      out.word[w] = (shift_right(both, nibble) & splat(0x0f0f0f0f));
    }
  }
};

struct VecQ6_K : Q6_K {
  static constexpr int kOffset = 32, kLargest = 63;
  static EVROS_INLINE void group(const std::byte* block, int64_t g, int64_t lane, Group<VecQ6_K>& out) {
    const std::byte* words = block + 2 * kStripRows;  // 32 of low nibbles, 16 of high pairs, 4 of scales
    const Vec d = load_f16(block + 2 * lane);
    const Ints steps = word_of(words, 48 + g / 2, lane);
    for (int s = 0; s < 2; ++s) {
      const Ints top = shift_left(steps, 24 - 8 * (static_cast<int>(g % 2) * 2 + s));
      out.scale[s] = (d * to_float(shift_right_signed<24>(top)));
    }
    const int part = static_cast<int>(g % 4), nibble = part / 2 * 4, pair = part * 2;
    for (int w = 0; w < 8; ++w) {
      const Ints low = word_of(words, g / 4 * 16 + part % 2 * 8 + w, lane);
      const Ints high = shift_right(word_of(words, 32 + g / 4 * 8 + w, lane), pair);
      out.word[w] = ((shift_right(low, nibble) & splat(0x0f0f0f0f)) | shift_left((high & splat(0x03030303)), 4));
    }
  }
};

/// Plain numbers: vectors of them where rows lie side by side.
struct VecF32 : F32 {
  template <typename Lanes>
  static EVROS_INLINE Vec numbers(const std::byte* from, Lanes lanes) {
    return load(reinterpret_cast<const float*>(from), lanes);
  }
};
struct VecF16 : F16 {
  template <typename Lanes>
  static EVROS_INLINE Vec numbers(const std::byte* from, Lanes lanes) {
    return load_f16(from, lanes);
  }
};
struct VecBf16 : Bf16 {
  template <typename Lanes>
  static EVROS_INLINE Vec numbers(const std::byte* from, Lanes lanes) {
    return load_bf16(from, lanes);
  }
};

/// Calls use.operator()<Format>() for the format of a type.
template <typename Use>
EVROS_INLINE void with_format(format::TensorType type, const Use& use) {
  switch (type) {
    case format::TensorType::f32:
      return use.template operator()<VecF32>();
    case format::TensorType::f16:
      return use.template operator()<VecF16>();
    case format::TensorType::bf16:
      return use.template operator()<VecBf16>();
    case format::TensorType::q8_0:
      return use.template operator()<VecQ8_0>();
    case format::TensorType::q4_0:
      return use.template operator()<VecQ4_0>();
    case format::TensorType::q4_k:
      return use.template operator()<VecQ4_K>();
    case format::TensorType::q6_k:
      return use.template operator()<VecQ6_K>();
    default:
      __builtin_trap();
  }
}

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
