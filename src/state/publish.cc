// The one place where the index changes. Everything that makes state public (publish, open, close, reset, fork, rewind,
// assign, replace) builds its record in private and comes here; nothing here allocates, waits for readers, or can fail.
#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "state/store_impl.h"

namespace evros::state {

void Store::Impl::copy_current(Record& next) {
  const Record& from = now();
  CHECK(next.use == Record::Use::reserved);
  CHECK(next.slots.size() == from.slots.size());
  std::copy(from.slots.begin(), from.slots.end(), next.slots.begin());
  next.sequence = from.sequence + 1;
  next.parent = from.digest;
  for (const SlotEntry& entry : next.slots) {
    if (!entry.live) continue;
    pools->banks.hold(entry.bank);
    if (entry.table >= 0) pools->tables.hold(entry.table);
  }
}

void Store::Impl::adopt_draft(Record& next, int32_t slot) {
  Draft& from = draft(slot);
  SlotEntry& entry = next.slots[static_cast<size_t>(slot)];
  CHECK(from.active && entry.live);
  CHECK(entry.frontier == from.frontier);  // nobody else may move a slot in flight
  pools->drop_bank(entry.bank);
  if (entry.table >= 0) pools->drop_table(entry.table);
  Table& table = pools->table(from.table);
  table.used += from.new_pages;
  entry.bank = from.bank;
  entry.table = from.table;
  entry.frontier += from.tokens;
  CHECK(table.used == pages_for(entry.frontier, layout.page_tokens));
  entry.tokens = pools->extend_leaves(table, from.frontier, entry.frontier);
  entry.changed = kJustMade;
  from = Draft{};
}

Digest Store::Impl::control_digest(const Record& record) {
  std::byte* at = digest_scratch.data();
  const auto put = [&](auto value) {
    evros::store(at, value);
    at += sizeof value;
  };
  put(record.sequence);
  put(record.parent.low);
  put(record.parent.high);
  for (const SlotEntry& entry : record.slots) {
    put(entry.generation);
    put(static_cast<uint32_t>(entry.live));
    put(entry.frontier);
    put(entry.tokens.low);
    put(entry.tokens.high);
  }
  CHECK(at == digest_scratch.data() + digest_scratch.size());
  return digest(digest_scratch);
}

void Store::Impl::install(Record& next) {
  CHECK(next.use == Record::Use::reserved);
  if (const Record* parent = current.load(std::memory_order_relaxed); parent != nullptr) {
    CHECK(next.sequence == parent->sequence + 1);
    CHECK(next.parent == control_digest(*parent));  // nobody wrote to the published record
  }
  for (SlotEntry& entry : next.slots) {
    if (entry.changed == kJustMade) entry.changed = next.sequence;
  }
  next.digest = control_digest(next);
  next.use = Record::Use::published;
  // Release: readers see the whole record. Sequentially consistent: store_impl.h says why.
  current.store(&next, std::memory_order_seq_cst);
}

void Store::Impl::publish(Transaction::State& transaction, std::span<const bool> clean) {
  CHECK(clean.size() == transaction.images.size());
  CHECK(transaction.record >= 0);
  const std::lock_guard lock(mutex);
  if (std::find(clean.begin(), clean.end(), true) != clean.end()) {
    Record& next = record(transaction.record);
    copy_current(next);
    for (size_t i = 0; i < clean.size(); ++i) {
      if (clean[i]) adopt_draft(next, transaction.images[i].id.slot);
    }
    install(next);
    transaction.record = -1;
  }
  drop(transaction);
  reclaim();
}

void Store::publish(Transaction transaction, std::span<const bool> clean) {
  CHECK(transaction.state_ != nullptr);
  CHECK(transaction.state_->store == impl_.get());
  impl_->publish(*transaction.state_, clean);
  transaction.state_.reset();
}

}  // namespace evros::state
