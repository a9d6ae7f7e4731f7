#include "kernels/cpu/strip.h"

#include "kernels/cpu/integer_dot.h"
#include "kernels/cpu/strip_segments.h"
#include "kernels/cpu/tiles.h"
#include "kernels/ref/chains.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {
namespace {

/// Vectors of rows that a loop over columns keeps in registers at once.
constexpr int kPass = kWidth == 16 ? 2 : 1;

// ---- the integer chain --------------------------------------------------------------------------------------------------

/// acc[v] += group g of a segment's vector times w[v].
template <typename Format, size_t kCount>
EVROS_INLINE void add_group(const IntegerGroup<Format> (&w)[kCount], const QuantSegment& x, int64_t g,
                            Vec (&acc)[kCount]) {
  const Vec d = splat(x.d[g]);
  for (int s = 0; s < IntegerGroup<Format>::kScales; ++s) {
    Ints dot[kCount];
    integer_dots(w, x, g, s, dot);
    for (size_t v = 0; v < kCount; ++v) acc[v] = fma((w[v].scale[s] * d), to_float(dot[v]), acc[v]);
    if constexpr (Format::kMinimum) {
      const Vec sum = to_float(multiply_pairs(splat_word(&x.sum[2 * g]), splat(sum_factors<Format>(s))));
      for (size_t v = 0; v < kCount; ++v) acc[v] = fma_negative((w[v].minimum[s] * d), sum, acc[v]);
    }
  }
}

/// One group of 32 elements of kPass vectors of rows, from row `lane` on, times all columns.
template <typename Format, bool kFirst, bool kLast>
EVROS_INLINE void multiply_group(const IntegerGroup<Format> (&w)[kPass], const StripWork& work, int64_t segment,
                                 int64_t g, int64_t lane, Sums& sums) {
  for (int c = 0; c < work.columns; ++c) {
    Vec acc[kPass];
    float* partial = sums.segment[c] + lane;
    for (int v = 0; v < kPass; ++v) acc[v] = kFirst ? splat(0.0f) : load(partial + v * kWidth);
    add_group(w, work.q[c][segment], g, acc);
    for (int v = 0; v < kPass; ++v) {
      float* y = sums.y[c] + lane + v * kWidth;
      if (kLast) {
        store(y, (load(y) + acc[v]));
      } else {
        store(partial + v * kWidth, acc[v]);
      }
    }
  }
}

/// One segment times the one column: weights are used where they are taken out, and sums stay in registers.
template <typename Format>
EVROS_INLINE void integer_segment(const std::byte* blocks, int64_t groups, const QuantSegment& x, float* y) {
  constexpr int64_t kGroups = Format::kBlock / 32;
  Units<Format> units[kVectors];
  Vec acc[kVectors][1];
  for (Vec(&a)[1] : acc) a[0] = splat(0.0f);
  for (int64_t g = 0; g < groups; ++g) {
    const std::byte* block = blocks + g / kGroups * Format::kBytes * kStripRows;
    Segments<Format>::prefetch(blocks, g);
    EVROS_UNROLLED
    for (int v = 0; v < kVectors; ++v) {
      if (g % kGroups == 0) units[v] = units_of<Format>(block, v * kWidth);
      IntegerGroup<Format> w[1];
      w[0].load(block, units[v], g % kGroups, v * kWidth);
      add_group(w, x, g, acc[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) store(y + v * kWidth, load(y + v * kWidth) + acc[v][0]);
}

/// One column, a segment of each strip in turn.
template <typename Format>
void integer_column(const StripWork& work) {
  Segments<Format> segments[2] = {{work.type, work.strip}, {work.type, work.next}};
  const int strips = work.next.width > 0 ? 2 : 1;
  Sums sums;
  sums.clear(strips);
  for (int64_t k0 = 0; k0 < work.k; k0 += kSegment) {
    const int64_t n = smaller(kSegment, work.k - k0);
    for (int s = 0; s < strips; ++s) {
      integer_segment<Format>(segments[s].at(k0, n), n / 32, work.q[0][k0 / kSegment], sums.y[s]);
    }
  }
  Sums::write_sums(sums.y[0], work.strip.width, work.scale, work.y[0]);
  if (strips == 2) Sums::write_sums(sums.y[1], work.next.width, work.scale, work.y[0] + work.strip.width);
}

template <typename Format>
void integer_strip(const StripWork& work, Sums& sums) {
#ifdef EVROS_TILES
  if constexpr (Format::kGroup == 32) {
    if (work.columns >= kLeastTileColumns) return tile_strip<Format>(work, sums);
  }
#endif
  Segments<Format> segments(work.type, work.strip);
  constexpr int64_t kGroups = Format::kBlock / 32;
  for (int64_t k0 = 0; k0 < work.k; k0 += kSegment) {
    const int64_t groups = smaller(kSegment, work.k - k0) / 32, segment = k0 / kSegment;
    const std::byte* blocks = segments.at(k0, groups * 32);
    Units<Format> units[kVectors];
    for (int64_t g = 0; g < groups; ++g) {
      const std::byte* block = blocks + g / kGroups * Format::kBytes * kStripRows;
      segments.prefetch(blocks, g);
      if (g % kGroups == 0) {
        for (int v = 0; v < kVectors; ++v) units[v] = units_of<Format>(block, v * kWidth);
      }
      for (int64_t lane = 0; lane < kStripRows; lane += kPass * kWidth) {
        IntegerGroup<Format> w[kPass];
        for (int v = 0; v < kPass; ++v) w[v].load(block, units[lane / kWidth + v], g % kGroups, lane + v * kWidth);
        if (g == 0 && groups == 1) {
          multiply_group<Format, true, true>(w, work, segment, g, lane, sums);
        } else if (g == 0) {
          multiply_group<Format, true, false>(w, work, segment, g, lane, sums);
        } else if (g + 1 < groups) {
          multiply_group<Format, false, false>(w, work, segment, g, lane, sums);
        } else {
          multiply_group<Format, false, true>(w, work, segment, g, lane, sums);
        }
      }
    }
  }
}

// ---- the float chain ----------------------------------------------------------------------------------------------------

/// A segment of a quantised format as floats, [k][row].
template <typename Format>
void dequantize_segment(const std::byte* blocks, int64_t n, float* out) {
  constexpr int64_t kGroups = Format::kBlock / 32;
  for (int64_t g = 0; g < n / 32; ++g) {
    const std::byte* block = blocks + g / kGroups * Format::kBytes * kStripRows;
    for (int64_t lane = 0; lane < kStripRows; lane += kWidth) {
      Group<Format> w;
      take_group<Format>(block, units_of<Format>(block, lane), g % kGroups, lane, w);
      for (int i = 0; i < 32; ++i) {
        const Ints byte = (shift_right(w.word[i / 4], i % 4 * 8) & splat(255));
        const Vec integer = to_float((byte - splat(Format::kOffset)));
        Vec value = (w.scale[i / Format::kGroup] * integer);
        if constexpr (Format::kMinimum) value = (value - w.minimum[i / Format::kGroup]);
        store(out + (g * 32 + i) * kStripRows + lane, value);
      }
    }
  }
}

constexpr int kFloatPass = 2;  // vectors of rows at once

/// One segment times columns [c, c + kCount).
template <typename Format, int kCount>
EVROS_INLINE void float_segment(const StripWork& work, const std::byte* weights, int64_t k0, int64_t n, int c,
                                Sums& sums) {
  for (int64_t lane = 0; lane < kStripRows; lane += kFloatPass * kWidth) {
    Vec acc[kCount][kFloatPass];
    const float* x[kCount];
    for (int i = 0; i < kCount; ++i) {
      x[i] = work.x[c + i] + k0;
      for (Vec& a : acc[i]) a = splat(0.0f);
    }
    const std::byte* from = weights + lane * Format::kBytes;
    for (int64_t k = 0; k < n; ++k, from += kStripRows * Format::kBytes) {
      ask_ahead<kFloatPass * kWidth * Format::kBytes>(from);
      Vec w[kFloatPass];
      for (int v = 0; v < kFloatPass; ++v) w[v] = Format::numbers(from + v * kWidth * Format::kBytes, All{});
      for (int i = 0; i < kCount; ++i) {
        const Vec value = splat(x[i][k]);
        for (int v = 0; v < kFloatPass; ++v) acc[i][v] = fma(w[v], value, acc[i][v]);
      }
    }
    for (int i = 0; i < kCount; ++i) {
      for (int v = 0; v < kFloatPass; ++v) {
        float* y = sums.y[c + i] + lane + v * kWidth;
        store(y, load(y) + acc[i][v]);
      }
    }
  }
}

template <typename Format>
EVROS_INLINE void float_columns(const StripWork& work, const std::byte* weights, int64_t k0, int64_t n, Sums& sums) {
  constexpr int kCount = kWidth == 16 ? 8 : 4;
  int c = 0;
  for (; c + kCount <= work.columns; c += kCount) float_segment<Format, kCount>(work, weights, k0, n, c, sums);
  for (; c + 2 <= work.columns; c += 2) float_segment<Format, 2>(work, weights, k0, n, c, sums);
  for (; c < work.columns; ++c) float_segment<Format, 1>(work, weights, k0, n, c, sums);
}

/// kCount segments of a strip of at most one vector of rows, from k0 on, n elements each, times column c. A segment is a
/// chain of its own, and one alone would wait for every sum.
template <typename Format, int kCount>
EVROS_INLINE void narrow_segments(const StripWork& work, int64_t k0, int64_t n, int c, Sums& sums) {
  const Part lanes(work.strip.width);
  const int64_t step = work.strip.width * Format::kBytes;
  const std::byte* from = work.strip.data + k0 * step;
  const float* x = work.x[c] + k0;
  Vec acc[kCount];
  for (Vec& a : acc) a = splat(0.0f);
  for (int64_t k = 0; k < n; ++k, from += step) {
    for (int s = 0; s < kCount; ++s) {
      acc[s] = fma(Format::numbers(from + s * kSegment * step, lanes), splat(x[s * kSegment + k]), acc[s]);
    }
  }
  for (const Vec& a : acc) store(sums.y[c], load(sums.y[c]) + a);
}

template <typename Format>
void narrow_strip(const StripWork& work, Sums& sums) {
  constexpr int kCount = 8;
  for (int c = 0; c < work.columns; ++c) {
    int64_t k0 = 0;
    for (; k0 + kCount * kSegment <= work.k; k0 += kCount * kSegment) {
      narrow_segments<Format, kCount>(work, k0, kSegment, c, sums);
    }
    for (; k0 < work.k; k0 += kSegment) narrow_segments<Format, 1>(work, k0, smaller(kSegment, work.k - k0), c, sums);
  }
}

template <typename Format>
void float_strip(const StripWork& work, Sums& sums) {
  if (work.strip.width <= kWidth) return narrow_strip<Format>(work, sums);
  Segments<Format> segments(work.type, work.strip);
  for (int64_t k0 = 0; k0 < work.k; k0 += kSegment) {
    const int64_t n = smaller(kSegment, work.k - k0);
    float_columns<Format>(work, segments.at(k0, n), k0, n, sums);
  }
}

template <typename Format>
void dequantized_strip(const StripWork& work, Sums& sums) {
  Segments<Format> segments(work.type, work.strip);
  alignas(64) float weights[kSegment * kStripRows];
  for (int64_t k0 = 0; k0 < work.k; k0 += kSegment) {
    const int64_t n = smaller(kSegment, work.k - k0);
    dequantize_segment<Format>(segments.at(k0, n), n, weights);
    float_columns<VecF32>(work, reinterpret_cast<const std::byte*>(weights), k0, n, sums);
  }
}

}  // namespace

void multiply_strip(const StripWork& work) {
  with_format(work.type, [&]<typename Format>() {
    if constexpr (Format::kQuantised) {
      if (work.integers && work.columns == 1) return integer_column<Format>(work);
    }
    Sums sums;
    sums.clear(work.columns);
    if constexpr (Format::kQuantised) {
      work.integers ? integer_strip<Format>(work, sums) : dequantized_strip<Format>(work, sums);
    } else {
      float_strip<Format>(work, sums);
    }
    sums.write(work);
  });
}

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
