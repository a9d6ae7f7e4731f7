// The state of all sequences: banks, pages, slots, and the one index that says which of them are public. A chunk of
// tokens is a transaction: begin() hands out private images, stages write them, publish() makes the clean ones public
// with one atomic store (publish.cc), dropping the Transaction leaves every public byte as it was (docs/state.md).
//
//   step             public record                      private image
//   begin            R0: slot -> (bank a, frontier n)    bank b, new pages, tokens written beyond n
//   stages           unchanged                           written
//   publish          R1: slot -> (bank b, frontier n+k)  gone; a returns to the pool when its last holder lets go
//   drop / failure   unchanged                           gone; b and the new pages return to the pool
//
// Thread rule: every method may be called from any thread. Transactions in flight together hold disjoint slots. A View
// may be taken, read and released by any thread at any time, without blocking a publication.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "device/device.h"
#include "state/layout.h"

namespace evros::state {

/// The address of a sequence. A slot that was dropped and reused has another generation; the old address is refused
/// (Code::stale) by every call.
struct SlotId {
  int32_t slot = -1;
  uint32_t generation = 0;
  bool operator==(const SlotId&) const = default;
};

/// The address of a checkpoint; stale (Code::stale) once it was released or went with its sequence.
struct CheckpointId {
  int32_t index = -1;
  uint32_t generation = 0;
  bool operator==(const CheckpointId&) const = default;
};

/// Sizes taken at start; nothing grows afterwards (S8).
struct Limits {
  int32_t slots = 1;        // sequences alive at once
  int32_t checkpoints = 0;  // held at once, by all sequences together
  int32_t banks = 3;        // slots + largest batch + checkpoints, and one for the origin
  int32_t pages =
      0;  // shared by all sequences; a checkpoint costs one, its page at the frontier, when that is written on
  int64_t max_tokens = 0;  // of one sequence
  int32_t records = 16;    // states of the index: one current, one per batch in flight (at least one), and one for each
                           // publication of which views are still held
};

/// Host memory that a store takes beside its banks and pages: tables, token ids, digests and its copy of the layout.
uint64_t host_bytes(const Layout& layout, const Limits& limits);

/// Tokens to append to one sequence in one transaction.
struct Append {
  SlotId id;
  std::span<const int32_t> tokens;  // at least one
};

struct Usage {
  int32_t slots, banks, pages;  // in use; the origin's bank is not counted, so that nothing open means zero
  int32_t records;              // current, pinned, or reserved by a batch in flight
  int32_t checkpoints;
};

class Store;
struct SlotEntry;

/// A pinned public image: what it shows never changes while it is held, also when its sequence moves on, is reset or
/// closed. Costs one record of Limits::records once something else was published, and keeps the
/// banks and pages of all sequences of that record from being reused. Movable; released before its store is
/// destroyed.
class View {
 public:
  View() = default;
  View(View&&) noexcept;
  View& operator=(View&&) noexcept;
  ~View();
  bool held() const { return store_ != nullptr; }
  int64_t frontier() const;
  SlotId id() const;
  const std::byte* bank() const;    // device memory
  std::byte* const* pages() const;  // device addresses of pages below ceil(frontier / page_tokens);
                                    // null when the frontier is 0
  void tokens(int64_t first, std::span<int32_t> out) const;  // [first, first + out.size()) below the frontier
  uint64_t sequence() const;                                 // number of the publication that made the record
  uint64_t changed() const;  // number of the publication that made this image the sequence's
  /// Of `tokens` in canonical form, kept up to date by every publication: nothing is read or hashed here.
  Digest tokens_digest() const;
  /// Of the whole record: its number, its parent's digest, and per slot generation, frontier and tokens_digest.
  Digest record_digest() const;

 private:
  friend class Store;
  const SlotEntry& entry() const;
  const Store* store_ = nullptr;
  int32_t record_ = -1, slot_ = -1;
};

/// The private image of one sequence of a transaction.
struct Image {
  SlotId id;
  int64_t frontier;          // public: position of the first new token
  int32_t tokens;            // new ones
  const std::byte* bank_in;  // public bank; immutable
  std::byte* bank_out;       // private bank; content undefined until stages write it
  std::byte* const* pages;   // table for [0, frontier + tokens); rows at or beyond the frontier may be written
};

/// Private images between begin and publish. Destroying it drops them: that is all that failure has to do. Movable;
/// destroyed before its store.
class Transaction {
 public:
  Transaction();
  Transaction(Transaction&&) noexcept;
  Transaction& operator=(Transaction&&) noexcept;
  ~Transaction();
  std::span<const Image> images() const;

