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
  int64_t k;
  bool integers;  // the integer chain on q; else the float chain on x
  int columns;    // in use, at least 1
  const float* x[kStripColumns];
  const QuantSegment* q[kStripColumns];
  float* y[kStripColumns];  // strip.width outputs each
};

/// What a strip costs in the element operations of for_ranges.h: a vector does many at once, and bringing the weights from
/// memory takes about as long as eight vectors.
constexpr int64_t strip_cost(int64_t k, int64_t columns) { return k * (columns + 8); }

/// y[c][lane] = row `lane` of the strip times vector c, by the chains of docs/numerics.md.
void multiply_strip(const StripWork& work);

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
