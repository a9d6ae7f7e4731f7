// The positions that one row of the batch attends to, for every table.
#pragma once

#include <cstdint>

#include "kernels/isa.h"
#include "kernels/kernels.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

/// Ascending: the blocks selected for the row, then its own tail.
struct Visible {
  const int32_t* selected;
  int64_t ratio, blocks, tail_begin, count;

  EVROS_INLINE Visible(const Batch& batch, const AttentionArgs& a, int64_t row)
      : selected(a.ratio > 0 ? a.selected + row * a.keep : nullptr), ratio(a.ratio), blocks(0), tail_begin(0) {
    const int64_t position = batch.row_position[row];
    if (ratio > 0) {
      int64_t none = a.keep;  // selected are [0, blocks), at least; from `none` on nothing is
      while (blocks < none) {
        const int64_t middle = (blocks + none) / 2;
        if (selected[middle] >= 0) {
          blocks = middle + 1;
        } else {
          none = middle;
        }
      }
      tail_begin = (position + 1) / ratio * ratio;
    }
    count = blocks * ratio + (position + 1 - tail_begin);
  }

  /// Of entry `entry` of [0, count).
  EVROS_INLINE int64_t position(int64_t entry) const {
    const int64_t block_entries = blocks * ratio;
    if (entry >= block_entries) return tail_begin + entry - block_entries;
    return selected[entry / ratio] * ratio + entry % ratio;
  }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
