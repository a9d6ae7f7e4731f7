// Byte-pair merging: the symbols of one pre-token are joined, always the pair with the lowest rank first and the leftmost
// of equal ones, until no pair is left that may be joined.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace evros::text {

/// Immutable after the last add; then every method may be called from any thread.
class MergeTable {
 public:
  /// Room for `merges` calls of add.
  explicit MergeTable(size_t merges);

  /// left + right -> result, with the next rank. False when the pair is there already; nothing has changed then.
  bool add(int32_t left, int32_t right, int32_t result);

  /// Merges `symbols` (ids, one a byte at the start) and appends what remains to `out`. O(n log n) time, O(n) memory.
  void merge(std::span<const int32_t> symbols, std::vector<int32_t>& out) const;

 private:
  struct Entry {
    uint64_t pair;  // left << 32 | right; kEmpty marks a free place
    uint32_t rank;
    int32_t result;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  const Entry* find(int32_t left, int32_t right) const;
  size_t place(uint64_t pair) const;
  void merge_short(std::span<const int32_t> symbols, std::vector<int32_t>& out) const;
  void merge_long(std::span<const int32_t> symbols, std::vector<int32_t>& out) const;

  std::vector<Entry> entries_;  // open addressing, at most half full, size a power of two
  unsigned shift_;
  uint32_t next_rank_ = 0;
};

}  // namespace evros::text
