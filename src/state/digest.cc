#include "state/digest.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "state/canonical.h"

namespace evros::state {
namespace {

Digest tokens_digest(const View& view) {
  TreeDigest tree;
  std::array<int32_t, kDigestLeaf / sizeof(int32_t)> ids;
  for (int64_t first = 0; first < view.frontier(); first += static_cast<int64_t>(ids.size())) {
    const auto count = std::min<int64_t>(static_cast<int64_t>(ids.size()), view.frontier() - first);
    const auto part = std::span(ids).first(static_cast<size_t>(count));
    view.tokens(first, part);
    tree.update(std::as_bytes(part));
  }
  return tree.root();
}

}  // namespace

Digest frontier_digest(int64_t frontier) {
  TreeDigest tree;
  tree.update(std::as_bytes(std::span(&frontier, 1)));
  return tree.root();
}

Result<Digest> owner_digest(const Store& store, const View& view, Owner owner) {
  if (owner == Owner::tokens) return tokens_digest(view);
  if (owner == Owner::frontier) return frontier_digest(view.frontier());
  TreeDigest tree;
  std::vector<std::byte> buffer;
  const Status read = for_runs(store.layout(), owner, view.frontier(), [&](const Run& run) -> Status {
    buffer.resize(run.bytes);
    EVROS_TRY(store.device().download(buffer, (run.page < 0 ? view.bank() : view.pages()[run.page]) + run.offset));
    tree.update(buffer);
    return {};
  });
  EVROS_TRY(read);
  return tree.root();
}

Result<std::vector<OwnerDigest>> owner_digests(const Store& store, const View& view) {
  std::vector<OwnerDigest> all;
  for (const Owner owner : owners(store.layout())) {
    EVROS_ASSIGN(const Digest digest, owner_digest(store, view, owner));
    all.push_back({owner, digest});
  }
  return all;
}

Digest under_numerics(std::string_view numerics, const Digest& digest) {
  std::vector<std::byte> bytes(numerics.size() + sizeof digest);
  std::memcpy(bytes.data(), numerics.data(), numerics.size());
  std::memcpy(bytes.data() + numerics.size(), &digest, sizeof digest);
  return evros::digest(bytes);
}

Digest combined(std::string_view numerics, const std::vector<OwnerDigest>& digests) {
  TreeDigest tree;
  for (const OwnerDigest& each : digests) {
    if (each.owner == Owner::mtp_rows) continue;
    tree.update(std::as_bytes(std::span(&each.owner, 1)));
    tree.update(std::as_bytes(std::span(&each.digest, 1)));
  }
  return under_numerics(numerics, tree.root());
}

}  // namespace evros::state
