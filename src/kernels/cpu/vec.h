// A few float lanes of one instruction set: 16 with AVX-512, 8 with AVX2. Lanes are always independent outputs (columns,
// keys, heads), so that every lane carries out the scalar chain of docs/numerics.md operation for operation. Only
// intrinsics, in a namespace of this instruction set (src/kernels/isa.h).
//
// Loads and stores take All{} or Part(n), the first n lanes; lanes outside a Part are zero when loaded and untouched when
// stored, so that a row of any width is one loop with a tail (for_lanes).
#pragma once

#include <cstdint>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 warns of what its own intrinsics pass through (bug 105593)
#include <immintrin.h>
#pragma GCC diagnostic pop

#include "kernels/isa.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

struct All {};

#ifdef __AVX512F__

constexpr int64_t kWidth = 16;

struct Vec {
  __m512 v;
};
struct Ints {
  __m512i v;
};
struct Mask {
  __mmask16 m;
};
struct Part {
  __mmask16 m;
  EVROS_INLINE explicit Part(int64_t n) : m(static_cast<__mmask16>((1u << n) - 1u)) {}
};

EVROS_INLINE Vec load(const float* p, All = {}) { return {_mm512_loadu_ps(p)}; }
EVROS_INLINE Vec load(const float* p, Part part) { return {_mm512_maskz_loadu_ps(part.m, p)}; }
EVROS_INLINE void store(float* p, Vec x, All = {}) { _mm512_storeu_ps(p, x.v); }
EVROS_INLINE void store(float* p, Vec x, Part part) { _mm512_mask_storeu_ps(p, part.m, x.v); }
/// Past the caches; p is aligned to the vector.
EVROS_INLINE void stream(float* p, Vec x) { _mm512_stream_ps(p, x.v); }
EVROS_INLINE Vec splat(float x) { return {_mm512_set1_ps(x)}; }
EVROS_INLINE Ints splat(int32_t x) { return {_mm512_set1_epi32(x)}; }

