// One strip of weights times many vectors: the loop that every product is made of.
#pragma once

#include "kernels/kernels.h"
#include "kernels/layout.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {

/// Vectors of one call. With their quantised segments they stay in the first-level cache beside a segment of weights.
constexpr int kStripColumns = 64;

struct StripWork {
  format::TensorType type;
  Strip strip;
  Strip next;  // the one behind it, of which outputs follow; width 0 but for the integer chain of one vector
  int64_t k;
  bool integers;  // the integer chain on q; else the float chain on x
  int columns;    // in use, at least 1
  float scale;    // of all outputs
  const float* x[kStripColumns];
  const QuantSegment* q[kStripColumns];
  float* y[kStripColumns];  // strip.width outputs each, and next.width
};

/// Strips of one call. A thread that has one vector reads two strips in turn, which memory answers faster than one
/// (bench/LOG.md).
constexpr int64_t strips_at_once(int64_t columns, bool integers) { return columns == 1 && integers ? 2 : 1; }

/// Vectors of one call where there are `columns`: about equal shares, as a last one of a few vectors would read all weights once
/// more for little, but whole tiles (tiles.h).
constexpr int64_t columns_at_once(int64_t columns) {
  constexpr int64_t kTile = 16;
  const int64_t calls = (columns + kStripColumns - 1) / kStripColumns;
  return ((columns + calls - 1) / calls + kTile - 1) / kTile * kTile;
}

/// What a strip costs in the element operations of for_ranges.h: a vector does many at once, and bringing the weights from
/// memory takes about as long as eight vectors.
constexpr int64_t strip_cost(int64_t k, int64_t columns) { return k * (columns + 8); }

/// Makes strips [index, index + strips_at_once()) of a matrix, as far as `end`, those of `work`.
EVROS_INLINE void take_strips(const Matrix& w, int64_t index, int64_t end, StripWork& work) {
  work.strip = strip_of(w, index);
  work.scale = w.scale != nullptr ? *w.scale : 1.0f;
  work.next =
      strips_at_once(work.columns, work.integers) > 1 && index + 1 < end ? strip_of(w, index + 1) : Strip{nullptr, 0};
}

/// y[c][lane] = row `lane` of the strips times vector c, by the chains of docs/numerics.md.
void multiply_strip(const StripWork& work);

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
