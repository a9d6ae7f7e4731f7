#include <algorithm>
#include <array>

#include "base/str.h"
#include "state/store_impl.h"

namespace evros::state {

Result<const Checkpoint*> Store::Impl::find(CheckpointId id) const {
  if (id.index >= 0 && id.index < limits.checkpoints) {
    const Checkpoint& found = checkpoints[static_cast<size_t>(id.index)];
    if (found.image.live && found.generation == id.generation) return &found;
  }
  return Error{Code::stale, cat("state: checkpoint ", id.index, " generation ", id.generation,
                                " does not exist or was released, by itself or with its sequence")};
}

bool Store::Impl::is_prefix(const SlotEntry& of, const SlotEntry& image) const {
  if (!of.live || image.frontier > of.frontier) return false;
  if (image.frontier == 0) return true;
  const Table &ours = pools->table(of.table), &theirs = pools->table(image.table);
  const int64_t per_page = layout.page_tokens;
  for (int64_t first = 0; first < image.frontier; first += per_page) {
    const int32_t a = ours.ids[first / per_page], b = theirs.ids[first / per_page];
    const int64_t count = std::min(per_page, image.frontier - first);
    if (a != b && !std::equal(pools->page_tokens(a), pools->page_tokens(a) + count, pools->page_tokens(b)))
      return false;
  }
  return true;
}

bool Store::Impl::shares_pages(const SlotEntry& of, const SlotEntry& image) const {
  const int64_t whole = image.frontier / layout.page_tokens;
  if (whole == 0) return true;
  const Table &ours = pools->table(of.table), &theirs = pools->table(image.table);
  return std::equal(ours.ids, ours.ids + whole, theirs.ids);
}

void Store::Impl::release(Checkpoint& checkpoint) { clear(checkpoint.image); }

void Store::Impl::release_strangers() {
  for (Checkpoint& each : checkpoints) {
    if (!each.image.live) continue;
    const SlotEntry& owner = now().slots[static_cast<size_t>(each.owner.slot)];
    const bool kept = owner.generation == each.owner.generation && is_prefix(owner, each.image);
    // The same history made anew (restored, say) shares no pages, and a checkpoint is planned to cost one.
    if (!kept || !shares_pages(owner, each.image)) release(each);
  }
}

Result<CheckpointId> Store::checkpoint(SlotId id) {
  const std::lock_guard lock(impl_->mutex);
  impl_->reclaim();
  EVROS_TRY(impl_->check_address(impl_->now(), id));
  const auto free = std::find_if(impl_->checkpoints.begin(), impl_->checkpoints.end(),
                                 [](const Checkpoint& each) { return !each.image.live; });
  if (free == impl_->checkpoints.end()) {
    return Error{Code::busy, cat("state: all ", impl_->limits.checkpoints, " checkpoints are taken")};
  }
  const SlotEntry& entry = impl_->now().slots[static_cast<size_t>(id.slot)];
  if (entry.table >= 0 && impl_->pools->tables.free() == 0) {
    return Error{Code::busy,
                 cat("state: all ", impl_->pools->tables.size(), " page tables are in use, some by held views")};
  }
  *free = Checkpoint{free->generation + 1, id, impl_->share(entry, id.generation)};
  return CheckpointId{static_cast<int32_t>(free - impl_->checkpoints.begin()), free->generation};
}

Status Store::release(CheckpointId id) {
  const std::lock_guard lock(impl_->mutex);
  EVROS_TRY(impl_->find(id));
  impl_->release(impl_->checkpoints[static_cast<size_t>(id.index)]);
  return {};
}

Result<int64_t> Store::frontier(CheckpointId id) const {
  const std::lock_guard lock(impl_->mutex);
  EVROS_ASSIGN(const Checkpoint* const found, impl_->find(id));
  return found->image.frontier;
}

Result<CheckpointId> Store::nearest_checkpoint(SlotId id, int64_t most) const {
  const std::lock_guard lock(impl_->mutex);
  EVROS_TRY(impl_->check_address(impl_->now(), id));
  const SlotEntry& entry = impl_->now().slots[static_cast<size_t>(id.slot)];
  CheckpointId best;
  int64_t reach = -1;
  for (size_t i = 0; i < impl_->checkpoints.size(); ++i) {
    const Checkpoint& each = impl_->checkpoints[i];
    if (!each.image.live || each.image.frontier > most || each.image.frontier <= reach) continue;
    if (!impl_->is_prefix(entry, each.image)) continue;
    best = {static_cast<int32_t>(i), each.generation};
    reach = each.image.frontier;
  }
  if (reach < 0)
    return Error{Code::not_found, cat("state: no checkpoint of slot ", id.slot, " at or below token ", most)};
  return best;
}

}  // namespace evros::state