EVROS_INLINE Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
EVROS_INLINE Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
EVROS_INLINE Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
EVROS_INLINE Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
EVROS_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
EVROS_INLINE Vec sqrt(Vec x) { return {_mm512_sqrt_ps(x.v)}; }
/// a > b ? a : b, NaN and zeros as in that expression.
EVROS_INLINE Vec larger(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
EVROS_INLINE Mask operator<(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
EVROS_INLINE Mask operator>=(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)}; }
EVROS_INLINE Mask unordered(Vec a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
EVROS_INLINE Mask operator==(Ints a, Ints b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
/// Signed.
EVROS_INLINE Mask operator>(Ints a, Ints b) { return {_mm512_cmpgt_epi32_mask(a.v, b.v)}; }
EVROS_INLINE Mask operator|(Mask a, Mask b) { return {static_cast<__mmask16>(a.m | b.m)}; }
EVROS_INLINE Mask operator&(Mask a, Mask b) { return {static_cast<__mmask16>(a.m & b.m)}; }
/// mask ? a : b, lane by lane.
EVROS_INLINE Vec select(Mask mask, Vec a, Vec b) { return {_mm512_mask_blend_ps(mask.m, b.v, a.v)}; }
/// One bit a lane.
EVROS_INLINE uint32_t bits(Mask mask) { return mask.m; }

EVROS_INLINE Ints as_ints(Vec x) { return {_mm512_castps_si512(x.v)}; }
EVROS_INLINE Vec as_floats(Ints x) { return {_mm512_castsi512_ps(x.v)}; }
EVROS_INLINE Ints truncate(Vec x) { return {_mm512_cvttps_epi32(x.v)}; }
EVROS_INLINE Vec to_float(Ints x) { return {_mm512_cvtepi32_ps(x.v)}; }
EVROS_INLINE Ints operator+(Ints a, Ints b) { return {_mm512_add_epi32(a.v, b.v)}; }
EVROS_INLINE Ints operator-(Ints a, Ints b) { return {_mm512_sub_epi32(a.v, b.v)}; }
EVROS_INLINE Ints operator&(Ints a, Ints b) { return {_mm512_and_si512(a.v, b.v)}; }
EVROS_INLINE Ints operator|(Ints a, Ints b) { return {_mm512_or_si512(a.v, b.v)}; }
EVROS_INLINE Ints operator^(Ints a, Ints b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int kBits>
EVROS_INLINE Ints shift_left(Ints x) {
  return {_mm512_slli_epi32(x.v, kBits)};
}
template <int kBits>
EVROS_INLINE Ints shift_right(Ints x) {
  return {_mm512_srli_epi32(x.v, kBits)};
}
/// Keeps the sign.
template <int kBits>
EVROS_INLINE Ints shift_right_signed(Ints x) {
  return {_mm512_srai_epi32(x.v, kBits)};
}

/// Lane 0 of the halving tree x[j] += x[j + h], h = kWidth/2 ... 1.
EVROS_INLINE float fold(Vec x) {
  const __m256 y = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
  z = _mm_add_ps(z, _mm_movehl_ps(z, z));
  return _mm_cvtss_f32(_mm_add_ss(z, _mm_shuffle_ps(z, z, 1)));
}
/// The largest lane, for numbers.
EVROS_INLINE float largest(Vec x) { return _mm512_reduce_max_ps(x.v); }

/// a0 a1 a2 ... b0 b1 ... becomes even = a0 a2 ... b0 b2 ..., odd = a1 a3 ... b1 b3 ...
EVROS_INLINE void deinterleave(Vec a, Vec b, Vec& even, Vec& odd) {
  const __m512i e = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i o = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  even.v = _mm512_permutex2var_ps(a.v, e, b.v);
  odd.v = _mm512_permutex2var_ps(a.v, o, b.v);
}

/// Halves and bfloats, widened exactly.
EVROS_INLINE Vec load_f16(const void* p, All = {}) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
EVROS_INLINE Vec load_f16(const void* p, Part part) { return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(part.m, p))}; }
EVROS_INLINE Vec load_bf16(const void* p, All = {}) {
  return {_mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p))), 16))};
}
EVROS_INLINE Vec load_bf16(const void* p, Part part) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(part.m, p)), 16))};
}
/// Rounded to nearest even.
EVROS_INLINE void store_f16(void* p, Vec x, All = {}) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT));
}
EVROS_INLINE void store_f16(void* p, Vec x, Part part) {
  _mm256_mask_storeu_epi16(p, part.m, _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT));
}
/// The low 16 bits of every lane.
EVROS_INLINE void store_u16(void* p, Ints x, All = {}) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(x.v));
}
EVROS_INLINE void store_u16(void* p, Ints x, Part part) {
  _mm256_mask_storeu_epi16(p, part.m, _mm512_cvtepi32_epi16(x.v));
}
/// Lanes in [-128, 127] as bytes.
EVROS_INLINE void store_i8(int8_t* p, Ints x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x.v));
}

/// Rows become columns: afterwards row[i] holds lane i of every row before.
EVROS_INLINE void transpose(Vec (&row)[kWidth]) {
  __m512 t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(row[i].v, row[i + 1].v);
    t[i + 1] = _mm512_unpackhi_ps(row[i].v, row[i + 1].v);
  }
  __m512 u[16];  // u[4g + c]: column c of each quarter, rows 4g ... 4g + 3
  for (int g = 0; g < 4; ++g) {
    const __m512d a = _mm512_castps_pd(t[4 * g]), b = _mm512_castps_pd(t[4 * g + 2]);
    const __m512d c = _mm512_castps_pd(t[4 * g + 1]), d = _mm512_castps_pd(t[4 * g + 3]);
    u[4 * g] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
    u[4 * g + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    u[4 * g + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(c, d));
    u[4 * g + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(c, d));
  }
  for (int c = 0; c < 4; ++c) {
    const __m512 low01 = _mm512_shuffle_f32x4(u[c], u[4 + c], 0x88),
                 high01 = _mm512_shuffle_f32x4(u[c], u[4 + c], 0xdd);
    const __m512 low23 = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0x88);
    const __m512 high23 = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0xdd);
    row[c].v = _mm512_shuffle_f32x4(low01, low23, 0x88);
    row[8 + c].v = _mm512_shuffle_f32x4(low01, low23, 0xdd);
    row[4 + c].v = _mm512_shuffle_f32x4(high01, high23, 0x88);
    row[12 + c].v = _mm512_shuffle_f32x4(high01, high23, 0xdd);
  }
}

#else

constexpr int64_t kWidth = 8;

struct Vec {
  __m256 v;
};
struct Ints {
  __m256i v;
};
struct Mask {
  __m256 m;
};
struct Part {
  __m256i m;
  int64_t n;
  EVROS_INLINE explicit Part(int64_t count)
      : m(_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(count)),
                             _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))),
        n(count) {}
};

