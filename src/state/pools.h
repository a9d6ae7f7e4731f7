// The memory behind the images: banks, pages and page tables, each from a fixed pool and reference-counted. Nothing
// here knows about slots or publication; who holds what is decided in store.cc, transaction.cc and publish.cc.
//
// Who holds references: a bank by published records, private images, checkpoints and (for bank 0) the store itself; a
// table by published records, private images and checkpoints; a page by tables, plus by the private image that took it
// until that is published or dropped.
//
// Thread rule: all counts and free lists belong to the store's lock. The bytes follow the rules of images: private ones
// belong to the writer, published ones never change, rows at or beyond every holder's frontier belong to the slot's
// writer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/digest.h"
#include "base/result.h"
#include "device/device.h"
#include "state/layout.h"
#include "state/store.h"

namespace evros::state {

/// Reference counts of `size` things and the list of those that nobody holds. Never allocates after construction.
class Counts {
 public:
  explicit Counts(int32_t size);
  int32_t size() const { return static_cast<int32_t>(refs_.size()); }
  int32_t free() const { return static_cast<int32_t>(free_.size()); }
  int32_t refs(int32_t i) const { return refs_[static_cast<size_t>(i)]; }
  const std::vector<int32_t>& free_list() const { return free_; }
  /// A free one, now held once. The caller made sure that there is one.
  int32_t take();
  void hold(int32_t i);
  /// True when that was the last holder; it is then free.
  bool drop(int32_t i);

 private:
  std::vector<int32_t> refs_, free_;
};

/// Page ids and device addresses of positions [0, used * page_tokens). Belongs to one lineage of one slot: records of
/// that slot share it and see the prefix below their own frontier, so appending pages is invisible to them. Whatever
/// would change an entry below somebody's frontier (fork, reset, copy-on-write) makes another table.
struct Table {
  int32_t used = 0;  // entries that the table itself holds a reference to; those of a private image may follow
  int32_t* ids = nullptr;
  std::byte** addresses = nullptr;
  Digest* leaves = nullptr;  // of the tokens: one for each full leaf below the newest frontier, and room for one more
};

/// Tokens of a leaf of their digest.
constexpr int64_t kLeafTokens = static_cast<int64_t>(kDigestLeaf / sizeof(int32_t));

class Pools {
 public:
  static Result<std::unique_ptr<Pools>> create(device::Device& device, const Layout& layout, const Limits& limits);

  Counts banks, pages, tables;

  std::byte* bank(int32_t i) const;
  std::byte* page(int32_t i) const;
  int32_t* page_tokens(int32_t i) const;  // [page_tokens] host
  Table& table(int32_t i);
  const Table& table(int32_t i) const;
  int32_t table_capacity() const { return capacity_; }

  void drop_bank(int32_t i);
  void drop_page(int32_t i);
  /// The last holder of a table lets go of its `used` pages.
  void drop_table(int32_t i);
  /// A table of its own for the first `count` pages of a sequence with `frontier` tokens, which both then hold. Needs a
  /// free one.
  int32_t share_table(int32_t from, int32_t count, int64_t frontier);
  /// The digest of tokens [0, after); those of the leaves filled since `before` are kept in the table.
  Digest extend_leaves(Table& table, int64_t before, int64_t after);
  void read_tokens(const Table& table, int64_t first, std::span<int32_t> out) const;
  /// Appends nothing to `used`: entry `at` of `table` becomes `page`, whose reference the caller passes on.
  void set_entry(Table& table, int32_t at, int32_t page);

 private:
  Pools(device::Device& device, const Layout& layout, const Limits& limits, int32_t tables, int32_t capacity);
  void poison(std::byte* data, uint64_t bytes) const;

  device::Device& device_;
  const uint64_t bank_bytes_, page_bytes_;
  const int32_t page_tokens_, capacity_;
  device::Buffer bank_memory_, page_memory_;
  std::unique_ptr<int32_t[]> tokens_, table_ids_;
  std::unique_ptr<std::byte*[]> table_addresses_;
  std::unique_ptr<Digest[]> table_leaves_;
  std::vector<Table> table_list_;
};

}  // namespace evros::state
