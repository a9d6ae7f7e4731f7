#include "text/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <queue>

#include "base/check.h"

namespace evros::text {
namespace {

// Below this length a scan over all pairs for every merge is faster than the queue.
constexpr size_t kShort = 32;
constexpr uint32_t kNone = ~uint32_t{0};

uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(size_t merges) {
  const size_t places = std::bit_ceil(std::max<size_t>(16, merges * 2));
  entries_.assign(places, Entry{kEmpty, 0, 0});
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(places));
}

size_t MergeTable::place(uint64_t pair) const {
  size_t i = static_cast<size_t>((pair ^ pair >> 29) * 0x9E3779B97F4A7C15u >> shift_);
  while (entries_[i].pair != kEmpty && entries_[i].pair != pair) i = (i + 1) & (entries_.size() - 1);
  return i;
}

bool MergeTable::add(int32_t left, int32_t right, int32_t result) {
  CHECK(left >= 0 && right >= 0 && (next_rank_ + 1) * 2 <= entries_.size());
  Entry& entry = entries_[place(pair_of(left, right))];
  if (entry.pair != kEmpty) return false;
  entry = {pair_of(left, right), next_rank_++, result};
  return true;
}

const MergeTable::Entry* MergeTable::find(int32_t left, int32_t right) const {
  const Entry& entry = entries_[place(pair_of(left, right))];
  return entry.pair == kEmpty ? nullptr : &entry;
}

void MergeTable::merge(std::span<const int32_t> symbols, std::vector<int32_t>& out) const {
  if (symbols.size() <= kShort) {
    merge_short(symbols, out);
  } else {
    merge_long(symbols, out);
  }
}

void MergeTable::merge_short(std::span<const int32_t> symbols, std::vector<int32_t>& out) const {
  std::array<int32_t, kShort> ids;
  std::array<const Entry*, kShort> merges;  // of ids[i] and ids[i + 1]
  size_t n = symbols.size();
  std::copy(symbols.begin(), symbols.end(), ids.begin());
  for (size_t i = 0; i + 1 < n; ++i) merges[i] = find(ids[i], ids[i + 1]);
  while (n > 1) {
    size_t best = n;
    for (size_t i = 0; i + 1 < n; ++i) {
      if (merges[i] && (best == n || merges[i]->rank < merges[best]->rank)) best = i;
    }
    if (best == n) break;
    ids[best] = merges[best]->result;
    --n;
    for (size_t i = best + 1; i < n; ++i) ids[i] = ids[i + 1];
    for (size_t i = best + 1; i + 1 < n; ++i) merges[i] = merges[i + 1];
    if (best + 1 < n) merges[best] = find(ids[best], ids[best + 1]);
    if (best > 0) merges[best - 1] = find(ids[best - 1], ids[best]);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n));
}

void MergeTable::merge_long(std::span<const int32_t> symbols, std::vector<int32_t>& out) const {
  struct Symbol {
    int32_t id;
    uint32_t previous, next;
  };
  struct Candidate {
    uint32_t rank, left;
    const Entry* entry;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
  };
  CHECK(symbols.size() < kNone);
  const auto n = static_cast<uint32_t>(symbols.size());
  std::vector<Symbol> list(n);
  for (uint32_t i = 0; i < n; ++i) list[i] = {symbols[i], i == 0 ? kNone : i - 1, i + 1 == n ? kNone : i + 1};
  std::vector<Candidate> initial;
  for (uint32_t i = 0; i + 1 < n; ++i) {
    if (const Entry* entry = find(symbols[i], symbols[i + 1])) initial.push_back({entry->rank, i, entry});
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue(std::greater<>{}, std::move(initial));
  const auto consider = [&](uint32_t left) {
    if (left == kNone || list[left].next == kNone) return;
    const Entry* entry = find(list[left].id, list[list[left].next].id);
    if (entry) queue.push({entry->rank, left, entry});
  };
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = list[best.left];
    // A candidate is out of date when either symbol was merged away meanwhile.
    if (left.id < 0 || left.next == kNone || pair_of(left.id, list[left.next].id) != best.entry->pair) continue;
    Symbol& right = list[left.next];
    left.id = best.entry->result;
    right.id = -1;
    left.next = right.next;
    if (left.next != kNone) list[left.next].previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
  for (uint32_t i = 0; i != kNone; i = list[i].next) out.push_back(list[i].id);
}

}  // namespace evros::text
