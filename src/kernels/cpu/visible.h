// The positions that one row of the batch attends to, ascending: the blocks selected for it, then its own tail.
#pragma once

#include "kernels/kernels.h"
#include "kernels/ref/chains.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

/// Walks the visible positions of one row as addresses of their cached rows.
class VisibleRows {
 public:
  VisibleRows(const Batch& batch, const AttentionArgs& a, int64_t row)
      : batch_(batch),
        sequence_(batch.sequence[batch.row_sequence[row]]),
        selected_(a.ratio > 0 ? a.selected + row * a.keep : nullptr),
        ratio_(a.ratio) {
    const int64_t position = batch.row_position[row];
    if (ratio_ > 0) {
      while (blocks_ < a.keep && selected_[blocks_] >= 0) ++blocks_;
      tail_begin_ = (position + 1) / ratio_ * ratio_;
    }
    count_ = blocks_ * ratio_ + (position + 1 - tail_begin_);
  }

  int64_t count() const { return count_; }

  /// Addresses of entries [begin, end), plus `head_offset` bytes. Runs of positions in one page are one addition each.
  void addresses(const PageRows& page, int64_t head_offset, int64_t begin, int64_t end, const std::byte** out) const {
    int64_t entry = begin;
    while (entry < end) {
      const int64_t block_entries = blocks_ * ratio_;
      int64_t position, run;  // `run` consecutive positions from here
      if (entry >= block_entries) {
        position = tail_begin_ + entry - block_entries;
        run = end - entry;
      } else {
        position = selected_[entry / ratio_] * ratio_ + entry % ratio_;
        run = smaller(ratio_ - entry % ratio_, end - entry);
      }
      run = smaller(run, batch_.page_tokens - position % batch_.page_tokens);
      const std::byte* at = page_row(batch_, sequence_, page, position) + head_offset;
      for (int64_t i = 0; i < run; ++i) *out++ = at + i * page.row_bytes;
      entry += run;
    }
  }

 private:
  const Batch& batch_;
  const SequenceRows& sequence_;
  const int32_t* selected_;
  int64_t ratio_, blocks_ = 0, tail_begin_ = 0, count_ = 0;
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