EVROS_INLINE Vec load(const float* p, All = {}) { return {_mm256_loadu_ps(p)}; }
EVROS_INLINE Vec load(const float* p, Part part) { return {_mm256_maskload_ps(p, part.m)}; }
EVROS_INLINE void store(float* p, Vec x, All = {}) { _mm256_storeu_ps(p, x.v); }
EVROS_INLINE void store(float* p, Vec x, Part part) { _mm256_maskstore_ps(p, part.m, x.v); }
EVROS_INLINE void stream(float* p, Vec x) { _mm256_stream_ps(p, x.v); }
EVROS_INLINE Vec splat(float x) { return {_mm256_set1_ps(x)}; }
EVROS_INLINE Ints splat(int32_t x) { return {_mm256_set1_epi32(x)}; }

EVROS_INLINE Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
EVROS_INLINE Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
EVROS_INLINE Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
EVROS_INLINE Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
EVROS_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
EVROS_INLINE Vec sqrt(Vec x) { return {_mm256_sqrt_ps(x.v)}; }
EVROS_INLINE Vec larger(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }
EVROS_INLINE Mask operator<(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
EVROS_INLINE Mask operator>=(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GE_OQ)}; }
EVROS_INLINE Mask unordered(Vec a) { return {_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q)}; }
EVROS_INLINE Mask operator==(Ints a, Ints b) { return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(a.v, b.v))}; }
EVROS_INLINE Mask operator>(Ints a, Ints b) { return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(a.v, b.v))}; }
EVROS_INLINE Mask operator|(Mask a, Mask b) { return {_mm256_or_ps(a.m, b.m)}; }
EVROS_INLINE Mask operator&(Mask a, Mask b) { return {_mm256_and_ps(a.m, b.m)}; }
EVROS_INLINE Vec select(Mask mask, Vec a, Vec b) { return {_mm256_blendv_ps(b.v, a.v, mask.m)}; }
EVROS_INLINE uint32_t bits(Mask mask) { return static_cast<uint32_t>(_mm256_movemask_ps(mask.m)); }

EVROS_INLINE Ints as_ints(Vec x) { return {_mm256_castps_si256(x.v)}; }
EVROS_INLINE Vec as_floats(Ints x) { return {_mm256_castsi256_ps(x.v)}; }
EVROS_INLINE Ints truncate(Vec x) { return {_mm256_cvttps_epi32(x.v)}; }
EVROS_INLINE Vec to_float(Ints x) { return {_mm256_cvtepi32_ps(x.v)}; }
EVROS_INLINE Ints operator+(Ints a, Ints b) { return {_mm256_add_epi32(a.v, b.v)}; }
EVROS_INLINE Ints operator-(Ints a, Ints b) { return {_mm256_sub_epi32(a.v, b.v)}; }
EVROS_INLINE Ints operator&(Ints a, Ints b) { return {_mm256_and_si256(a.v, b.v)}; }
EVROS_INLINE Ints operator|(Ints a, Ints b) { return {_mm256_or_si256(a.v, b.v)}; }
EVROS_INLINE Ints operator^(Ints a, Ints b) { return {_mm256_xor_si256(a.v, b.v)}; }
template <int kBits>
EVROS_INLINE Ints shift_left(Ints x) {
  return {_mm256_slli_epi32(x.v, kBits)};
}
template <int kBits>
EVROS_INLINE Ints shift_right(Ints x) {
  return {_mm256_srli_epi32(x.v, kBits)};
}
template <int kBits>
EVROS_INLINE Ints shift_right_signed(Ints x) {
  return {_mm256_srai_epi32(x.v, kBits)};
}

EVROS_INLINE float fold(Vec x) {
  __m128 z = _mm_add_ps(_mm256_castps256_ps128(x.v), _mm256_extractf128_ps(x.v, 1));
  z = _mm_add_ps(z, _mm_movehl_ps(z, z));
  return _mm_cvtss_f32(_mm_add_ss(z, _mm_shuffle_ps(z, z, 1)));
}
EVROS_INLINE float largest(Vec x) {
  __m128 z = _mm_max_ps(_mm256_castps256_ps128(x.v), _mm256_extractf128_ps(x.v, 1));
  z = _mm_max_ps(z, _mm_movehl_ps(z, z));
  return _mm_cvtss_f32(_mm_max_ss(z, _mm_shuffle_ps(z, z, 1)));
}

