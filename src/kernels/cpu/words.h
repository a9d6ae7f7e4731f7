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
/// fma(-a, b, c)
EVROS_INLINE Vec fma_negative(Vec a, Vec b, Vec c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
/// The half precision number in the low 16 bits of each word.
EVROS_INLINE Vec low_f16(Ints a) { return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(a.v))}; }

#else

EVROS_INLINE Ints load_words(const void* p) { return {_mm256_loadu_si256(static_cast<const __m256i*>(p))}; }
EVROS_INLINE Ints shift_right(Ints a, int n) { return {_mm256_srlv_epi32(a.v, splat(n).v)}; }
EVROS_INLINE Ints shift_left(Ints a, int n) { return {_mm256_sllv_epi32(a.v, splat(n).v)}; }
EVROS_INLINE Ints multiply_pairs(Ints a, Ints b) { return {_mm256_madd_epi16(a.v, b.v)}; }
EVROS_INLINE Ints multiply_bytes(Ints a, Ints b) { return {_mm256_maddubs_epi16(a.v, b.v)}; }
EVROS_INLINE Ints add_halves(Ints a, Ints b) { return {_mm256_add_epi16(a.v, b.v)}; }
EVROS_INLINE Vec fma_negative(Vec a, Vec b, Vec c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }
EVROS_INLINE Vec low_f16(Ints a) { return {_mm256_cvtph_ps(narrow_u16(a))}; }

#endif

/// The four bytes at p in every lane.
EVROS_INLINE Ints splat_word(const void* p) {
  int32_t word;
  __builtin_memcpy(&word, p, sizeof word);
  return splat(word);
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
