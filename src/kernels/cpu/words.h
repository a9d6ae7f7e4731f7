// What the matrix products need of vectors beside vec.h: words of packed integers.
#pragma once

#include <cstddef>

#include "kernels/cpu/vec.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

#ifdef __AVX512F__

EVROS_INLINE Ints load_words(const void* p) { return {_mm512_loadu_si512(p)}; }
EVROS_INLINE Ints shift_right(Ints a, int n) { return {_mm512_srlv_epi32(a.v, splat(n).v)}; }
EVROS_INLINE Ints shift_left(Ints a, int n) { return {_mm512_sllv_epi32(a.v, splat(n).v)}; }
/// a.low16 * b.low16 + a.high16 * b.high16 of each word, signed.
EVROS_INLINE Ints multiply_pairs(Ints a, Ints b) { return {_mm512_madd_epi16(a.v, b.v)}; }
/// Halves of each word: the sum of two products of an unsigned byte of a and a signed one of b, with saturation.
EVROS_INLINE Ints multiply_bytes(Ints a, Ints b) { return {_mm512_maddubs_epi16(a.v, b.v)}; }
EVROS_INLINE Ints add_halves(Ints a, Ints b) { return {_mm512_add_epi16(a.v, b.v)}; }
/// Of every byte.
EVROS_INLINE Ints subtract_bytes(Ints a, int n) {
  return {_mm512_sub_epi8(a.v, _mm512_set1_epi8(static_cast<char>(n)))};
}
/// fma(-a, b, c)
EVROS_INLINE Vec fma_negative(Vec a, Vec b, Vec c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
/// The half precision number in the low 16 bits of each word.
EVROS_INLINE Vec low_f16(Ints a) { return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(a.v))}; }
/// One byte for each lane.
EVROS_INLINE Ints load_bytes(const void* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
}
EVROS_INLINE void store_words(void* p, Ints a) { _mm512_storeu_si512(p, a.v); }
/// table[index], lane by lane.
EVROS_INLINE Ints look_up(const uint32_t* table, Ints index) { return {_mm512_i32gather_epi32(index.v, table, 4)}; }
/// Words 2 * index and 2 * index + 1: pairs are gathered, which are half as many loads.
EVROS_INLINE void look_up_two(const uint32_t* table, Ints index, Ints& first, Ints& second) {
  const __m512i low = _mm512_i32gather_epi64(_mm512_castsi512_si256(index.v), table, 8);
  const __m512i high = _mm512_i32gather_epi64(_mm512_extracti64x4_epi64(index.v, 1), table, 8);
  Vec even, odd;
  deinterleave({_mm512_castsi512_ps(low)}, {_mm512_castsi512_ps(high)}, even, odd);
  first = as_ints(even);
  second = as_ints(odd);
}
/// Every byte, below 16, replaced by the table's.
EVROS_INLINE Ints look_up_bytes(const uint8_t* table, Ints a) {
  const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), a.v)};
}

/// The low four bits of each word, one to a byte, each worth 1 << kShift; what stands above them does not count.
template <int kShift>
EVROS_INLINE Ints spread_bits(Ints a) {
  const auto spread = [](int i) { return static_cast<int32_t>((i * 0x00204081u & 0x01010101u) << kShift); };
  const __m512i table =
      _mm512_setr_epi32(spread(0), spread(1), spread(2), spread(3), spread(4), spread(5), spread(6), spread(7),
                        spread(8), spread(9), spread(10), spread(11), spread(12), spread(13), spread(14), spread(15));
  return {_mm512_permutexvar_epi32(a.v, table)};  // by the low four bits of a
}

#else

EVROS_INLINE Ints load_words(const void* p) { return {_mm256_loadu_si256(static_cast<const __m256i*>(p))}; }
EVROS_INLINE Ints shift_right(Ints a, int n) { return {_mm256_srlv_epi32(a.v, splat(n).v)}; }
EVROS_INLINE Ints shift_left(Ints a, int n) { return {_mm256_sllv_epi32(a.v, splat(n).v)}; }
EVROS_INLINE Ints multiply_pairs(Ints a, Ints b) { return {_mm256_madd_epi16(a.v, b.v)}; }
EVROS_INLINE Ints multiply_bytes(Ints a, Ints b) { return {_mm256_maddubs_epi16(a.v, b.v)}; }
EVROS_INLINE Ints add_halves(Ints a, Ints b) { return {_mm256_add_epi16(a.v, b.v)}; }
EVROS_INLINE Vec fma_negative(Vec a, Vec b, Vec c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }
EVROS_INLINE Vec low_f16(Ints a) { return {_mm256_cvtph_ps(narrow_u16(a))}; }
EVROS_INLINE Ints load_bytes(const void* p) {
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)))};
}
EVROS_INLINE void store_words(void* p, Ints a) { _mm256_storeu_si256(static_cast<__m256i*>(p), a.v); }
EVROS_INLINE Ints look_up(const uint32_t* table, Ints index) {
  return {_mm256_i32gather_epi32(reinterpret_cast<const int*>(table), index.v, 4)};
}
EVROS_INLINE void look_up_two(const uint32_t* table, Ints index, Ints& first, Ints& second) {
  const auto* pairs = reinterpret_cast<const long long*>(table);
  const __m256i low = _mm256_i32gather_epi64(pairs, _mm256_castsi256_si128(index.v), 8);
  const __m256i high = _mm256_i32gather_epi64(pairs, _mm256_extracti128_si256(index.v, 1), 8);
  Vec even, odd;
  deinterleave({_mm256_castsi256_ps(low)}, {_mm256_castsi256_ps(high)}, even, odd);
  first = as_ints(even);
  second = as_ints(odd);
}
EVROS_INLINE Ints look_up_bytes(const uint8_t* table, Ints a) {
  const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), a.v)};
}
template <int kShift>
EVROS_INLINE Ints spread_bits(Ints a) {
  const __m256i first_byte =
      _mm256_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0, 0x0c0c0c0c, 0x08080808, 0x04040404, 0);
  const __m256i bit = _mm256_and_si256(_mm256_shuffle_epi8(a.v, first_byte), _mm256_set1_epi32(0x08040201));
  return {_mm256_slli_epi32(_mm256_min_epu8(bit, _mm256_set1_epi8(1)), kShift)};
}

#endif

/// The four bytes at p in every lane.
EVROS_INLINE Ints splat_word(const void* p) {
  int32_t word;
  __builtin_memcpy(&word, p, sizeof word);
  return splat(word);
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
