#include <algorithm>
#include <utility>

#include "base/str.h"
#include "state/store_impl.h"

namespace evros::state {

int32_t Store::Impl::pin() {
  while (true) {  // A1 to A3 of store_impl.h; goes round again only when a publication came in between
    const Record* seen = current.load(std::memory_order_seq_cst);
    Record& candidate = records[static_cast<size_t>(seen - records.data())];
    candidate.pins.fetch_add(1, std::memory_order_seq_cst);
    if (current.load(std::memory_order_seq_cst) == seen) return static_cast<int32_t>(seen - records.data());
    candidate.pins.fetch_sub(1, std::memory_order_release);
  }
}

void Store::Impl::unpin(int32_t index) {
  CHECK(index >= 0 && static_cast<size_t>(index) < records.size());
  CHECK(record(index).pins.fetch_sub(1, std::memory_order_release) > 0);
}

Status Store::Impl::check_address(const Record& in, SlotId id) const {
  if (id.slot < 0 || id.slot >= limits.slots) {
    return Error{Code::stale, cat("state: slot ", id.slot, " does not exist; there are ", limits.slots)};
  }
  const SlotEntry& entry = in.slots[static_cast<size_t>(id.slot)];
  if (!entry.live) {
    return Error{Code::stale, cat("state: slot ", id.slot, " generation ", id.generation, " is closed")};
  }
  if (entry.generation != id.generation) {
    return Error{Code::stale, cat("state: slot ", id.slot, " generation ", id.generation,
                                  " is an earlier sequence; now ", entry.generation)};
  }
  return {};
}

Result<View> Store::view(SlotId id) const {
  View view;
  view.record_ = impl_->pin();
  view.store_ = this;  // from here on the destructor unpins
  EVROS_TRY(impl_->check_address(impl_->record(view.record_), id));
  view.slot_ = id.slot;
  return view;
}

Result<int64_t> Store::frontier(SlotId id) const {
  EVROS_ASSIGN(const View seen, view(id));
  return seen.frontier();
}

View::View(View&& other) noexcept { *this = std::move(other); }

View& View::operator=(View&& other) noexcept {
  if (this == &other) return *this;
  if (store_ != nullptr) store_->impl_->unpin(record_);
  store_ = std::exchange(other.store_, nullptr);
  record_ = std::exchange(other.record_, -1);
  slot_ = std::exchange(other.slot_, -1);
  return *this;
}

View::~View() {
  if (store_ != nullptr) store_->impl_->unpin(record_);
}

const SlotEntry& View::entry() const {
  CHECK(held());
  CHECK(slot_ >= 0);
  return store_->impl_->record(record_).slots[static_cast<size_t>(slot_)];
}

int64_t View::frontier() const { return entry().frontier; }
SlotId View::id() const { return {slot_, entry().generation}; }
const std::byte* View::bank() const { return store_->impl_->pools->bank(entry().bank); }

std::byte* const* View::pages() const {
  const SlotEntry& seen = entry();
  return seen.table < 0 ? nullptr : store_->impl_->pools->table(seen.table).addresses;
}

void View::tokens(int64_t first, std::span<int32_t> out) const {
  const SlotEntry& seen = entry();
  CHECK(first >= 0 && first <= seen.frontier);
  CHECK(static_cast<int64_t>(out.size()) <= seen.frontier - first);
  if (out.empty()) return;
  const Pools& pools = *store_->impl_->pools;
  pools.read_tokens(pools.table(seen.table), first, out);
}

uint64_t View::changed() const { return entry().changed; }

Digest View::tokens_digest() const { return entry().tokens; }

Digest View::record_digest() const {
  CHECK(held());
  return store_->impl_->record(record_).digest;
}

uint64_t View::sequence() const {
  CHECK(held());
  return store_->impl_->record(record_).sequence;
}

}  // namespace evros::state
