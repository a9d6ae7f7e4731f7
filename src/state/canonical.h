// The canonical byte order of docs/state.md, as a walk: which runs of memory, one after the other, are an owner's
// canonical form. Digests read along it, snapshots write along it and restoring fills along it, so that the order
// stands in one place.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "state/layout.h"

namespace evros::state {

/// A run of memory of an image, at most kRunBytes long: `bytes` at `offset` of its bank, or of one of its pages.
struct Run {
  int32_t page;  // -1: the bank
  uint64_t offset, bytes;
};
constexpr uint64_t kRunBytes = 1u << 20;
using OnRun = std::function<Status(const Run& run)>;

/// The owners that an image of this layout has, in the order of the enum; `tokens` and `frontier` are always among
/// them.
std::vector<Owner> owners(const Layout& layout);

/// Bytes of the owner's canonical form at this frontier.
uint64_t owner_bytes(const Layout& layout, Owner owner, int64_t frontier);

/// Calls `on_run` for every run of an owner that lies in the bank or in pages, in canonical order; stops at the first
/// error. Nothing for `tokens` and `frontier`, which are host values.
Status for_runs(const Layout& layout, Owner owner, int64_t frontier, const OnRun& on_run);

/// Of what an image consists besides its host values, as a digest: owners, layers, sizes and rows in canonical order.
/// Images of two stores may be exchanged when it is equal, wherever the bytes lie.
Digest layout_digest(const Layout& layout);

}  // namespace evros::state
