// What the benches of products share: memory for more weights than caches hold, and a batch.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace evros::kernels {

/// Zeros in huge pages, where the system has them.
inline std::byte* huge_memory(int64_t bytes) {
  void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(map, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(map);
}

/// A batch of rows without state.
struct StatelessRows {
  std::vector<int32_t> row_sequence;
  std::vector<int64_t> row_position;
  uint32_t status = 0;
  const Batch batch;

  explicit StatelessRows(int64_t rows)
      : row_sequence(rows),
        row_position(rows),
        batch{.rows = static_cast<int32_t>(rows),
              .sequences = 1,
              .page_tokens = 64,
              .sequence = nullptr,
              .row_sequence = row_sequence.data(),
              .row_position = row_position.data(),
              .status = &status} {}
};

}  // namespace evros::kernels
