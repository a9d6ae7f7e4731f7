// Digests of what a sequence owns (docs/state.md "Digests"): over the canonical form, so that two images with the same
// history under the same numerics have the same digests wherever and however they were computed.
#pragma once

#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "state/store.h"

namespace evros::state {

struct OwnerDigest {
  Owner owner;
  Digest digest;
};

/// The tree digest of one owner of a view. Reads the owner whole (rows below the frontier) through the device, a
/// megabyte at a time; fails with the device's error. The thread that drives the device calls this.
Result<Digest> owner_digest(const Store& store, const View& view, Owner owner);

/// Of the owner `frontier` with this value.
Digest frontier_digest(int64_t frontier);

/// Of every owner that images of this store have, in the order of the enum.
Result<std::vector<OwnerDigest>> owner_digests(const Store& store, const View& view);

/// What a digest is called outside: only digests under one numerics id may be compared, so the id is mixed in.
Digest under_numerics(std::string_view numerics, const Digest& digest);

/// One digest for all owners of an image but `mtp_rows`, which a program without a draft head does not have. Over owner
/// numbers and digests, in the order given, under the numerics id.
Digest combined(std::string_view numerics, const std::vector<OwnerDigest>& digests);

}  // namespace evros::state
