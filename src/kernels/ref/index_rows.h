// The raw index keys of an incomplete block, which a bank carries from chunk to chunk.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/isa.h"
#include "kernels/kernels.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

/// The raw index key of a position of the incomplete block that began before this chunk, or of the chunk itself.
EVROS_INLINE const float* raw_key(const IndexStoreArgs& a, const SequenceRows& sequence, int64_t position) {
  if (position < sequence.position) {
    return reinterpret_cast<const float*>(sequence.bank_in + a.bank_offset) + position % a.ratio * a.dim;
  }
  return a.raw + (sequence.first_row + position - sequence.position) * a.raw_stride;
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
