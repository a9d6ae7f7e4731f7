// The canonical layout: nothing is lost or added, and the places are those that the header promises.
#include "kernels/layout.h"

#include <string>

#include "kernels/test_support.h"

namespace evros::kernels {
namespace {

using format::TensorType;

TEST(Layout, EveryBlockOfEveryRowComesBack) {
  Random random(5);
  for (const TensorType type : weight_types()) {
    const auto& info = format::type_info(type);
    for (const int64_t rows : {1, 2, 31, 32, 33, 48, 64, 95, 160}) {
      const int64_t blocks = random.integer(1, 5), bytes = info.block_bytes, row_bytes = blocks * bytes;
      std::vector<std::byte> file(rows * row_bytes), packed(file.size(), std::byte{0xAA}), block(bytes);
      for (std::byte& b : file) b = static_cast<std::byte>(random.integer(0, 255));
      pack_rows(type, rows, row_bytes, file.data(), packed.data());
      const Matrix m{.type = type,
                     .data = packed.data(),
                     .rows = rows,
                     .cols = blocks * info.block_elements,
                     .row_bytes = row_bytes};
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t b = 0; b < blocks; ++b) {
          gather_block(strip_of(m, row / kStripRows), row % kStripRows, b, pieces_of(type, static_cast<int32_t>(bytes)),
                       block.data());
          ASSERT_EQ(std::memcmp(block.data(), &file[row * row_bytes + b * bytes], bytes), 0)
              << info.name << ' ' << rows << " rows, row " << row << " block " << b;
        }
      }
    }
  }
}

TEST(Layout, ThePieceInFrontIsTheScaleThatTheCodecReads) {
  for (const TensorType type : weight_types(true)) {
    const auto& info = format::type_info(type);
    const Pieces pieces = pieces_of(type, static_cast<int32_t>(info.block_bytes));
    EXPECT_EQ(pieces.short_bytes + 4 * pieces.words, pieces.bytes) << info.name;
    if (pieces.short_bytes == 2) {
      EXPECT_EQ(half_scales_of(type), std::vector<int64_t>{pieces.short_at}) << info.name;
    }
  }
}

TEST(Layout, AStripHasScalesOfAllRowsAndThenWordAfterWord) {
  // Two blocks of Q8_0 in each of 33 rows; byte i of block b of row r tells where it came from.
  const int64_t rows = 33, row_bytes = 2 * 34;
  const auto value = [](int64_t row, int64_t at) { return static_cast<std::byte>(row * 7 + at); };
  std::vector<std::byte> file(rows * row_bytes), packed(file.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < row_bytes; ++i) file[r * row_bytes + i] = value(r, i);
  }
  pack_rows(TensorType::q8_0, rows, row_bytes, file.data(), packed.data());
  const int64_t block = 32 * 34;
  EXPECT_EQ(packed[2 * 5], value(5, 0));                                                   // scale of row 5
  EXPECT_EQ(packed[64 + 4 * 31 + 3], value(31, 2 + 3));                                    // word 0 of row 31
  EXPECT_EQ(packed[64 + 128 * 7 + 4 * 2], value(2, 2 + 28));                               // word 7 of row 2
  EXPECT_EQ(packed[block + 64 + 128 + 4 * 9], value(9, 34 + 2 + 4));                       // word 1 of the next block
  for (int64_t i = 0; i < row_bytes; ++i) EXPECT_EQ(packed[2 * block + i], value(32, i));  // a strip of one row
}

}  // namespace
}  // namespace evros::kernels
