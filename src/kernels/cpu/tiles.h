// The integer chain of a strip and many vectors by tiles (AMX): one instruction forms the exact dots of 16 vectors and 16 rows
// over one group of weights. Tiles are read from and written to memory only, so a segment of weights is taken out into bytes
// once for all vectors, and its dots lie in the first-level cache until the floats of the chain are added up, in the order of
// strip.cc. For formats with a scale for 32 elements: with two scales a group, the floats cost what tiles save.
//
// A tile of vectors has 16 rows, 32 bytes of a vector each; a tile of weights a row for every word of four weights, 16 rows of the
// strip side by side, which is how strips have them; a tile of dots a row for every vector.
#pragma once

#ifdef EVROS_TILES  // of the build: Clang 14 and GCC have other names for what the compiler may use

#include "kernels/cpu/integer_dot.h"
#include "kernels/cpu/strip.h"
#include "kernels/cpu/strip_segments.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {

/// Fewer vectors are faster one by one, because those ask memory for weights while they multiply (bench/LOG.md).
constexpr int kLeastTileColumns = 24;
constexpr int kTileColumns = 16;  // vectors of a tile
constexpr int kSumColumns = 8;    // whose sums stay in registers
constexpr int kGroups = kSegment / 32;
static_assert(columns_at_once(1) == kTileColumns && kStripColumns % kTileColumns == 0 &&
              kTileColumns % kSumColumns == 0 && kVectors == 2);

/// The operand of `ldtilecfg`: bytes of a row, and rows, of every tile register. Intel's manual, volume 1, 18.3.
struct alignas(64) TileShapes {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

// Tile registers are named in the instructions: 0 vectors, 1 and 2 weights of either vector of rows, 3 and 4, or 5 and 6, their
// dots.
inline constexpr TileShapes kTileShapes = {1, 0, {}, {32, 64, 64, 64, 64, 64, 64}, {16, 8, 8, 16, 16, 16, 16}};

/// Asks for memory ahead of its use, a little at a time: a processor takes few requests at once, and waits when there are more.
struct Ahead {
  const std::byte* at;
  int64_t step;  // bytes

  EVROS_INLINE void ask() {
    for (int64_t i = 0; i < step; i += 64) __builtin_prefetch(at + i, 0, 2);
    at += step;
  }
};

/// One segment of weights as signed bytes, with their scales and minima.
template <typename Format>
struct TileWeights {
  static_assert(Format::kGroup == 32);
  static_assert(Format::kLargest - Format::kOffset <= 127 && Format::kOffset <= 128, "weights are signed bytes");

  alignas(64) int8_t word[kGroups][kVectors][8][4 * kWidth];
  alignas(64) float scale[kGroups][kStripRows];
  alignas(64) float minimum[Format::kMinimum ? kGroups : 1][kStripRows];

  EVROS_INLINE void take(const std::byte* blocks, int64_t groups) {
    constexpr int64_t kBlockGroups = Format::kBlock / 32;
    Units<Format> units[kVectors];
    for (int64_t g = 0; g < groups; ++g) {
      const std::byte* block = blocks + g / kBlockGroups * Format::kBytes * kStripRows;
      EVROS_UNROLLED
      for (int v = 0; v < kVectors; ++v) {
        if (g % kBlockGroups == 0) units[v] = units_of<Format>(block, v * kWidth);
        Group<Format> w;
        take_group<Format>(block, units[v], g % kBlockGroups, v * kWidth, w);
        for (int i = 0; i < 8; ++i) store_words(word[g][v][i], subtract_bytes(w.word[i], Format::kOffset));
        store(scale[g] + v * kWidth, w.scale[0]);
        if constexpr (Format::kMinimum) store(minimum[g] + v * kWidth, w.minimum[0]);
      }
    }
  }
};

/// A segment of the vectors of a tile.
template <typename Format>
struct TileVectors {
  const QuantSegment* x[kTileColumns];
  const int8_t* q;  // the first one's integers
  int64_t q_stride;
  alignas(64) float sum[Format::kMinimum ? kTileColumns : 1][kWidth];  // [8 + group]: of elements, for minima

  /// Columns from c0 on; those that are not there are the last one once more.
  EVROS_INLINE void take(const StripWork& work, int64_t segment, int c0) {
    for (int c = 0; c < kTileColumns; ++c) {
      x[c] = work.q[c0 + c < work.columns ? c0 + c : work.columns - 1] + segment;
      if constexpr (Format::kMinimum) {
        const Ints pairs = load_words(x[c]->d);  // eight scales, then the eight groups' pairs of sums
        store(sum[c], to_float(multiply_pairs(pairs, splat(sum_factors<Format>(0)))));
      }
    }
    q = x[0]->q;
    q_stride = reinterpret_cast<const std::byte*>(x[1]) - reinterpret_cast<const std::byte*>(x[0]);
    if (evenly_apart()) return;
    for (int c = 0; c < kTileColumns; ++c) {
      for (int i = 0; i < kSegment; i += 64) store_words(copies_[c] + i, load_words(x[c]->q + i));
    }
    q = copies_[0];
    q_stride = kSegment;
  }

 private:
  /// As a tile reads them.
  EVROS_INLINE bool evenly_apart() const {
    bool even = true;
    for (int c = 0; c < kTileColumns; ++c) {
      even &= reinterpret_cast<const std::byte*>(x[c]) == reinterpret_cast<const std::byte*>(x[0]) + c * q_stride;
    }
    return even;
  }

  alignas(64) int8_t copies_[kTileColumns][kSegment];
};
static_assert(offsetof(QuantSegment, sum) == offsetof(QuantSegment, d) + 32 &&
              sizeof(QuantSegment) == offsetof(QuantSegment, d) + 64);

/// The dots of a tile of vectors with a segment of the strip.
struct TileDots {
  alignas(64) int32_t dot[kGroups][kTileColumns][kStripRows];

