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
  uint64_t memory_bytes = 64u << 20;  // frames; at least those of one row. An acquire() that needs more is refused
  uint32_t frame_bytes = 4096;        // read unit; rows may straddle frames
  bool resident = false;              // read the whole table at start instead; the two above then do not matter
};

/// Frames that one row of a table may touch: one when rows fill frames exactly, else it may lie across borders.
constexpr uint64_t frames_of_row(uint64_t row_bytes, uint64_t frame_bytes) {
  return row_bytes <= frame_bytes && frame_bytes % row_bytes == 0 ? 1 : (row_bytes + frame_bytes - 2) / frame_bytes + 1;
}

struct RowStoreStats {
  uint64_t rows_asked = 0;
  uint64_t rows_hit = 0;                     // all frames were there, or being read by somebody else
  uint64_t frames_read = 0, bytes_read = 0;  // successful reads; resident: the whole table as bytes, no frames
};

class RowStore;

/// Holds the frames of the rows that were asked for; they stay valid and unchanged until it is destroyed, released or used
/// for another acquire(). Movable; destroyed before its store.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;
  ~Lease();
  size_t rows() const { return rows_.size(); }
  /// Gives the frames back and holds nothing; its own memory stays for the next acquire().
  void release();
  /// Copies row i of the request (row_bytes bytes) to `out`.
  void copy_row(size_t i, std::byte* out) const;

 private:
  friend class RowStore;
  void swap(Lease& other) noexcept;
  RowStore* store_ = nullptr;
  std::vector<uint64_t> rows_;   // as asked for, duplicates and all
  std::vector<uint64_t> pages_;  // numbers of the frame-sized parts of the table that they touch, ascending
  std::vector<int32_t> frames_;  // where each of pages_ lies; one hold each. Empty when the table is resident
  // Room of acquire(): places in pages_ that have to be read, and what a read of several frames goes through.
  std::vector<size_t> missing_;
  std::unique_ptr<std::byte[]> staging_;
};

class RowStore {
 public:
  /// `file` outlives the store. The table must be row-contiguous (every GGUF and safetensors table is, piece by piece); one
  /// with reordered columns is refused (unsupported). Memory is taken here, not later: out_of_memory with the bytes, or
  /// invalid_argument when `memory_bytes` cannot hold one row's frames. Reads nothing unless `resident`.
  static Result<std::unique_ptr<RowStore>> create(const format::ModelFile& file, const format::Tensor& table,
                                                  const RowStoreOptions& options);
  ~RowStore();
  uint64_t rows() const;
  uint64_t row_bytes() const;
  /// A hint that these rows will be acquired soon. They lie all over the table, and a disk answers many requests in about the
  /// time of one, while the caller does other work. Takes no memory, changes no result, never fails.
  void announce(std::span<const uint64_t> rows) const;
  /// All rows are in memory when it returns, or nothing is held: a failed, short or torn read (the file's error; the frames of
  /// that read are empty again), no free frame because other leases hold them (busy), more frames than there are
  /// (out_of_memory, with numbers), a row outside the table (invalid_argument). Duplicates are read once; adjacent frames in
  /// one read of at most 256 KiB. A frame that somebody else is reading is waited for, and read here when that fails.
  Result<Lease> acquire(std::span<const uint64_t> rows);
  /// The same into a lease that exists, which first gives back what it held and holds nothing after an error. Takes no memory
  /// when the lease came from make_lease() and has room for so many rows.
  Status acquire(std::span<const uint64_t> rows, Lease& lease);
  /// A lease that holds nothing, with room for an acquire() of at most `rows` rows.
  Lease make_lease(size_t rows) const;
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
