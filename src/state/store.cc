#include "state/store.h"

#include <algorithm>
#include <utility>

#include "base/str.h"
#include "state/store_impl.h"

namespace evros::state {

namespace {

Error bad_limit(std::string_view what, int64_t seen, int64_t wanted) {
  return Error{Code::invalid_argument, cat("state: ", what, " is ", seen, "; at least ", wanted, " is needed")};
}

Status check_limits(const Limits& limits) {
  if (limits.slots < 1) return bad_limit("the number of slots", limits.slots, 1);
  if (limits.banks < 2) return bad_limit("the number of banks", limits.banks, 2);
  if (limits.checkpoints < 0) return bad_limit("the number of checkpoints", limits.checkpoints, 0);
  if (limits.pages < 0) return bad_limit("the number of pages", limits.pages, 0);
  if (limits.records < 2) return bad_limit("the number of records", limits.records, 2);
  if (limits.max_tokens < 1) return bad_limit("the longest sequence", limits.max_tokens, 1);
  if (limits.max_tokens > INT32_MAX) {
    return Error{Code::invalid_argument,
                 cat("state: the longest sequence is ", limits.max_tokens, "; at most ", INT32_MAX)};
  }
  return {};
}

// Layouts are computed by model/, never read from a file: a wrong one is a broken invariant.
void check_layout(const Layout& layout) {
  CHECK(layout.page_tokens > 0);
  CHECK(layout.origin.size() == layout.bank_bytes);
  CHECK(layout.bank_bytes % 64 == 0 && layout.page_bytes % 64 == 0);
  for (const BankSlice& slice : layout.bank) {
    CHECK(slice.offset % 64 == 0 && slice.offset + slice.bytes <= layout.bank_bytes);
  }
  for (const PagePart& part : layout.page) {
    CHECK(part.tokens_per_row > 0 && layout.page_tokens % part.tokens_per_row == 0);
    CHECK(part.rows_per_page == layout.page_tokens / part.tokens_per_row);
    CHECK(part.offset + part.row_bytes * static_cast<uint64_t>(part.rows_per_page) <= layout.page_bytes);
  }
}

}  // namespace

Store::Impl::Impl(device::Device& device_in, Layout layout_in, Limits limits_in)
    : device(device_in),
      layout(std::move(layout_in)),
      limits(limits_in),
      records(static_cast<size_t>(limits.records)),
      drafts(static_cast<size_t>(limits.slots)),
      checkpoints(static_cast<size_t>(limits.checkpoints)),
      digest_scratch(24 + 32 * static_cast<size_t>(limits.slots)) {
  for (Record& each : records) each.slots.resize(static_cast<size_t>(limits.slots));
}

Store::Impl::~Impl() {
  for (const Record& each : records) CHECK(each.pins.load() == 0);  // a view outlives the store
  for (const Draft& each : drafts) CHECK(!each.active);             // a transaction does
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::create(device::Device& device, Layout layout, Limits limits) {
  return build(device, std::move(layout), limits, nullptr);
}

Result<std::unique_ptr<Store>> Store::create_after(const Store& lost, device::Device& device) {
  return build(device, lost.impl_->layout, lost.impl_->limits, lost.impl_.get());
}

Result<std::unique_ptr<Store>> Store::build(device::Device& device, Layout layout, Limits limits, Impl* lost) {
  EVROS_TRY(check_limits(limits));
  check_layout(layout);
  auto impl = std::make_unique<Impl>(device, std::move(layout), limits);
  EVROS_ASSIGN(impl->pools, Pools::create(device, impl->layout, limits));
  CHECK(impl->pools->banks.take() == kOriginBank);
  EVROS_TRY(device.upload(impl->pools->bank(kOriginBank), impl->layout.origin));
  EVROS_ASSIGN(const int32_t first, impl->reserve_record());
  if (lost != nullptr) impl->inherit(*lost, impl->record(first));
  impl->install(impl->record(first));
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

void Store::Impl::inherit(Impl& lost, Record& first) {
  const std::lock_guard lock(lost.mutex);
  first.sequence = lost.now().sequence + 1;
  first.parent = lost.now().digest;
  for (size_t i = 0; i < first.slots.size(); ++i) {
    const SlotEntry& there = lost.now().slots[i];
    first.slots[i].generation = there.generation;
    if (there.live) first.slots[i] = empty_entry(there.generation);
  }
  for (size_t i = 0; i < checkpoints.size(); ++i) checkpoints[i].generation = lost.checkpoints[i].generation;
}

std::vector<SlotId> Store::live() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<SlotId> ids;
  const Record& record = impl_->now();
  for (size_t i = 0; i < record.slots.size(); ++i) {
    if (record.slots[i].live) ids.push_back({static_cast<int32_t>(i), record.slots[i].generation});
  }
  return ids;
}

const Layout& Store::layout() const { return impl_->layout; }
const Limits& Store::limits() const { return impl_->limits; }
device::Device& Store::device() const { return impl_->device; }

Usage Store::usage() const {
  const std::lock_guard lock(impl_->mutex);
  impl_->reclaim();
  Usage usage{0, impl_->pools->banks.size() - impl_->pools->banks.free() - 1,
              impl_->pools->pages.size() - impl_->pools->pages.free(), 0, 0};
  for (const SlotEntry& entry : impl_->now().slots) usage.slots += entry.live ? 1 : 0;
  for (const Record& each : impl_->records) usage.records += each.use != Record::Use::free ? 1 : 0;
  for (const Checkpoint& each : impl_->checkpoints) usage.checkpoints += each.image.live ? 1 : 0;
  return usage;
}

void Store::Impl::reclaim() {
  for (Record& each : records) {
    if (each.use != Record::Use::published || &each == &now()) continue;
    if (each.pins.load(std::memory_order_seq_cst) != 0) continue;  // B2 of store_impl.h
    for (const SlotEntry& entry : each.slots) {
      if (!entry.live) continue;
      pools->drop_bank(entry.bank);
      if (entry.table >= 0) pools->drop_table(entry.table);
    }
    each.use = Record::Use::free;
  }
}

Result<int32_t> Store::Impl::reserve_record() {
  for (size_t i = 0; i < records.size(); ++i) {
    if (records[i].use != Record::Use::free) continue;
    records[i].use = Record::Use::reserved;
    return static_cast<int32_t>(i);
  }
  return Error{Code::busy,
               cat("state: all ", limits.records, " records of the index are held by views or batches in flight")};
}

Result<int32_t> Store::Impl::free_slot() const {
  const Record& in = now();
  for (int32_t slot = 0; slot < limits.slots; ++slot) {
    if (!in.slots[static_cast<size_t>(slot)].live) return slot;
  }
  return Error{Code::busy, cat("state: all ", limits.slots, " slots hold a sequence")};
}

void Store::check_consistency() const {
  const std::lock_guard lock(impl_->mutex);
  impl_->check_consistency();
}

}  // namespace evros::state
