// What is behind Store, View and Transaction. Internal to state/.
//
// Readers and the publisher, and why the orders suffice:
//
//   reader (pin, any thread, no lock)              publisher (install and reclaim, under `mutex`)
//   A1  r = current                                B1  current = next                      (publish.cc, the one store)
//   A2  r.pins += 1                                B2  if r != current and r.pins == 0: recycle r
//   A3  if current != r: r.pins -= 1, again
//   A4  read r, its banks, its pages
//   A5  r.pins -= 1
//
// * A2, A3, B1, B2 are seq_cst, so they have one total order. If A3 still sees r as current, then A3 is before the B1
// that
//   replaces r, hence A2 is before that B1 and before its B2, which therefore sees the pin: r is not recycled under a
//   reader. (Dekker's argument; release and acquire alone would allow both sides to miss each other.)
// * If A3 sees another record, the reader touched nothing of r but its count. r may be free, reserved or being filled
// at that
//   moment, which is harmless: the count of a record is only ever added to and subtracted from, never reset. A short
//   false pin delays a reuse, no more.
// * r may have been recycled and published again between A1 and A3 (ABA). Then A3 sees r as current once more and A2
// precedes
//   A3, so the first point applies to its new life.
// * B1 is also a release and A3 an acquire: a reader that passed A3 sees everything written to the record, and every
// byte of
//   banks, pages and tables that the publisher wrote or received through the lock before B1.
// * A5 is a release, B2 an acquire. B2 reads 0, written by the last of a chain of read-modify-writes that continues the
//   release sequence of every earlier A5, so all reads of all readers happen before the record and its memory are
//   reused.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "state/pools.h"
#include "state/store.h"

namespace evros::state {

/// Holds Layout::origin; never released.
constexpr int32_t kOriginBank = 0;

/// SlotEntry::changed of an image that has no record yet.
constexpr uint64_t kJustMade = ~uint64_t{0};

/// What a record says about one slot. A slot that is not live keeps its generation, so that the next one differs.
struct SlotEntry {
  uint32_t generation = 0;
  bool live = false;
  int32_t bank = -1;   // a reference, when live
  int32_t table = -1;  // a reference, or -1 when the frontier is 0
  int64_t frontier = 0;
  Digest tokens;         // of tokens [0, frontier)
  uint64_t changed = 0;  // sequence number of the record in which this image was new
};

/// Of the tokens of a sequence without any.
inline Digest no_tokens() { return tree_root({}); }

/// An image that is kept. Not part of a record; under the lock.
struct Checkpoint {
  uint32_t generation = 0;
  SlotId owner;
  SlotEntry image;  // live while the checkpoint is; a bank, and a table of its own that ends at its frontier
};

/// One state of the index. Immutable from its publication to its reuse.
struct Record {
  enum class Use : uint8_t { free, reserved, published };
  std::atomic<int32_t> pins{0};
  Use use = Use::free;  // under the lock
  uint64_t sequence = 0;
  Digest parent;  // control digest of the record it was made from
  Digest digest;  // of this one, as it was when published
  std::vector<SlotEntry> slots;
};

/// The private image of a slot, between begin and publish. All of it under the lock.
struct Draft {
  bool active = false;
  int32_t bank = -1, table = -1;  // a reference each
  int32_t new_pages = 0;          // one reference each: entries [used, used + new_pages) of the table
  int32_t copy_from = -1;         // page whose rows below the frontier go to entry frontier / page_tokens first
  int64_t frontier = 0;
  int32_t tokens = 0;
};

struct Transaction::State {
  Store::Impl* store;
  std::vector<Image> images;
  int32_t record = -1;  // reserved for the publication
};

struct Store::Impl {
  Impl(device::Device& device_in, Layout layout_in, Limits limits_in);
  ~Impl();

  device::Device& device;
  const Layout layout;
  const Limits limits;
  std::unique_ptr<Pools> pools;

