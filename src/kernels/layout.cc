#include "kernels/layout.h"

#include <algorithm>

#include "base/check.h"

namespace evros::kernels {

namespace {

void pack_strip(const Pieces& pieces, int64_t width, int64_t row_bytes, const std::byte* in, std::byte* out) {
  for (int64_t at = 0; at < row_bytes; at += pieces.bytes, out += pieces.bytes * width) {
    for (int64_t lane = 0; lane < width; ++lane) {
      const std::byte* block = in + lane * row_bytes + at;
      std::byte* to = out;
      const int64_t piece = pieces.short_bytes;
      for (int64_t i = 0; i < piece; ++i) to[piece * lane + i] = block[pieces.short_at + i];
      to += piece * width + 4 * lane;
      const std::byte* word = block + pieces.word_at(0);
      for (int32_t i = 0; i < pieces.words; ++i, word += 4, to += 4 * width) __builtin_memcpy(to, word, 4);
    }
  }
}

}  // namespace

void pack_rows(format::TensorType type, int64_t rows, int64_t row_bytes, const std::byte* in, std::byte* out) {
  const Pieces pieces = pieces_of(type, static_cast<int32_t>(format::type_info(type).block_bytes));
  CHECK(row_bytes % pieces.bytes == 0);
  for (int64_t row = 0; row < rows; row += kStripRows) {
    const int64_t width = std::min(kStripRows, rows - row);
    pack_strip(pieces, width, row_bytes, in + row * row_bytes, out + row * row_bytes);
  }
}

}  // namespace evros::kernels
