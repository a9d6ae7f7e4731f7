// What changes the index besides a chunk: open, close, reset, fork, rewind, assign, replace. Each builds one record.
#include "base/str.h"
#include "state/store_impl.h"

namespace evros::state {

Status Store::Impl::check_idle(SlotId id) const {
  EVROS_TRY(check_address(now(), id));
  if (drafts[static_cast<size_t>(id.slot)].active)
    return Error{Code::busy, cat("state: slot ", id.slot, " is in flight")};
  return {};
}

Status Store::Impl::publish_change(bool needs_table, const std::function<void(Record& next)>& change) {
  if (needs_table && pools->tables.free() == 0) {
    return Error{Code::busy, cat("state: all ", pools->tables.size(), " page tables are in use, some by held views")};
  }
  EVROS_ASSIGN(const int32_t index, reserve_record());
  Record& next = record(index);
  copy_current(next);
  change(next);
  install(next);
  release_strangers();
  reclaim();
  return {};
}

void Store::Impl::clear(SlotEntry& entry) {
  pools->drop_bank(entry.bank);
  if (entry.table >= 0) pools->drop_table(entry.table);
  entry = SlotEntry{entry.generation, false, -1, -1, 0, no_tokens(), kJustMade};
}

SlotEntry Store::Impl::empty_entry(uint32_t generation) {
  pools->banks.hold(kOriginBank);
  return SlotEntry{generation, true, kOriginBank, -1, 0, no_tokens(), kJustMade};
}

SlotEntry Store::Impl::share(const SlotEntry& from, uint32_t generation) {
  SlotEntry entry = from;
  entry.generation = generation;
  entry.changed = kJustMade;
  pools->banks.hold(entry.bank);
  if (from.table >= 0)
    entry.table = pools->share_table(from.table, pages_for(from.frontier, layout.page_tokens), from.frontier);
  return entry;
}

Result<SlotId> Store::open() {
  const std::lock_guard lock(impl_->mutex);
  impl_->reclaim();
  EVROS_ASSIGN(const int32_t slot, impl_->free_slot());
  SlotId id{slot, 0};
  EVROS_TRY(impl_->publish_change(false, [&](Record& next) {
    SlotEntry& entry = next.slots[static_cast<size_t>(slot)];
    entry = impl_->empty_entry(entry.generation + 1);
    id.generation = entry.generation;
  }));
  return id;
}

Status Store::close(SlotId id) {
  const std::lock_guard lock(impl_->mutex);
  impl_->reclaim();
  EVROS_TRY(impl_->check_idle(id));
  return impl_->publish_change(false, [&](Record& next) { impl_->clear(next.slots[static_cast<size_t>(id.slot)]); });
}

Status Store::reset(SlotId id) {
  const std::lock_guard lock(impl_->mutex);
  impl_->reclaim();
  EVROS_TRY(impl_->check_idle(id));
  return impl_->publish_change(false, [&](Record& next) {
    // The table goes although the address stays: views may still read it, so the next tokens get another one.
    SlotEntry& entry = next.slots[static_cast<size_t>(id.slot)];
    impl_->clear(entry);
    entry = impl_->empty_entry(id.generation);
  });
}

Result<SlotId> Store::fork(SlotId id) {
  const std::lock_guard lock(impl_->mutex);
  impl_->reclaim();
  EVROS_TRY(impl_->check_address(impl_->now(), id));
  EVROS_ASSIGN(const int32_t slot, impl_->free_slot());
  SlotId made{slot, 0};
  const SlotEntry& from = impl_->now().slots[static_cast<size_t>(id.slot)];
  EVROS_TRY(impl_->publish_change(from.table >= 0, [&](Record& next) {
    SlotEntry& entry = next.slots[static_cast<size_t>(slot)];
    made.generation = entry.generation + 1;
    entry = impl_->share(from, made.generation);
  }));
  return made;
}

Status Store::Impl::take_image(SlotId id, const SlotEntry& from) {
  return publish_change(from.table >= 0, [&](Record& next) {
    SlotEntry& entry = next.slots[static_cast<size_t>(id.slot)];
    const SlotEntry shared = share(from, id.generation);  // before the old image goes: they may be the same
    clear(entry);
    entry = shared;
  });
}

Status Store::rewind(SlotId id, CheckpointId to) {
  const std::lock_guard lock(impl_->mutex);
  impl_->reclaim();
  EVROS_TRY(impl_->check_idle(id));
  EVROS_ASSIGN(const Checkpoint* const checkpoint, impl_->find(to));
  return impl_->take_image(id, checkpoint->image);
}

Status Store::assign(SlotId target, SlotId source) {
  const std::lock_guard lock(impl_->mutex);
  impl_->reclaim();
  EVROS_TRY(impl_->check_idle(target));
  EVROS_TRY(impl_->check_address(impl_->now(), source));
  return impl_->take_image(target, impl_->now().slots[static_cast<size_t>(source.slot)]);
}

Status Store::replace(SlotId target, SlotId source, uint64_t seen) {
  const std::lock_guard lock(impl_->mutex);
  impl_->reclaim();
  EVROS_TRY(impl_->check_idle(target));
  EVROS_TRY(impl_->check_idle(source));
  if (target == source)
    return Error{Code::invalid_argument, cat("state: slot ", target.slot, " cannot replace itself")};
  if (impl_->now().slots[static_cast<size_t>(target.slot)].changed != seen) {
    return Error{Code::busy, cat("state: slot ", target.slot, " was changed while its new image was made")};
  }
  return impl_->publish_change(false, [&](Record& next) {
    SlotEntry &to = next.slots[static_cast<size_t>(target.slot)], &from = next.slots[static_cast<size_t>(source.slot)];
    impl_->clear(to);
    to = from;
    to.generation = target.generation;
    to.changed = kJustMade;
    from = impl_->empty_entry(source.generation);
  });
}

}  // namespace evros::state