  std::mutex mutex;                       // the publication lock: everything below but `current` and the pins
  std::vector<Record> records;            // never resized
  std::vector<Draft> drafts;              // per slot
  std::vector<Checkpoint> checkpoints;    // never resized
  std::vector<std::byte> digest_scratch;  // the control record in canonical form
  std::atomic<const Record*> current{nullptr};

  // --- view.cc: without the lock
  /// The current record, pinned.
  int32_t pin();
  void unpin(int32_t record);
  /// Error unless `id` is live in `record`.
  Status check_address(const Record& record, SlotId id) const;

  // --- store.cc, operations.cc: with the lock
  const Record& now() const { return *current.load(std::memory_order_relaxed); }
  Record& record(int32_t i) { return records[static_cast<size_t>(i)]; }
  Draft& draft(int32_t slot) { return drafts[static_cast<size_t>(slot)]; }
  /// Frees the records that nobody can read any more, and lets go of their banks and tables. Never allocates.
  void reclaim();
  /// Takes a free record, or busy.
  Result<int32_t> reserve_record();
  /// Fills the first record, of a store that comes after a lost one, with that one's addresses.
  void inherit(Impl& lost, Record& first);
  /// A slot that no sequence lives in, or busy.
  Result<int32_t> free_slot() const;
  /// Error unless `id` is live and not in flight: what an operation that takes a slot's image away asks for.
  Status check_idle(SlotId id) const;
  /// A free record, holding a copy of the current one, which `change` may alter; then it is installed and checkpoints
  /// that are no prefix of their sequence any more are released. Needs a free table when `needs_table`.
  Status publish_change(bool needs_table, const std::function<void(Record& next)>& change);
  /// Lets go of what an entry holds; it is free then.
  void clear(SlotEntry& entry);
  /// A live entry on the origin bank.
  SlotEntry empty_entry(uint32_t generation);
  /// A live entry with the same image and a table of its own.
  SlotEntry share(const SlotEntry& from, uint32_t generation);
  /// The slot's image becomes the same as `from`, an entry of the current record or a checkpoint.
  Status take_image(SlotId id, const SlotEntry& from);

  // --- checkpoints.cc: with the lock
  Result<const Checkpoint*> find(CheckpointId id) const;
  /// Are its tokens the first ones of the entry's?
  bool is_prefix(const SlotEntry& of, const SlotEntry& image) const;
  /// Is each whole page of `image`, a prefix, also a page of `of`.
  bool shares_pages(const SlotEntry& of, const SlotEntry& image) const;
  void release(Checkpoint& checkpoint);
  void release_strangers();

  // --- transaction.cc: with the lock but for fill()
  struct Need {
    int64_t banks = 0, pages = 0, tables = 0;
  };
  Result<Transaction> begin(std::span<const Append> appends);
  /// What the batch takes, or why it may not start. Changes nothing.
  Result<Need> plan(std::span<const Append> appends) const;
  Status check_append(std::span<const Append> appends, size_t i) const;
  Status check_free(const Need& need) const;
  /// Must the page at the frontier be copied before it can be written.
  bool frontier_page_shared(const SlotEntry& entry) const;
  Image start_draft(const Append& append);
  /// Copies the rows below the frontier of a shared page, and writes the new tokens. Private memory only.
  Status fill_draft(const Image& image, std::span<const int32_t> tokens);
  void drop_draft(int32_t slot);
  void drop(Transaction::State& transaction);

  // --- publish.cc: with the lock. Nothing here allocates or fails.
  /// `next` becomes a copy of the current record, one sequence number on, with references of its own.
  void copy_current(Record& next);
  /// The entry of a slot takes over its draft.
  void adopt_draft(Record& next, int32_t slot);
  /// THE store: makes `next` the index.
  void install(Record& next);
  void publish(Transaction::State& transaction, std::span<const bool> clean);
  /// Over the canonical control fields: sequence number, parent, and per slot generation, life, frontier and tokens
  /// digest.
  Digest control_digest(const Record& record);

  // --- consistency.cc: with the lock
  void check_consistency() const;
};

}  // namespace evros::state
