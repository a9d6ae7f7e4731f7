// Which bytes a sequence owns, and where they lie. The list of owners is closed (docs/state.md): every mutable byte
// that outlives a token belongs to exactly one of them. state/ moves and digests these bytes; only model/ knows what
// they mean.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace evros::state {

enum class Owner : uint8_t {
  gdn_conv,
  gdn_state,
  ple_history,
  ple_conv,
  index_tail,
  residual,
  routes,
  logits,
  position,  // banked
  kv_rows,
  index_blocks,
  mtp_rows,
  tokens,    // appended
  frontier,  // control
};
constexpr int kOwnerCount = 14;
std::string_view owner_name(Owner owner);

/// A banked owner: `bytes` at `offset` of every bank. Offsets are 64-byte aligned; gaps belong to nobody.
struct BankSlice {
  Owner owner;
  uint64_t offset, bytes;
};

/// Rows of an appended owner inside a page: one row per `tokens_per_row` positions, `rows_per_page` of them from
/// `offset`. A row exists once its last position is below the frontier. Canonical order: parts in list order, rows
/// ascending.
struct PagePart {
  Owner owner;
  int32_t layer;  // for messages
  uint64_t offset, row_bytes;
  int32_t tokens_per_row, rows_per_page;
};

struct Layout {
  std::vector<BankSlice> bank;  // banked owners in the order of the enum
  uint64_t bank_bytes = 0;
  std::vector<PagePart> page;  // kv_rows, index_blocks, mtp_rows; device memory
  uint64_t page_bytes = 0;
  int32_t page_tokens = 0;        // positions per page; a multiple of every tokens_per_row
  std::vector<std::byte> origin;  // [bank_bytes] the bank of a sequence without tokens: zeros and EOS ids

  const BankSlice& slice(Owner owner) const;  // CHECKs that it exists
};

/// Pages that hold positions [0, tokens).
constexpr int32_t pages_for(int64_t tokens, int32_t page_tokens) {
  return static_cast<int32_t>((tokens + page_tokens - 1) / page_tokens);
}

}  // namespace evros::state
