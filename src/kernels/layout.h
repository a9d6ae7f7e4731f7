// The canonical layout of weight matrices (docs/numerics.md, "Layout"), the only one that kernels see: vector lanes are
// output rows, so what lies side by side in memory is the same element of 32 rows.
//
// A matrix is cut into strips of 32 rows; the last may be shorter. Strip after strip, in a strip block after block along k
// (a block of the file's format, Tensor types), in a block piece after piece: first its short piece (a scale, of 16 bits, or of 8 in
// MXFP4) when the format has one, then its 32-bit words in the file's order; of every piece the copies of all rows of the strip side by side. F16
// and BF16 are blocks of one 16-bit piece, F32 of one word. So a full Q8_0 block is 32 scales, then eight times 32 words of
// four weights each. Nothing is added: a matrix has exactly the bytes of the file, row_bytes a row, and a strip of one row
// is the file's row with each block's scale in front. Experts are matrices of their own, one behind the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/isa.h"
#include "kernels/kernels.h"

namespace evros::kernels {

/// Brings `rows` file rows into the layout. They begin at a strip of the matrix and are whole strips, or reach its last row. `out`
/// has the size of `in` (rows * row_bytes) and does not overlap it. Types that can_multiply() only.
void pack_rows(format::TensorType type, int64_t rows, int64_t row_bytes, const std::byte* in, std::byte* out);

inline namespace EVROS_ISA {

constexpr int64_t kStripRows = 32;

/// The pieces of one block.
struct Pieces {
  int32_t bytes;        // of the block
  int32_t short_at;     // where the file has its short piece
  int32_t short_bytes;  // of that piece: 2 or 1; 0: none
  int32_t words;        // 32-bit words: the other bytes, in the file's order

  EVROS_INLINE int32_t word_at(int32_t i) const { return (short_at == 0 ? short_bytes : 0) + 4 * i; }
};

/// Formats whose size is no whole number of words begin with their scale, except four, which end with it.
EVROS_INLINE Pieces pieces_of(format::TensorType type, int32_t block_bytes) {
  using enum format::TensorType;
  const bool ends = type == q6_k || type == q3_k || type == tq1_0 || type == tq2_0;
  const int32_t short_bytes = block_bytes % 4;
  return {block_bytes, ends ? block_bytes - short_bytes : 0, short_bytes, block_bytes / 4};
}

/// One strip: `width` rows, blocks of width * block bytes from `data` on.
struct Strip {
  const std::byte* data;
  int32_t width;
};

EVROS_INLINE Strip strip_of(const Matrix& m, int64_t index) {
  const int64_t left = m.rows - index * kStripRows;
  return {m.data + index * kStripRows * m.row_bytes, static_cast<int32_t>(left < kStripRows ? left : kStripRows)};
}

/// Copies block `block` of one row of a strip into `out`, in the file's order of bytes.
EVROS_INLINE void gather_block(const Strip& strip, int64_t lane, int64_t block, const Pieces& pieces, std::byte* out) {
  const std::byte* in = strip.data + block * pieces.bytes * strip.width;
  const int32_t piece = pieces.short_bytes;
  for (int32_t i = 0; i < piece; ++i) out[pieces.short_at + i] = in[piece * lane + i];
  in += piece * strip.width;
  in += 4 * lane;
  std::byte* word = out + pieces.word_at(0);
  for (int32_t i = 0; i < pieces.words; ++i, in += 4 * strip.width, word += 4) __builtin_memcpy(word, in, 4);
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
