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
  Vec minimum[kScales];  // only where Format::kMinimum
};

/// Word i of a block of a full strip, for the vector of rows that begins at `lane`.
EVROS_INLINE Ints word_of(const std::byte* words, int64_t i, int64_t lane) {
  return load_words(words + i * 4 * kStripRows + 4 * lane);
}

struct NoUnits {};

/// What a format takes out of a block once for all its groups: Format::units(block, lane), where it has one.
template <typename Format>
EVROS_INLINE auto units_of(const std::byte* block, int64_t lane) {
  if constexpr (requires { Format::units(block, lane); }) {
    return Format::units(block, lane);
  } else {
    return NoUnits{};
  }
}
template <typename Format>
using Units = decltype(units_of<Format>(nullptr, 0));

/// Group g of a block of a full strip, rows lane ... lane + kVecLanes; `of` is units_of() there.
template <typename Format>
EVROS_INLINE void take_group(const std::byte* block, const Units<Format>& of, int64_t g, int64_t lane,
                             Group<Format>& out) {
  if constexpr (requires { Format::units(block, lane); }) {
    Format::group(block, of, g, lane, out);
  } else {
    Format::group(block, g, lane, out);
  }
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
  struct Units {
    Vec scale, minimum;
    Ints scales[2], minima[2];  // a byte for each of groups 0..3 and 4..7
  };
  static EVROS_INLINE Units units(const std::byte* block, int64_t lane) {
    const Ints both = word_of(block, 0, lane), scales = word_of(block, 1, lane), minima = word_of(block, 2, lane);
    const Ints low = word_of(block, 3, lane), nibbles = splat(0x0f0f0f0f), pairs = splat(0x30303030);
    return {low_f16(both),
            low_f16(shift_right<16>(both)),
            {scales & splat(0x3f3f3f3f), (low & nibbles) | (shift_right<2>(scales) & pairs)},
            {minima & splat(0x3f3f3f3f), (shift_right<4>(low) & nibbles) | (shift_right<2>(minima) & pairs)}};
  }
  static EVROS_INLINE void group(const std::byte* block, const Units& of, int64_t g, int64_t lane,
                                 Group<VecQ4_K>& out) {
    const int shift = static_cast<int>(g % 4) * 8;
    const Ints byte = splat(255);
    out.scale[0] = of.scale * to_float(shift_right(of.scales[g / 4], shift) & byte);
    out.minimum[0] = of.minimum * to_float(shift_right(of.minima[g / 4], shift) & byte);
    if (g % 2 == 0) {
      for (int w = 0; w < 8; ++w) out.word[w] = (word_of(block, 4 + g / 2 * 8 + w, lane) & splat(0x0f0f0f0f));
    } else {
      for (int w = 0; w < 8; ++w) {
        out.word[w] = (shift_right<4>(word_of(block, 4 + g / 2 * 8 + w, lane)) & splat(0x0f0f0f0f));
      }
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

/// Blocks of a full strip, for the vector of rows that begins at `lane`, as the formats of codec/lane.h read them.
template <typename Codec>
struct LanesBlock {
  using Word = Ints;
  static constexpr int64_t kShort = Codec::kBytes % 4;
  const std::byte* block;
  int64_t lane;

  EVROS_INLINE Ints word(int64_t i) const { return word_of(block + kShort * kStripRows, i, lane); }
  EVROS_INLINE Vec half() const { return load_f16(block + 2 * lane); }
  EVROS_INLINE Ints byte() const { return load_bytes(block + lane); }

  static EVROS_INLINE Ints all(uint32_t x) { return splat(static_cast<int32_t>(x)); }
  static EVROS_INLINE Vec number(float x) { return splat(x); }
  static EVROS_INLINE Ints look_up(const uint32_t* table, Ints index) { return kernels::look_up(table, index); }
  static EVROS_INLINE void look_up_two(const uint32_t* table, Ints index, Ints& first, Ints& second) {
    kernels::look_up_two(table, index, first, second);
  }
  static EVROS_INLINE Ints look_up_bytes(const uint8_t* table, Ints a) { return kernels::look_up_bytes(table, a); }
};

/// Any format of codec/lane.h, taken out of the file's blocks inside the loop that multiplies.
template <typename Codec>
struct Direct : Codec {
  static EVROS_INLINE void group(const std::byte* block, int64_t g, int64_t lane, Group<Direct>& out) {
    Codec::group(LanesBlock<Codec>{block, lane}, g, out);
  }
};

/// Any format whose scales are for kElements elements, after decode_groups() below: one loop for them all. A block is a group of 32:
/// its words, scales and minima, of 32 rows each.
template <int kElements, bool kHasMinimum>
struct Decoded {
  static constexpr bool kQuantised = true, kMinimum = kHasMinimum;
  static constexpr int kGroup = kElements, kScales = 32 / kGroup;
  static constexpr int kBlock = 32, kBytes = 32 + 4 * kScales * (kMinimum ? 2 : 1);
  static constexpr int kOffset = 128, kLargest = 255;

  static EVROS_INLINE void group(const std::byte* block, int64_t, int64_t lane, Group<Decoded>& out) {
    for (int w = 0; w < 8; ++w) out.word[w] = word_of(block, w, lane);
    for (int s = 0; s < kScales; ++s) {
      out.scale[s] = as_floats(word_of(block, 8 + s, lane));
      if constexpr (kMinimum) out.minimum[s] = as_floats(word_of(block, 8 + kScales + s, lane));
    }
  }
};

/// Asks for the weights that follow those of [from, from + kCount), into the first level of caches shortly before their use and
/// into the second one, which takes more requests at once, earlier; both within a page of 4 KiB, where the processor's own
/// prefetcher works, too (bench/LOG.md).
template <int64_t kCount>
EVROS_INLINE void ask_ahead(const std::byte* from) {
  constexpr int64_t kNear = 1024, kFar = 3072;
  for (int64_t at = 0; at < kCount; at += 64) {
    __builtin_prefetch(from + kNear + at, 0, 3);
    __builtin_prefetch(from + kFar + at, 0, 2);
  }
}

/// Brings n elements of a full strip into the form of Decoded.
template <typename Codec>
void decode_groups(const std::byte* blocks, int64_t n, std::byte* out) {
  using Format = Decoded<Codec::kGroup, Codec::kMinimum>;
  constexpr int64_t kGroups = Codec::kBlock / 32, kGroupBytes = Codec::kBytes * kStripRows / kGroups;
  const Ints to_offset = splat(static_cast<int32_t>((Format::kOffset - Codec::kOffset) * 0x01010101u));
  for (int64_t g = 0; g < n / 32; ++g, out += Format::kBytes * kStripRows) {
    const std::byte* block = blocks + g / kGroups * Codec::kBytes * kStripRows;
    ask_ahead<kGroupBytes>(blocks + g * kGroupBytes);
    for (int64_t lane = 0; lane < kStripRows; lane += kWidth) {
      Group<Direct<Codec>> w;
      Direct<Codec>::group(block, g % kGroups, lane, w);
      const auto put = [&](int64_t i, Ints value) { store_words(out + (i * kStripRows + lane) * 4, value); };
      for (int i = 0; i < 8; ++i) put(i, w.word[i] + to_offset);
      for (int s = 0; s < Format::kScales; ++s) {
        put(8 + s, as_ints(w.scale[s]));
        if constexpr (Format::kMinimum) put(8 + Format::kScales + s, as_ints(w.minimum[s]));
      }
    }
  }
}

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

/// Calls use.operator()<Format>() for the format of a type: the formats that published files use most have loops of their own.
template <typename Use>
EVROS_INLINE void with_format(format::TensorType type, const Use& use) {
  using enum format::TensorType;
  // clang-format off
  switch (type) {
    case f32: return use.template operator()<VecF32>();
    case f16: return use.template operator()<VecF16>();
    case bf16: return use.template operator()<VecBf16>();
    case q8_0: return use.template operator()<VecQ8_0>();
    case q4_0: return use.template operator()<VecQ4_0>();
    case q4_k: return use.template operator()<VecQ4_K>();
    case q6_k: return use.template operator()<VecQ6_K>();
    case q5_k: return use.template operator()<Direct<Q5_K>>();
    case q5_1: return use.template operator()<Direct<Q5_1>>();
    case iq4_nl: return use.template operator()<Direct<IQ4_NL>>();
    case iq4_xs: return use.template operator()<Direct<IQ4_XS>>();
    case iq2_xxs: return use.template operator()<Direct<IQ2_XXS>>();
    case iq1_s: return use.template operator()<Direct<IQ1_S>>();
    case q4_1: return use.template operator()<Decoded<32, true>>();
    case q2_k: return use.template operator()<Decoded<16, true>>();
    case q5_0: case iq3_xxs: case iq3_s: case tq1_0: case tq2_0: case mxfp4:
      return use.template operator()<Decoded<32, false>>();
    case q3_k: case iq2_xs: case iq2_s: case iq1_m: case nvfp4:
      return use.template operator()<Decoded<16, false>>();
    default: __builtin_trap();
  }
  // clang-format on
}

using DecodeGroups = void (*)(const std::byte* blocks, int64_t n, std::byte* out);

/// decode_groups() for a type that with_format() answers with Decoded, its block's elements and bytes.
struct Decoder {
  DecodeGroups decode;
  int64_t block, bytes;

  template <typename Codec>
  static constexpr Decoder of() {
    return {decode_groups<Codec>, Codec::kBlock, Codec::kBytes};
  }
};

EVROS_INLINE Decoder decoder_of(format::TensorType type) {
  using enum format::TensorType;
  // clang-format off
  switch (type) {
    case q4_1: return Decoder::of<Q4_1>();
    case q2_k: return Decoder::of<Q2_K>();
    case q5_0: return Decoder::of<Q5_0>();
    case iq3_xxs: return Decoder::of<IQ3_XXS>();
    case iq3_s: return Decoder::of<IQ3_S>();
    case tq1_0: return Decoder::of<TQ1_0>();
    case tq2_0: return Decoder::of<TQ2_0>();
    case mxfp4: return Decoder::of<MXFP4>();
    case q3_k: return Decoder::of<Q3_K>();
    case iq2_xs: return Decoder::of<IQ2_XS>();
    case iq2_s: return Decoder::of<IQ2_S>();
    case iq1_m: return Decoder::of<IQ1_M>();
    case nvfp4: return Decoder::of<NVFP4>();
    default: __builtin_trap();
  }
  // clang-format on
}

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
