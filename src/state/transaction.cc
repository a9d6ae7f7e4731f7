#include <algorithm>
#include <utility>

#include "base/str.h"
#include "state/store_impl.h"

namespace evros::state {

Status Store::Impl::check_append(std::span<const Append> appends, size_t i) const {
  const Append& append = appends[i];
  EVROS_TRY(check_address(now(), append.id));
  const SlotEntry& entry = now().slots[static_cast<size_t>(append.id.slot)];
  if (append.tokens.empty()) {
    return Error{Code::invalid_argument,
                 cat("state: slot ", append.id.slot, " was given no tokens; at least 1 is needed")};
  }
  const auto same = [&](const Append& other) { return other.id.slot == append.id.slot; };
  if (std::any_of(appends.begin(), appends.begin() + static_cast<ptrdiff_t>(i), same)) {
    return Error{Code::invalid_argument, cat("state: slot ", append.id.slot, " is named twice in one batch")};
  }
  if (drafts[static_cast<size_t>(append.id.slot)].active) {
    return Error{Code::busy, cat("state: slot ", append.id.slot, " is already in flight")};
  }
  if (append.tokens.size() > static_cast<uint64_t>(limits.max_tokens - entry.frontier)) {
    return Error{Code::invalid_argument, cat("state: slot ", append.id.slot, " holds ", entry.frontier, " tokens; ",
                                             append.tokens.size(), " more exceed the limit of ", limits.max_tokens)};
  }
  return {};
}

bool Store::Impl::frontier_page_shared(const SlotEntry& entry) const {
  if (entry.frontier % layout.page_tokens == 0) return false;  // the next row opens a new page
  CHECK(entry.table >= 0);
  const Table& table = pools->table(entry.table);
  const int64_t at = entry.frontier / layout.page_tokens;
  CHECK(at == table.used - 1);
  return pools->pages.refs(table.ids[at]) > 1;
}

Result<Store::Impl::Need> Store::Impl::plan(std::span<const Append> appends) const {
  if (appends.empty()) return Error{Code::invalid_argument, "state: an empty batch; at least 1 sequence is needed"};
  Need need;
  for (size_t i = 0; i < appends.size(); ++i) {
    EVROS_TRY(check_append(appends, i));
    const SlotEntry& entry = now().slots[static_cast<size_t>(appends[i].id.slot)];
    const bool copy = frontier_page_shared(entry);
    const int64_t after = entry.frontier + static_cast<int64_t>(appends[i].tokens.size());
    need.banks += 1;
    need.tables += entry.table < 0 || copy ? 1 : 0;
    need.pages += pages_for(after, layout.page_tokens) - pages_for(entry.frontier, layout.page_tokens) + (copy ? 1 : 0);
  }
  return need;
}

Status Store::Impl::check_free(const Need& need) const {
  if (need.banks > pools->banks.free()) {
    return Error{Code::out_of_memory, cat("state: the batch needs ", need.banks, " banks; ", pools->banks.free(),
                                          " of ", limits.banks, " are free")};
  }
  if (need.pages > pools->pages.free()) {
    return Error{Code::out_of_memory, cat("state: the batch needs ", need.pages, " pages of ", layout.page_tokens,
                                          " tokens; ", pools->pages.free(), " of ", limits.pages, " are free")};
  }
  if (need.tables > pools->tables.free()) {
    return Error{Code::busy, cat("state: the batch needs ", need.tables, " page tables; ", pools->tables.free(), " of ",
                                 pools->tables.size(), " are free, held views keep the others")};
  }
  return {};
}

Result<Transaction> Store::Impl::begin(std::span<const Append> appends) {
  // Whatever can throw comes first: after check_free() nothing fails until the private memory is filled.
  Transaction transaction;
  auto state = std::make_unique<Transaction::State>();
  state->store = this;
  state->images.reserve(appends.size());
  {
    const std::lock_guard lock(mutex);
    reclaim();
    EVROS_ASSIGN(const Need need, plan(appends));
    EVROS_TRY(check_free(need));
    EVROS_ASSIGN(state->record, reserve_record());
    for (const Append& append : appends) state->images.push_back(start_draft(append));
    transaction.state_ = std::move(state);
  }
  for (size_t i = 0; i < appends.size(); ++i) {  // a failure here is a dropped transaction like any other
    EVROS_TRY(fill_draft(transaction.state_->images[i], appends[i].tokens));
  }
  return transaction;
}

Image Store::Impl::start_draft(const Append& append) {
  const SlotEntry& entry = now().slots[static_cast<size_t>(append.id.slot)];
  Draft& made = draft(append.id.slot);
  CHECK(!made.active);
  made =
      Draft{true, pools->banks.take(), entry.table, 0, -1, entry.frontier, static_cast<int32_t>(append.tokens.size())};
  const bool copy = frontier_page_shared(entry);
  if (entry.table >= 0 && !copy) {
    pools->tables.hold(entry.table);  // rows and entries beyond the frontier are invisible to its other holders
  } else {
    const int32_t shared = static_cast<int32_t>(entry.frontier / layout.page_tokens);  // whole pages below the frontier
    made.table = entry.table >= 0 ? pools->share_table(entry.table, shared, entry.frontier) : pools->tables.take();
    if (copy) {
      Table& fresh = pools->table(made.table);
      made.copy_from = pools->table(entry.table).ids[shared];
      pools->set_entry(fresh, shared, pools->pages.take());
      fresh.used = shared + 1;
    }
  }
  Table& table = pools->table(made.table);
  made.new_pages = pages_for(made.frontier + made.tokens, layout.page_tokens) - table.used;
  for (int32_t k = 0; k < made.new_pages; ++k) pools->set_entry(table, table.used + k, pools->pages.take());
  return Image{append.id, made.frontier, made.tokens, pools->bank(entry.bank), pools->bank(made.bank), table.addresses};
}

// Without the lock: the draft is this transaction's alone, its pages beyond the frontier too, and the page copied from
// stays as it is because the public record holds it until this slot publishes.
Status Store::Impl::fill_draft(const Image& image, std::span<const int32_t> tokens) {
  const Draft& made = draft(image.id.slot);
  CHECK(made.active && made.tokens == static_cast<int32_t>(tokens.size()));
  const Table& table = pools->table(made.table);
  const int32_t per_page = layout.page_tokens;
  if (made.copy_from >= 0) {
    const int64_t at = made.frontier / per_page, below = made.frontier % per_page;
    CHECK(below > 0);
    for (const PagePart& part : layout.page) {
      const uint64_t rows = static_cast<uint64_t>(below / part.tokens_per_row);
      EVROS_TRY(device.copy(table.addresses[at] + part.offset, pools->page(made.copy_from) + part.offset,
                            rows * part.row_bytes));
    }
    std::copy_n(pools->page_tokens(made.copy_from), below, pools->page_tokens(table.ids[at]));
  }
  for (int64_t p = made.frontier; const int32_t token : tokens) {
    pools->page_tokens(table.ids[p / per_page])[p % per_page] = token;
    ++p;
  }
  return {};
}

void Store::Impl::drop_draft(int32_t slot) {
  Draft& gone = draft(slot);
  CHECK(gone.active);
  const Table& table = pools->table(gone.table);
  for (int32_t k = 0; k < gone.new_pages; ++k) pools->drop_page(table.ids[table.used + k]);
  pools->drop_table(gone.table);
  pools->drop_bank(gone.bank);
  gone = Draft{};
}

void Store::Impl::drop(Transaction::State& transaction) {
  for (const Image& image : transaction.images) {
    if (draft(image.id.slot).active) drop_draft(image.id.slot);
  }
  if (transaction.record < 0) return;  // it went into the index
  CHECK(record(transaction.record).use == Record::Use::reserved);
  record(transaction.record).use = Record::Use::free;
}

Transaction::Transaction() = default;
Transaction::Transaction(Transaction&& other) noexcept = default;

Transaction& Transaction::operator=(Transaction&& other) noexcept {
  Transaction old;
  old.state_ = std::exchange(state_, std::move(other.state_));
  return *this;
}

Transaction::~Transaction() {
  if (state_ == nullptr) return;
  const std::lock_guard lock(state_->store->mutex);
  state_->store->drop(*state_);
}

std::span<const Image> Transaction::images() const {
  if (state_ == nullptr) return {};
  return state_->images;
}

Result<Transaction> Store::begin(std::span<const Append> appends) { return impl_->begin(appends); }

}  // namespace evros::state
