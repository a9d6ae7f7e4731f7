#include "state/layout.h"

#include "base/check.h"

namespace evros::state {

std::string_view owner_name(Owner owner) {
  switch (owner) {
    case Owner::gdn_conv:
      return "gdn_conv";
    case Owner::gdn_state:
      return "gdn_state";
    case Owner::ple_history:
      return "ple_history";
    case Owner::ple_conv:
      return "ple_conv";
    case Owner::index_tail:
      return "index_tail";
    case Owner::residual:
      return "residual";
    case Owner::routes:
      return "routes";
    case Owner::logits:
      return "logits";
    case Owner::position:
      return "position";
    case Owner::kv_rows:
      return "kv_rows";
    case Owner::index_blocks:
      return "index_blocks";
    case Owner::mtp_rows:
      return "mtp_rows";
    case Owner::tokens:
      return "tokens";
    case Owner::frontier:
      return "frontier";
  }
  return "unknown";
}

const BankSlice& Layout::slice(Owner owner) const {
  const BankSlice* found = nullptr;
  for (const BankSlice& s : bank) {
    if (s.owner == owner) found = &s;
  }
  CHECK(found != nullptr);
  CHECK(found->offset + found->bytes <= bank_bytes);
  return *found;
}

}  // namespace evros::state