 private:
  friend class Store;
  struct State;
  std::unique_ptr<State> state_;
};

class Store {
 public:
  /// Allocates every bank and page at once; fails with out_of_memory and the numbers, holding nothing.
  static Result<std::unique_ptr<Store>> create(device::Device& device, Layout layout, Limits limits);
  /// The same on another device, for a store whose device was lost: an address that is live there is live here, its
  /// sequence empty, and one that is stale there is stale here. Checkpoints are gone; numbers of publications go on.
  static Result<std::unique_ptr<Store>> create_after(const Store& lost, device::Device& device);
  ~Store();

  const Layout& layout() const;
  const Limits& limits() const;
  Usage usage() const;

  device::Device& device() const;

  // Those below publish too, each with ONE store over all owners together. Each is refused with Code::busy, and nothing
  // happened, when held views and batches in flight leave no record or page table; it succeeds once one of them is
  // released. None copies a byte of a bank or page.

  /// A new empty sequence on the origin bank; frontier 0. Code::busy when no slot is free.
  Result<SlotId> open();
  /// Ends a sequence: its address is stale from now on; views of it stay whole until released. Code::busy while it is
  /// in flight.
  Status close(SlotId id);
  /// The sequence becomes empty (all owners together); the address stays valid. Code::busy while it is in flight.
  Status reset(SlotId id);
  /// A second sequence with the same public image, also while the first is in flight. Code::busy when no slot is free.
  /// Whoever appends first to a page that both hold gets a copy of its rows below the frontier from begin().
  Result<SlotId> fork(SlotId id);
  /// The image of `id` becomes the checkpoint's, whichever sequence that was taken of. Code::busy while `id` is in
  /// flight.
  Status rewind(SlotId id, CheckpointId to);
  /// The image of `target` becomes that of `source`, which keeps it too. Code::busy while `target` is in flight.
  Status assign(SlotId target, SlotId source);
  /// The image of `target` becomes that of `source`, and `source` becomes empty: work of several steps is done in a
  /// slot that nobody looks at, and shown with this. `seen` is View::changed() of the target when the work began:
  /// Code::busy when it has moved on since, or while either is in flight; invalid_argument when they are the same.
  Status replace(SlotId target, SlotId source, uint64_t seen);

  // Checkpoints: images that can be come back to. Not part of the index, so taking and releasing one publishes nothing.

  /// Holds on to the public image of `id`, also while it is in flight. Code::busy when all checkpoints are taken. It
  /// belongs to the sequence and is released with the operation after which it is no prefix of it: close, reset, rewind
  /// to before it, assign or replace by another history.
  Result<CheckpointId> checkpoint(SlotId id);
  Status release(CheckpointId id);
  /// Tokens of the checkpointed image.
  Result<int64_t> frontier(CheckpointId id) const;
  /// The longest checkpoint, of any sequence, whose tokens are the first ones of `id` and at most `most`.
  /// Code::not_found when there is none.
  Result<CheckpointId> nearest_checkpoint(SlotId id, int64_t most) const;

  /// Every sequence that is alive.
  std::vector<SlotId> live() const;
  Result<View> view(SlotId id) const;
  Result<int64_t> frontier(SlotId id) const;

  /// Private images for all of `appends`, or an error and nothing happened: stale address, slot already in flight
  /// (busy) or named twice (invalid_argument), no free bank or page (out_of_memory, with numbers), no free record or
  /// page table (busy), frontier + tokens beyond max_tokens (invalid_argument), no sequence or no tokens
  /// (invalid_argument), or the device's error while a shared page was copied. `tokens` are copied. May copy on the
  /// device, so the thread that drives it calls this.
  Result<Transaction> begin(std::span<const Append> appends);

  /// Publishes the images whose `clean` entry is true with ONE store and drops the others. The caller vouches for
  /// docs/state.md "The transaction", point 3. Consumes the transaction. Cannot fail: everything it needs was reserved
  /// by begin().
  void publish(Transaction transaction, std::span<const bool> clean);

  /// For tests: CHECKs that every reference count equals the holders that can be named. Costs time in proportion to the
  /// store.
  void check_consistency() const;

 private:
  friend class View;
  friend class Transaction;
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  static Result<std::unique_ptr<Store>> build(device::Device& device, Layout layout, Limits limits, Impl* lost);
  std::unique_ptr<Impl> impl_;
};

}  // namespace evros::state
