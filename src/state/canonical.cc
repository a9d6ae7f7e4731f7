#include "state/canonical.h"

#include <algorithm>
#include <span>

#include "base/check.h"

namespace evros::state {
namespace {

Status cut(int32_t page, uint64_t offset, uint64_t bytes, const OnRun& on_run) {
  for (uint64_t done = 0; done < bytes; done += kRunBytes) {
    EVROS_TRY(on_run({page, offset + done, std::min(kRunBytes, bytes - done)}));
  }
  return {};
}

Status part_runs(const PagePart& part, int64_t frontier, const OnRun& on_run) {
  int64_t rows = frontier / part.tokens_per_row;
  for (int32_t page = 0; rows > 0; ++page, rows -= part.rows_per_page) {
    const auto here = static_cast<uint64_t>(std::min<int64_t>(rows, part.rows_per_page));
    EVROS_TRY(cut(page, part.offset, here * part.row_bytes, on_run));
  }
  return {};
}

}  // namespace

std::vector<Owner> owners(const Layout& layout) {
  std::vector<Owner> list;
  for (int i = 0; i < kOwnerCount; ++i) {
    const auto owner = static_cast<Owner>(i);
    const auto is_it = [&](const auto& place) { return place.owner == owner; };
    if (owner == Owner::tokens || owner == Owner::frontier ||
        std::any_of(layout.bank.begin(), layout.bank.end(), is_it) ||
        std::any_of(layout.page.begin(), layout.page.end(), is_it)) {
      list.push_back(owner);
    }
  }
  return list;
}

uint64_t owner_bytes(const Layout& layout, Owner owner, int64_t frontier) {
  CHECK(frontier >= 0);
  if (owner == Owner::frontier) return sizeof(int64_t);
  if (owner == Owner::tokens) return static_cast<uint64_t>(frontier) * sizeof(int32_t);
  uint64_t bytes = 0;
  for (const BankSlice& slice : layout.bank) bytes += slice.owner == owner ? slice.bytes : 0;
  for (const PagePart& part : layout.page) {
    if (part.owner == owner) bytes += static_cast<uint64_t>(frontier / part.tokens_per_row) * part.row_bytes;
  }
  return bytes;
}

Status for_runs(const Layout& layout, Owner owner, int64_t frontier, const OnRun& on_run) {
  for (const BankSlice& slice : layout.bank) {
    if (slice.owner == owner) EVROS_TRY(cut(-1, slice.offset, slice.bytes, on_run));
  }
  for (const PagePart& part : layout.page) {
    if (part.owner == owner) EVROS_TRY(part_runs(part, frontier, on_run));
  }
  return {};
}

Digest layout_digest(const Layout& layout) {
  TreeDigest tree;
  const auto put = [&](uint64_t value) { tree.update(std::as_bytes(std::span(&value, 1))); };
  put(layout.bank.size());
  for (const BankSlice& slice : layout.bank) {
    put(static_cast<uint64_t>(slice.owner));
    put(slice.bytes);
  }
  for (const PagePart& part : layout.page) {
    put(static_cast<uint64_t>(part.owner));
    put(static_cast<uint64_t>(part.layer));
    put(part.row_bytes);
    put(static_cast<uint64_t>(part.tokens_per_row));
  }
  return tree.root();
}

}  // namespace evros::state
