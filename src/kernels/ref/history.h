// Rows before a chunk: the causal convolutions' inputs, of which a bank keeps the newest.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/isa.h"
#include "kernels/kernels.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

/// One sequence's rows of width `channels` with `length` rows of history before them.
struct RowsWithHistory {
  const float* rows;  // the chunk's first row
  int64_t stride;
  const float* history;  // [length][channels], oldest first, from the public bank
  int64_t length, channels;

  EVROS_INLINE RowsWithHistory(const SequenceRows& sequence, const float* x, int64_t x_stride, uint64_t bank_offset,
                               int64_t history_length, int64_t width)
      : rows(x + sequence.first_row * x_stride),
        stride(x_stride),
        history(reinterpret_cast<const float*>(sequence.bank_in + bank_offset)),
        length(history_length),
        channels(width) {}

  /// Row t of the chunk; t >= -length.
  EVROS_INLINE const float* row(int64_t t) const {
    return t >= 0 ? rows + t * stride : history + (length + t) * channels;
  }

  /// Writes channels [c0, c1) of the history that the next chunk finds.
  EVROS_INLINE void keep(const SequenceRows& sequence, uint64_t bank_offset, int64_t c0, int64_t c1) const {
    float* out = reinterpret_cast<float*>(sequence.bank_out + bank_offset);
    for (int64_t i = 0; i < length; ++i) {
      const float* from = row(sequence.rows - length + i);
      for (int64_t c = c0; c < c1; ++c) out[i * channels + c] = from[c];
    }
  }
};

}  // namespace EVROS_ISA
}  // namespace evros::kernels