  /// Those of a group are stored when the next group's have been begun: a tile is finished long after its instruction.
  template <typename Format>
  EVROS_INLINE void multiply(const TileVectors<Format>& x, const TileWeights<Format>& w, int64_t groups, Ahead& ahead) {
    __asm__ volatile("" ::: "memory");  // GCC's tile loads do not say that they read memory
    begin<0>(x.q, x.q_stride, w.word[0]);
    for (int64_t g = 0; g < groups; g += 2) {
      ahead.ask();
      if (g + 1 < groups) begin<1>(x.q + (g + 1) * 32, x.q_stride, w.word[g + 1]);
      finish<0>(dot[g]);
      if (g + 2 < groups) begin<0>(x.q + (g + 2) * 32, x.q_stride, w.word[g + 2]);
      if (g + 1 < groups) finish<1>(dot[g + 1]);
    }
  }

 private:
  template <int kPair>
  static EVROS_INLINE void begin(const int8_t* q, int64_t q_stride, const int8_t (&words)[kVectors][8][4 * kWidth]) {
    _tile_loadd(0, q, q_stride);
    _tile_loadd(1, words[0], 4 * kWidth);
    _tile_loadd(2, words[1], 4 * kWidth);
    if constexpr (kPair == 0) {
      _tile_zero(3);
      _tile_zero(4);
      _tile_dpbssd(3, 0, 1);
      _tile_dpbssd(4, 0, 2);
    } else {
      _tile_zero(5);
      _tile_zero(6);
      _tile_dpbssd(5, 0, 1);
      _tile_dpbssd(6, 0, 2);
    }
  }
  template <int kPair>
  static EVROS_INLINE void finish(int32_t (&dots)[kTileColumns][kStripRows]) {
    if constexpr (kPair == 0) {
      _tile_stored(3, dots[0], sizeof dots[0]);
      _tile_stored(4, dots[0] + kWidth, sizeof dots[0]);
    } else {
      _tile_stored(5, dots[0], sizeof dots[0]);
      _tile_stored(6, dots[0] + kWidth, sizeof dots[0]);
    }
  }
};

/// Adds the segment's sums of columns [c0, c0 + kSumColumns) of a tile to y.
template <typename Format>
EVROS_INLINE void add_dots(const TileDots& dots, const TileWeights<Format>& w, const TileVectors<Format>& x, int c0,
                           int64_t groups, float (*y)[kStripRows], Ahead& ahead) {
  Vec acc[kSumColumns][kVectors];
  const QuantSegment* from[kSumColumns];
  for (int c = 0; c < kSumColumns; ++c) {
    from[c] = x.x[c0 + c];
    for (Vec& a : acc[c]) a = splat(0.0f);
  }
  for (int64_t g = 0; g < groups; ++g) {
    ahead.ask();
    EVROS_UNROLLED
    for (int c = 0; c < kSumColumns; ++c) {
      const Vec d = splat(from[c]->d[g]);
      EVROS_UNROLLED
      for (int v = 0; v < kVectors; ++v) {
        const int lane = v * static_cast<int>(kWidth);
        acc[c][v] = fma(load(w.scale[g] + lane) * d, to_float(load_words(dots.dot[g][c0 + c] + lane)), acc[c][v]);
        if constexpr (Format::kMinimum) {
          acc[c][v] = fma_negative(load(w.minimum[g] + lane) * d, splat(x.sum[c0 + c][8 + g]), acc[c][v]);
        }
      }
    }
  }
  for (int c = 0; c < kSumColumns; ++c) {
    for (int v = 0; v < kVectors; ++v) {
      float* to = y[c] + v * kWidth;
      store(to, load(to) + acc[c][v]);
    }
  }
}

/// One tile of vectors, from column c0 on, times a segment.
template <typename Format>
EVROS_INLINE void tile_segment(const StripWork& work, const TileWeights<Format>& w, int64_t segment, int64_t groups,
                               int c0, Ahead& ahead, Sums& sums) {
  TileVectors<Format> x;
  TileDots dots;
  x.take(work, segment, c0);
  dots.multiply(x, w, groups, ahead);
  for (int c = 0; c < kTileColumns && c0 + c < work.columns; c += kSumColumns) {
    add_dots(dots, w, x, c, groups, sums.y + c0 + c, ahead);
  }
}

template <typename Format>
void tile_strip(const StripWork& work, Sums& sums) {
  // Not by an object's destructor, which would need code that is shared with other tables for exceptions that nobody throws.
  _tile_loadconfig(&kTileShapes);
  const int tiles_of_vectors = (work.columns + kTileColumns - 1) / kTileColumns;
  const int sums_of_vectors = (work.columns + kSumColumns - 1) / kSumColumns;
  sums.clear(sums_of_vectors * kSumColumns);
  Segments<Format> segments(work.type, work.strip);
  TileWeights<Format> w;
  for (int64_t k0 = 0; k0 < work.k; k0 += kSegment) {
    const int64_t groups = smaller(kSegment, work.k - k0) / 32;
    w.take(segments.at(k0, groups * 32), groups);
    const std::byte* next = segments.from(k0 + groups * 32);
    const int64_t asks = (tiles_of_vectors * ((groups + 1) / 2) + sums_of_vectors * groups);
    Ahead ahead = {next, ((next - segments.from(k0)) / asks + 63) / 64 * 64};
    for (int t = 0; t < tiles_of_vectors; ++t) {
      tile_segment(work, w, k0 / kSegment, groups, t * kTileColumns, ahead, sums);
    }
  }
  _tile_release();  // so that the operating system need not save them
}

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels

#endif
