// Addresses of the cached rows that one row of the batch attends to.
#pragma once

#include "kernels/kernels.h"
#include "kernels/ref/chains.h"
#include "kernels/ref/visible.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

/// Walks the visible positions of one row as addresses of their cached rows.
class VisibleRows {
 public:
  VisibleRows(const Batch& batch, const AttentionArgs& a, int64_t row)
      : batch_(batch), sequence_(batch.sequence[batch.row_sequence[row]]), visible_(batch, a, row) {}

  int64_t count() const { return visible_.count; }

  /// Addresses of entries [begin, end), plus `head_offset` bytes. Runs of positions in one page are one addition each.
  void addresses(const PageRows& page, int64_t head_offset, int64_t begin, int64_t end, const std::byte** out) const {
    int64_t entry = begin;
    while (entry < end) {
      const int64_t position = visible_.position(entry);
      int64_t run = end - entry;  // consecutive positions from here
      if (entry < visible_.blocks * visible_.ratio) run = smaller(visible_.ratio - entry % visible_.ratio, run);
      run = smaller(run, batch_.page_tokens - position % batch_.page_tokens);
      const std::byte* at = page_row(batch_, sequence_, page, position) + head_offset;
      for (int64_t i = 0; i < run; ++i) *out++ = at + i * page.row_bytes;
      entry += run;
    }
  }

 private:
  const Batch& batch_;
  const SequenceRows& sequence_;
  const Visible visible_;
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
