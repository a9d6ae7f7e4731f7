// Conservation: every reference count is the number of holders that can be named, and everything else is free exactly
// once.
#include <algorithm>

#include "state/store_impl.h"

namespace evros::state {

namespace {

void check_counts(const Counts& counts, const std::vector<int32_t>& expected) {
  CHECK(expected.size() == static_cast<size_t>(counts.size()));
  int32_t unheld = 0;
  for (int32_t i = 0; i < counts.size(); ++i) {
    CHECK(counts.refs(i) == expected[static_cast<size_t>(i)]);
    unheld += counts.refs(i) == 0 ? 1 : 0;
  }
  std::vector<int32_t> free = counts.free_list();
  std::sort(free.begin(), free.end());
  CHECK(std::adjacent_find(free.begin(), free.end()) == free.end());
  CHECK(static_cast<int32_t>(free.size()) == unheld);
  for (const int32_t i : free) CHECK(counts.refs(i) == 0);
}

}  // namespace

void Store::Impl::check_consistency() const {
  std::vector<int32_t> banks(static_cast<size_t>(pools->banks.size())), pages(static_cast<size_t>(pools->pages.size())),
      tables(static_cast<size_t>(pools->tables.size()));
  const auto count = [](std::vector<int32_t>& in, int32_t i) { ++in[static_cast<size_t>(i)]; };
  count(banks, kOriginBank);
  const auto count_entry = [&](const SlotEntry& entry) {
    CHECK(entry.live ? entry.bank >= 0 : entry.bank < 0);
    CHECK((entry.table >= 0) == (entry.frontier > 0));
    if (!entry.live) return;
    count(banks, entry.bank);
    if (entry.table < 0) return;
    count(tables, entry.table);
    CHECK(pools->table(entry.table).used >= pages_for(entry.frontier, layout.page_tokens));
  };
  for (const Record& each : records) {
    if (each.use == Record::Use::published) std::for_each(each.slots.begin(), each.slots.end(), count_entry);
  }
  for (const Checkpoint& each : checkpoints) {
    count_entry(each.image);
    if (!each.image.live) continue;
    const SlotEntry& owner = now().slots[static_cast<size_t>(each.owner.slot)];
    CHECK(owner.generation == each.owner.generation && is_prefix(owner, each.image));
  }
  for (const Draft& each : drafts) {
    if (!each.active) continue;
    count(banks, each.bank);
    count(tables, each.table);
    const Table& table = pools->table(each.table);
    for (int32_t k = 0; k < each.new_pages; ++k) count(pages, table.ids[table.used + k]);
  }
  for (int32_t t = 0; t < pools->tables.size(); ++t) {
    const Table& table = pools->table(t);
    CHECK(tables[static_cast<size_t>(t)] > 0 || table.used == 0);
    for (int32_t k = 0; k < table.used; ++k) count(pages, table.ids[k]);
  }
  check_counts(pools->banks, banks);
  check_counts(pools->pages, pages);
  check_counts(pools->tables, tables);
}

}  // namespace evros::state
