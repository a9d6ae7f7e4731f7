// Rows of a table that stays on disk: read by positional reads into a fixed set of frames, under leases. The n-gram table of
// the real model has 320 million rows; a file larger than memory opens at once and memory stays what was asked for.
//
// Thread rule: acquire() may be called from any thread; a Lease belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "format/model_file.h"

namespace evros::pages {

struct RowStoreOptions {
  uint64_t memory_bytes = 64u << 20;   // frames; at least enough for one lease of the largest chunk, refused otherwise
  uint32_t frame_bytes = 4096;         // read unit; rows may straddle frames
  bool resident = false;               // read the whole table at start instead (when asked)
};

struct RowStoreStats {
  uint64_t rows_asked, rows_hit, frames_read, bytes_read;
};

class RowStore;

/// Holds the frames of the rows that were asked for; they stay valid and unchanged until it is destroyed. Movable.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;
  ~Lease();
  /// Copies row i of the request (row_bytes bytes) to `out`.
  void copy_row(size_t i, std::byte* out) const;

 private:
  friend class RowStore;
  RowStore* store_ = nullptr;
  std::vector<uint64_t> rows_;
  std::vector<int32_t> frames_;        // of each row: the frames it touches, in order
};

class RowStore {
 public:
  /// `file` outlives the store. The table must be row-contiguous (every GGUF and safetensors table is, piece by piece).
  static Result<std::unique_ptr<RowStore>> create(const format::ModelFile& file, const format::Tensor& table,
                                                  const RowStoreOptions& options);
  ~RowStore();
  uint64_t rows() const;
  uint64_t row_bytes() const;
  /// All rows are in memory when it returns, or an error (a failed, short or torn read; no free frame: busy; row outside the
  /// table: invalid_argument) and nothing is held.
  Result<Lease> acquire(std::span<const uint64_t> rows);
  RowStoreStats stats() const;
  /// Frames held by leases; zero when nobody works.
  int32_t frames_leased() const;

 private:
  friend class Lease;
  struct Impl;
  explicit RowStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace evros::pages
