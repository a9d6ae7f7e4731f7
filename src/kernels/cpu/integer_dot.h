// The exact integer dot of 16 or 32 unsigned weights with signed activations, for several vectors of rows at once.
#pragma once

#include "kernels/cpu/formats.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {

/// The pair of 16-bit factors that turns the two sums of 16 of a group into -kOffset times the sum of scale s's elements.
template <typename Format>
constexpr int32_t offset_factors(int s) {
  constexpr uint32_t kFactor = static_cast<uint16_t>(-Format::kOffset);
  if (Format::kGroup == 32) return static_cast<int32_t>(kFactor | (kFactor << 16));
  return static_cast<int32_t>(s == 0 ? kFactor : kFactor << 16);
}

/// The pair of 16-bit factors that turns the two sums of 16 of a group into the sum of scale s's elements.
template <typename Format>
constexpr int32_t sum_factors(int s) {
  return Format::kGroup == 32 ? 0x00010001 : s == 0 ? 1 : 0x00010000;
}

#if defined(__AVX512VNNI__)

template <typename Format>
struct IntegerGroup : Group<Format> {
  EVROS_INLINE void load(const std::byte* block, const Units<Format>& of, int64_t g, int64_t lane) {
    take_group<Format>(block, of, g, lane, *this);
  }
};

/// dot[v] = sum over the elements of scale s in group g of (word - kOffset) * x.
template <typename Format, size_t kPass>
EVROS_INLINE void integer_dots(const IntegerGroup<Format> (&w)[kPass], const QuantSegment& x, int64_t g, int s,
                               Ints (&dot)[kPass]) {
  constexpr int kWords = Format::kGroup / 4;
  Ints start = splat(0);
  if constexpr (Format::kOffset != 0) {
    start = multiply_pairs(splat_word(&x.sum[2 * g]), splat(offset_factors<Format>(s)));
  }
  for (size_t v = 0; v < kPass; ++v) dot[v] = start;
  for (int i = 0; i < kWords; ++i) {
    const Ints value = splat_word(x.q + 32 * g + 4 * (s * kWords + i));
    for (size_t v = 0; v < kPass; ++v) dot[v].v = _mm512_dpbusd_epi32(dot[v].v, w[v].word[s * kWords + i].v, value.v);
  }
}

#else

/// vpmaddubsw adds two products in 16 bits with saturation, so weights come in planes of at most six bits: bytes of a whole
/// word's weights as low and high nibbles.
template <typename Format>
struct IntegerGroup : Group<Format> {
  static constexpr bool kPlanes = Format::kLargest > 63;
  Ints high[kPlanes ? 8 : 1];

  EVROS_INLINE void load(const std::byte* block, const Units<Format>& of, int64_t g, int64_t lane) {
    take_group<Format>(block, of, g, lane, *this);
    if constexpr (kPlanes) {
      const Ints low = splat(0x0f0f0f0f);
      for (int i = 0; i < 8; ++i) {
        high[i] = (shift_right(this->word[i], 4) & low);
        this->word[i] = (this->word[i] & low);
      }
    }
  }
};

/// Sums of `kWords` words' products, each of at most kLargest * 127 * 2: as many as fit are added in 16 bits, a power of two.
template <int kLargest, int kWords>
EVROS_INLINE Ints plane_dot(const Ints* words, const int8_t* x, int32_t factor) {
  constexpr int kRoom = 32767 / (kLargest * 127 * 2) < kWords ? 32767 / (kLargest * 127 * 2) : kWords;
  constexpr int kFit = kRoom >= 8 ? 8 : kRoom >= 4 ? 4 : kRoom >= 2 ? 2 : 1;
  const Ints factors = splat(factor * 0x00010001);
  Ints dot = splat(0);
  for (int i = 0; i < kWords; i += kFit) {
    Ints sum = multiply_bytes(words[i], splat_word(x + 4 * i));
    for (int j = i + 1; j < i + kFit; ++j) sum = add_halves(sum, multiply_bytes(words[j], splat_word(x + 4 * j)));
    dot = dot + multiply_pairs(sum, factors);
  }
  return dot;
}

/// dot[v] = sum over the elements of scale s in group g of (word - kOffset) * x.
template <typename Format, size_t kPass>
EVROS_INLINE void integer_dots(const IntegerGroup<Format> (&w)[kPass], const QuantSegment& x, int64_t g, int s,
                               Ints (&dot)[kPass]) {
  constexpr int kWords = Format::kGroup / 4;
  const int8_t* q = x.q + 32 * g + 4 * s * kWords;
  for (size_t v = 0; v < kPass; ++v) {
    constexpr int kPlane = IntegerGroup<Format>::kPlanes ? 15 : Format::kLargest;
    dot[v] = plane_dot<kPlane, kWords>(w[v].word + s * kWords, q, 1);
    if constexpr (IntegerGroup<Format>::kPlanes) {
      dot[v] = (dot[v] + plane_dot<kPlane, kWords>(w[v].high + s * kWords, q, 16));
    }
    if constexpr (Format::kOffset != 0) {
      const Ints sums = splat_word(&x.sum[2 * g]);
      dot[v] = (dot[v] + multiply_pairs(sums, splat(offset_factors<Format>(s))));
    }
  }
}

#endif

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
