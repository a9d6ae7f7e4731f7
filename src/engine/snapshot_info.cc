#include "engine/snapshot_info.h"

#include "base/sha256.h"
#include "engine/engine_impl.h"
#include "state/digest.h"
#include "state/snapshot.h"

namespace evros::engine {

Digests name_digests(const std::string& numerics, const std::vector<state::OwnerDigest>& all) {
  Digests out;
  out.numerics = numerics;
  for (const auto& [owner, digest] : all) {
    out.owners.push_back({std::string(state::owner_name(owner)), hex(state::under_numerics(numerics, digest))});
  }
  out.combined = hex(state::combined(numerics, all));
  return out;
}

Result<SnapshotInfo> inspect_snapshot(io::Io& io, const std::string& path) {
  EVROS_ASSIGN(const state::Snapshot snapshot, state::Snapshot::open(io, path));
  EVROS_TRY(snapshot.verify());
  const state::SnapshotHeader& header = snapshot.header();
  SnapshotInfo info;
  info.version = header.version;
  info.model = hex(header.identity.model);
  EVROS_ASSIGN(info.tokens, snapshot.tokens());
  info.attachment_bytes = header.attachment_bytes;
  std::vector<state::OwnerDigest> all;
  for (const state::SnapshotSection& section : header.sections) all.push_back({section.owner, section.digest});
  all.push_back({state::Owner::frontier, state::frontier_digest(header.frontier)});
  info.digests = name_digests(header.identity.numerics, all);
  return info;
}

}  // namespace evros::engine