EVROS_INLINE void deinterleave(Vec a, Vec b, Vec& even, Vec& odd) {
  const __m256 low = _mm256_permute2f128_ps(a.v, b.v, 0x20), high = _mm256_permute2f128_ps(a.v, b.v, 0x31);
  even.v = _mm256_shuffle_ps(low, high, 0x88);
  odd.v = _mm256_shuffle_ps(low, high, 0xdd);
}

/// Eight 16-bit numbers of which the first n are read; a Part is a rare tail.
EVROS_INLINE __m128i load_u16s(const void* p, int64_t n) {
  uint16_t numbers[8] = {};
  __builtin_memcpy(numbers, p, static_cast<size_t>(n) * sizeof(uint16_t));
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers));
}
EVROS_INLINE void store_u16s(void* p, __m128i x, int64_t n) {
  uint16_t numbers[8];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(numbers), x);
  __builtin_memcpy(p, numbers, static_cast<size_t>(n) * sizeof(uint16_t));
}
EVROS_INLINE Vec widen_bf16(__m128i x) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16))};
}
EVROS_INLINE __m128i narrow_u16(Ints x) {  // the pack saturates: clear the high halves first
  const __m256i low = _mm256_and_si256(x.v, _mm256_set1_epi32(0xffff));
  return _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
}

EVROS_INLINE Vec load_f16(const void* p, All = {}) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
}
EVROS_INLINE Vec load_f16(const void* p, Part part) { return {_mm256_cvtph_ps(load_u16s(p, part.n))}; }
EVROS_INLINE Vec load_bf16(const void* p, All = {}) {
  return widen_bf16(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
EVROS_INLINE Vec load_bf16(const void* p, Part part) { return widen_bf16(load_u16s(p, part.n)); }
EVROS_INLINE void store_f16(void* p, Vec x, All = {}) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT));
}
EVROS_INLINE void store_f16(void* p, Vec x, Part part) {
  store_u16s(p, _mm256_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT), part.n);
}
EVROS_INLINE void store_u16(void* p, Ints x, All = {}) { _mm_storeu_si128(static_cast<__m128i*>(p), narrow_u16(x)); }
EVROS_INLINE void store_u16(void* p, Ints x, Part part) { store_u16s(p, narrow_u16(x), part.n); }
EVROS_INLINE void store_i8(int8_t* p, Ints x) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(x.v), _mm256_extracti128_si256(x.v, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}

EVROS_INLINE void transpose(Vec (&row)[kWidth]) {
  __m256 t[8], u[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(row[i].v, row[i + 1].v);
    t[i + 1] = _mm256_unpackhi_ps(row[i].v, row[i + 1].v);
  }
  for (int g = 0; g < 2; ++g) {
    u[4 * g] = _mm256_shuffle_ps(t[4 * g], t[4 * g + 2], 0x44);
    u[4 * g + 1] = _mm256_shuffle_ps(t[4 * g], t[4 * g + 2], 0xee);
    u[4 * g + 2] = _mm256_shuffle_ps(t[4 * g + 1], t[4 * g + 3], 0x44);
    u[4 * g + 3] = _mm256_shuffle_ps(t[4 * g + 1], t[4 * g + 3], 0xee);
  }
  for (int c = 0; c < 4; ++c) {
    row[c].v = _mm256_permute2f128_ps(u[c], u[4 + c], 0x20);
    row[4 + c].v = _mm256_permute2f128_ps(u[c], u[4 + c], 0x31);
  }
}

#endif

/// Makes the stores of stream() visible to whoever is told that the work is done.
EVROS_INLINE void end_stream() { _mm_sfence(); }
EVROS_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

EVROS_INLINE Vec abs(Vec x) { return as_floats(as_ints(x) & splat(int32_t{0x7fffffff})); }
EVROS_INLINE Vec negate(Vec x) { return as_floats(as_ints(x) ^ splat(INT32_MIN)); }
EVROS_INLINE bool any(Mask mask) { return bits(mask) != 0; }
/// Lanes that are infinite or NaN, by exponent bits.
EVROS_INLINE Mask not_finite(Vec x) {
  const Ints exponent = splat(int32_t{0x7f800000});
  return (as_ints(x) & exponent) == exponent;
}

/// body(i, lanes) for i = 0, kWidth, ... below n: All{} while a whole vector is left, then one Part.
template <typename Body>
EVROS_INLINE void for_lanes(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) body(i, All{});
  if (i < n) body(i, Part(n - i));
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
