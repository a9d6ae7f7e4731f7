#include "state/pools.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/bytes.h"
#include "base/str.h"
#include "state/store_impl.h"

namespace evros::state {

Counts::Counts(int32_t size) : refs_(static_cast<size_t>(size)), free_(static_cast<size_t>(size)) {
  for (int32_t i = 0; i < size; ++i) free_[static_cast<size_t>(i)] = size - 1 - i;  // the lowest is taken first
}

int32_t Counts::take() {
  CHECK(!free_.empty());
  const int32_t i = free_.back();
  free_.pop_back();
  CHECK(refs(i) == 0);
  refs_[static_cast<size_t>(i)] = 1;
  return i;
}

void Counts::hold(int32_t i) {
  CHECK(i >= 0 && i < size());
  CHECK(refs(i) > 0);
  ++refs_[static_cast<size_t>(i)];
}

bool Counts::drop(int32_t i) {
  CHECK(i >= 0 && i < size());
  CHECK(refs(i) > 0);
  if (--refs_[static_cast<size_t>(i)] > 0) return false;
  free_.push_back(i);  // within the capacity of the constructor
  return true;
}

namespace {

// Slots and their private images need one table each, checkpoints (which hold banks) one each; the rest is for old
// tables that held views keep.
int64_t tables_for(const Limits& limits) { return 2 * int64_t{limits.slots} + limits.banks + limits.records; }

size_t leaves_for(int64_t max_tokens) { return static_cast<size_t>(max_tokens / kLeafTokens) + 1; }

}  // namespace

uint64_t host_bytes(const Layout& layout, const Limits& limits) {
  const auto tables = static_cast<uint64_t>(tables_for(limits));
  const auto capacity = static_cast<uint64_t>(pages_for(limits.max_tokens, layout.page_tokens));
  const uint64_t entry = sizeof(int32_t) + sizeof(std::byte*);
  const uint64_t ids =
      static_cast<uint64_t>(limits.pages) * static_cast<uint64_t>(layout.page_tokens) * sizeof(int32_t);
  const uint64_t records =
      static_cast<uint64_t>(limits.records) * static_cast<uint64_t>(limits.slots) * sizeof(SlotEntry);
  return layout.origin.size() + ids + records +
         tables * (capacity * entry + leaves_for(limits.max_tokens) * sizeof(Digest) + sizeof(Table));
}

Result<std::unique_ptr<Pools>> Pools::create(device::Device& device, const Layout& layout, const Limits& limits) {
  const int64_t tables = tables_for(limits);
  const int32_t capacity = pages_for(limits.max_tokens, layout.page_tokens);
  if (tables > INT32_MAX) return Error{Code::invalid_argument, cat("state: ", tables, " page tables are too many")};
  std::unique_ptr<Pools> pools(new Pools(device, layout, limits, static_cast<int32_t>(tables), capacity));

  const auto bank_total = checked_mul(static_cast<uint64_t>(limits.banks), layout.bank_bytes);
  const auto page_total = checked_mul(static_cast<uint64_t>(limits.pages), layout.page_bytes);
  if (!bank_total || !page_total) return Error{Code::out_of_memory, "state: banks or pages exceed 64-bit sizes"};
  const std::string banks_what = cat(limits.banks, " state banks of ", layout.bank_bytes, " bytes");
  const std::string pages_what = cat(limits.pages, " state pages of ", layout.page_bytes, " bytes");
  EVROS_ASSIGN(pools->bank_memory_, device.allocate(*bank_total, banks_what));
  EVROS_ASSIGN(pools->page_memory_, device.allocate(*page_total, pages_what));
  pools->poison(pools->bank_memory_.data(), *bank_total);
  pools->poison(pools->page_memory_.data(), *page_total);
  return pools;
}

Pools::Pools(device::Device& device, const Layout& layout, const Limits& limits, int32_t table_count, int32_t capacity)
    : banks(limits.banks),
      pages(limits.pages),
      tables(table_count),
      device_(device),
      bank_bytes_(layout.bank_bytes),
      page_bytes_(layout.page_bytes),
      page_tokens_(layout.page_tokens),
      capacity_(capacity),
      table_list_(static_cast<size_t>(table_count)) {
  // Left uninitialised so that memory for the longest contexts is committed only when they happen.
  const size_t entries = static_cast<size_t>(table_count) * static_cast<size_t>(capacity);
  tokens_ =
      std::make_unique_for_overwrite<int32_t[]>(static_cast<size_t>(limits.pages) * static_cast<size_t>(page_tokens_));
  table_ids_ = std::make_unique_for_overwrite<int32_t[]>(entries);
  table_addresses_ = std::make_unique_for_overwrite<std::byte*[]>(entries);
  const size_t leaves = leaves_for(limits.max_tokens);
  table_leaves_ = std::make_unique<Digest[]>(static_cast<size_t>(table_count) * leaves);
  for (size_t i = 0; i < table_list_.size(); ++i) {
    const size_t first = i * static_cast<size_t>(capacity);
    table_list_[i] =
        Table{0, table_ids_.get() + first, table_addresses_.get() + first, table_leaves_.get() + i * leaves};
  }
}

std::byte* Pools::bank(int32_t i) const {
  CHECK(i >= 0 && i < banks.size());
  return bank_memory_.data() + static_cast<uint64_t>(i) * bank_bytes_;
}

std::byte* Pools::page(int32_t i) const {
  CHECK(i >= 0 && i < pages.size());
  return page_memory_.data() + static_cast<uint64_t>(i) * page_bytes_;
}

int32_t* Pools::page_tokens(int32_t i) const {
  CHECK(i >= 0 && i < pages.size());
  return tokens_.get() + static_cast<size_t>(i) * static_cast<size_t>(page_tokens_);
}

Table& Pools::table(int32_t i) {
  CHECK(i >= 0 && i < tables.size());
  return table_list_[static_cast<size_t>(i)];
}

const Table& Pools::table(int32_t i) const {
  CHECK(i >= 0 && i < tables.size());
  return table_list_[static_cast<size_t>(i)];
}

void Pools::drop_bank(int32_t i) {
  if (banks.drop(i)) poison(bank(i), bank_bytes_);
}

void Pools::drop_page(int32_t i) {
  if (!pages.drop(i)) return;
  poison(page(i), page_bytes_);
#ifdef EVROS_POISON
  std::memset(page_tokens(i), 0xFF, static_cast<size_t>(page_tokens_) * sizeof(int32_t));
#endif
}

void Pools::drop_table(int32_t i) {
  if (!tables.drop(i)) return;
  Table& gone = table(i);
  for (int32_t k = 0; k < gone.used; ++k) drop_page(gone.ids[k]);
  gone.used = 0;
}

void Pools::set_entry(Table& table, int32_t at, int32_t page_id) {
  CHECK(at >= table.used && at < capacity_);
  CHECK(pages.refs(page_id) > 0);
  table.ids[at] = page_id;
  table.addresses[at] = page(page_id);
}

int32_t Pools::share_table(int32_t from, int32_t count, int64_t frontier) {
  const int32_t made = tables.take();
  const Table& source = table(from);
  Table& copy = table(made);
  CHECK(copy.used == 0 && count <= source.used);
  for (int32_t k = 0; k < count; ++k) {
    pages.hold(source.ids[k]);
    set_entry(copy, k, source.ids[k]);
  }
  copy.used = count;
  std::copy_n(source.leaves, frontier / kLeafTokens, copy.leaves);
  return made;
}

Digest Pools::extend_leaves(Table& table, int64_t before, int64_t after) {
  std::array<int32_t, kLeafTokens> ids;
  const int64_t full = after / kLeafTokens;
  for (int64_t leaf = before / kLeafTokens; leaf <= full; ++leaf) {
    const int64_t first = leaf * kLeafTokens;
    const auto tokens = std::span(ids).first(static_cast<size_t>(std::min(kLeafTokens, after - first)));
    if (tokens.empty()) break;
    read_tokens(table, first, tokens);
    table.leaves[leaf] = digest(std::as_bytes(tokens));  // the last, incomplete one is written over when it has grown
  }
  return tree_root({table.leaves, static_cast<size_t>(full + (after % kLeafTokens != 0 ? 1 : 0))});
}

void Pools::read_tokens(const Table& table, int64_t first, std::span<int32_t> out) const {
  while (!out.empty()) {
    const int64_t offset = first % page_tokens_;
    const size_t count = std::min(out.size(), static_cast<size_t>(page_tokens_ - offset));
    std::copy_n(page_tokens(table.ids[first / page_tokens_]) + offset, count, out.begin());
    out = out.subspan(count);
    first += static_cast<int64_t>(count);
  }
}

// Test builds only: every byte 0xFF reads as NaN in all float types, so a read of something released shows at once.
void Pools::poison([[maybe_unused]] std::byte* data, [[maybe_unused]] uint64_t bytes) const {
#ifdef EVROS_POISON
  if (device_.host_addressable()) {
    if (bytes > 0) std::memset(data, 0xFF, bytes);
  } else {
    (void)device_.fill(data, 0xFF, bytes);  // an aid for tests: its failure must not become the program's
  }
#endif
}

}  // namespace evros::state
